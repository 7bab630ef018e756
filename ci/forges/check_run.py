"""A check run as GitHub takes it, with annotations at lines of code."""

from dataclasses import dataclass
from typing import Literal

Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled", "timed_out"]


Level = Literal["notice", "warning", "failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark at a line of the repository. The text is plain: no Markdown is read in it."""

    path: str
    line: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """What a check run says. Annotations are all there are; a request takes 50."""

    name: str
    head: str
    conclusion: Conclusion | None  # None: it is in progress
    title: str
    summary: str
    annotations: tuple[Annotation, ...]
    workflow_run: str | None = None  # whose artefacts it tells of, where somebody may want them again
    details_url: str | None = None  # of the log
