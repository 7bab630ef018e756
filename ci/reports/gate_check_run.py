"""A check run of GitHub for a gate: conclusion, title, summary, and annotations at benchmarks."""

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import change_with_interval, levels, remark

from ..forges.check_run import CheckAnnotation, CheckRun, Conclusion
from ..gate.artefact import ArtefactRow, GateArtefact, plain
from . import gate_labels
from .comment import GITHUB_MOST, markdown
from .report_links import Links

MOST_ANNOTATIONS = 200
_LONGEST_TITLE = 255
_LINES_EACH = 20


def check_run(artefact: GateArtefact, links: Links) -> CheckRun:
    """The check run of one machine's gate."""
    return CheckRun(
        # Never the bare name, which a branch may require: the machine's name is untrusted, or missing.
        name=plain(f"warpwatch gate ({gate_labels.location(artefact) or 'no machine'})", 100),
        head=artefact.head.hash,
        conclusion=conclusion(artefact),
        title=plain(gate_labels.title(artefact), _LONGEST_TITLE),
        summary=markdown([artefact], links, GITHUB_MOST),
        annotations=_annotations(artefact),
    )


def conclusion(artefact: GateArtefact) -> Conclusion:
    """Failure if the gate blocks; neutral if inconclusive, or regressed without blocking; else success."""
    if artefact.is_blocking:
        return "failure"
    return "neutral" if artefact.outcome in {Outcome.REGRESSED, Outcome.INCONCLUSIVE} else "success"


def _annotations(artefact: GateArtefact) -> tuple[CheckAnnotation, ...]:
    """One annotation per benchmark, at its definition."""
    by_location: dict[tuple[str, int], list[ArtefactRow]] = {}
    for row in artefact.rows:
        if (row.fails or row.verdict is Verdict.REGRESSED) and row.accepted is None and row.source is not None:
            by_location.setdefault((row.source.path, row.source.line), []).append(row)
    return tuple(_annotation(*location, rows) for location, rows in list(by_location.items())[:MOST_ANNOTATIONS])


def _annotation(path: str, line: int, rows: list[ArtefactRow]) -> CheckAnnotation:
    regressed = sum(row.verdict is Verdict.REGRESSED for row in rows)
    failing = sum(row.fails for row in rows)
    counts = [f"{regressed} regressed"] * (regressed > 0) + [f"{failing} without a value at head"] * (failing > 0)
    title = ", ".join(counts)
    lines = [
        (f"{gate_labels.name(row)}: {levels(row)}, {change_with_interval(row)} {remark(row)}").strip() for row in rows
    ]
    more = [f"… and {len(rows) - _LINES_EACH} more"] if len(rows) > _LINES_EACH else []
    return CheckAnnotation(
        path=path,
        line=line,
        level="failure" if any(row.is_blocking for row in rows) else "warning",
        title=f"{title}: {rows[0].series.benchmark}"[:_LONGEST_TITLE],
        message="\n".join(lines[:_LINES_EACH] + more),
    )
