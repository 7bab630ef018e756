"""A check run of GitHub, with annotations at lines of code."""

from dataclasses import dataclass
from typing import Literal

Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled", "timed_out"]
Level = Literal["notice", "warning", "failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnnotation:
    """An annotation at a line of the repository, in plain text."""

    path: str
    line: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A check run with all its annotations; a request holds 50 of them."""

    name: str
    head: str
    conclusion: Conclusion | None  # None: in progress
    title: str
    summary: str
    annotations: tuple[CheckAnnotation, ...]
    workflow_run: str | None = None  # the workflow run whose artefacts it reports
    details_url: str | None = None  # of the log
