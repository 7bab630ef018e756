"""Markdown reports of a gate: comments on pull requests, notes on merge requests, summaries of jobs."""

from collections.abc import Sequence

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import (
    OUTCOMES,
    change_with_interval,
    direction,
    drift_sentence,
    levels,
    remark,
)
from warpwatch.dashboard.text.markdown import code_span

from ..forges.check_run import CheckAnnotation, CheckRun, Conclusion
from ..gate.artefact import ArtefactRow, GateArtefact, plain
from . import gate_labels
from .gate_labels import Links, reproduce
from .report_tables import block, changed_rows, compiled_code, details, folded_rows, has_changed, size, widths

GITHUB_MOST = 65_000  # characters; GitHub accepts 65,536, and the hidden marker needs some
GITLAB_MOST = 900_000  # GitLab accepts 1,000,000
SUMMARY_MOST = 250_000  # a job summary may have 1 MiB, a character up to four bytes
_LONGEST_COMMAND = 4_000
_ACCEPT = "Intended? Users with write access can reply `/warpwatch accept <glob> <why>`."


def markdown(artefacts: Sequence[GateArtefact], links: Links, most: int = GITHUB_MOST) -> str:
    """The report on all machines, in at most `most` characters; it counts the rows that do not fit."""
    head = [f"### warpwatch: {OUTCOMES[gate_labels.worst(artefacts)]}", _sentence(artefacts)]
    closing = _closing(artefacts, links)
    room = (most - widths([*head, *closing])) // len(artefacts)
    body = [part for artefact in artefacts for part in _machine(artefact, links, room, len(artefacts) > 1)]
    text = "\n\n".join([*head, *body, *closing])
    if size(text) <= most:
        return text
    # Too many machines for tables.
    return "\n\n".join([head[0], "The rows do not fit here.", *closing])


def _sentence(artefacts: Sequence[GateArtefact]) -> str:
    """The verdicts of all machines, and whether they block."""
    verdicts = "; ".join(_verdict(artefact) for artefact in artefacts)
    verdicts = verdicts[:1].upper() + verdicts[1:]
    blocks = " **This blocks merging.**" if any(artefact.is_blocking for artefact in artefacts) else ""
    return f"{verdicts}.{blocks}"


def _verdict(artefact: GateArtefact) -> str:
    """The worst regressed row, else counts."""
    bad = [row for row in artefact.rows if row.verdict is Verdict.REGRESSED and row.accepted is None]
    if not bad:
        return gate_labels.title(artefact, code_span)
    row = bad[0]
    on = f" on {code_span(gate_labels.location(artefact))}" if gate_labels.location(artefact) else ""
    compiled = "".join(f"; {gate_labels.code_facts(each, code_span)}" for each in artefact.code_of(row)[:1])
    more = f" ({len(bad) - 1} more series regressed)" if len(bad) > 1 else ""
    worst = f"{code_span(gate_labels.name(row))}{on} is {direction(row) or 'worse'}: **{change_with_interval(row)}**"
    first = (code_span(artefact.fault) if artefact.fault else "", gate_labels.failing(artefact, code_span))
    return "; ".join([*filter(None, first), f"{worst}, {levels(row, code_span)}{compiled}{more}"])


def _machine(artefact: GateArtefact, links: Links, most: int, with_heading: bool) -> list[str]:
    """The report on one machine, in at most `most` characters; changed rows get most of them."""
    parts = [f"#### {code_span(gate_labels.location(artefact))}: {OUTCOMES[artefact.outcome]}"] if with_heading else []
    changed = [row for row in artefact.rows if has_changed(row)]
    command = reproduce(artefact, [row for row in changed if row.verdict is Verdict.REGRESSED] or changed)
    again = []
    if command is not None and size(command) <= _LONGEST_COMMAND:
        again.append(details("Measure it again", block(command)))
    notes = "\n".join(f"- {code_span(note)}" for note in artefact.notes)
    drift = drift_sentence(artefact.drift, code_span) if artefact.drift is not None else ""
    ending = [part for part in (drift, notes, gate_labels.cost(artefact)) if part]
    most -= widths([*parts, *again, *ending])
    parts += changed_rows(artefact, links, int(0.6 * most))
    parts += compiled_code(artefact, int(0.2 * most))
    room = most - widths(parts)
    return [*parts, *folded_rows(artefact, links, room), *again, *ending]


def _closing(artefacts: Sequence[GateArtefact], links: Links) -> list[str]:
    """Commits and links. Hashes are plain text, so that the forge links them."""
    first = artefacts[0]
    address = links.comparison(first)
    compared = f" · [compare on the dashboard]({address})" if address else ""
    subject = f" {code_span(first.head.subject)}" if first.head.subject else ""
    closing = [f"{first.base.hash} → {first.head.hash}{subject}{compared}"]
    can_accept = any(row.is_blocking and row.may_be_accepted for artefact in artefacts for row in artefact.rows)
    return [*closing, _ACCEPT] if can_accept else closing


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
