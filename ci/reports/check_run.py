"""A gate as a check run of GitHub's: a conclusion, a title, a summary in Markdown, and remarks at lines of code."""

from dataclasses import dataclass
from typing import Literal

from warpwatch.ci.gate.artefact import ArtefactRow, GateArtefact, GateVerdict, plain
from warpwatch.ci.reports import words
from warpwatch.ci.reports.comment import GITHUB_MOST, markdown
from warpwatch.ci.reports.links import Links
from warpwatch.dashboard.verdict import Verdict

Conclusion = Literal["success", "failure", "neutral", "action_required", "cancelled", "timed_out"]
Level = Literal["notice", "warning", "failure"]
MOST_ANNOTATIONS = 200
_LONGEST_TITLE = 255
_LINES_EACH = 20


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


def check_run(artefact: GateArtefact, links: Links) -> CheckRun:
    """The check run of one machine's gate."""
    return CheckRun(
        # Never the name alone, which a branch may require: the machine's is a stranger's word, or missing.
        name=plain(f"warpwatch gate ({words.place(artefact) or 'no machine'})", 100),
        head=artefact.head.hash,
        conclusion=conclusion(artefact),
        title=plain(words.title(artefact), _LONGEST_TITLE),
        summary=markdown([artefact], links, GITHUB_MOST),
        annotations=_annotations(artefact),
    )


def conclusion(artefact: GateArtefact) -> Conclusion:
    """Failure is for what blocks; what could not be told, or is told and does not block, is neither good nor bad."""
    if artefact.is_blocking:
        return "failure"
    return "neutral" if artefact.verdict in {GateVerdict.REGRESSED, GateVerdict.INCONCLUSIVE} else "success"


def _annotations(artefact: GateArtefact) -> tuple[Annotation, ...]:
    """One a benchmark, at the line that defines it: its workloads together."""
    told: dict[tuple[str, int], list[ArtefactRow]] = {}
    for row in artefact.rows:
        if (row.fails or row.verdict is Verdict.REGRESSED) and row.accepted is None and row.source is not None:
            told.setdefault((row.source.path, row.source.line), []).append(row)
    return tuple(_annotation(*place, rows) for place, rows in list(told.items())[:MOST_ANNOTATIONS])


def _annotation(path: str, line: int, rows: list[ArtefactRow]) -> Annotation:
    regressed = sum(row.verdict is Verdict.REGRESSED for row in rows)
    failing = sum(row.fails for row in rows)
    said = [f"{regressed} regressed"] * (regressed > 0) + [f"{failing} without a number at head"] * (failing > 0)
    title = ", ".join(said)
    lines = [f"{words.name(row)}: {words.levels(row)}, {words.moved(row)} {words.remark(row)}".strip() for row in rows]
    more = [f"… and {len(rows) - _LINES_EACH} more"] if len(rows) > _LINES_EACH else []
    return Annotation(
        path=path, line=line, level="failure" if any(row.is_blocking for row in rows) else "warning",
        title=f"{title}: {rows[0].benchmark}"[:_LONGEST_TITLE], message="\n".join(lines[:_LINES_EACH] + more),
    )  # fmt: skip
