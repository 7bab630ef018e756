"""Markdown reports of a gate: comments on pull requests, notes on merge requests, summaries of jobs."""

from collections.abc import Sequence

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.quantities import change
from warpwatch.dashboard.model.verdict import CHANGED, Verdict
from warpwatch.dashboard.text.comparison_labels import (
    OUTCOMES,
    change_with_interval,
    direction,
    drift_sentence,
    levels,
    remark,
    times_noise,
)
from warpwatch.dashboard.text.markdown import code_span, longest_run

from ..forges.github import CheckAnnotation, CheckRun, Conclusion
from ..gate.artefact import ArtefactRow, GateArtefact, plain
from . import gate_labels
from .gate_labels import Links, reproduce

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


# Untrusted texts are only in code spans (see `dashboard/text/markdown.py`) and code blocks.


def block(text: str) -> str:
    """The text as a code block for a shell."""
    fence = "`" * max(longest_run(text) + 1, 3)
    return f"{fence}sh\n{text}\n{fence}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> tuple[str, int]:
    """A table with as many rows as fit into `most` characters, and the number of rows left out.

    Cells are Markdown. A column whose name starts with ">" is right-aligned. Empty without rows.
    """
    head = [
        "| " + " | ".join(name.removeprefix(">") for name in columns) + " |",
        "|" + "|".join("--:" if name.startswith(">") else "---" for name in columns) + "|",
    ]
    lines, used = head, sum(size(line) + 1 for line in head)
    for number, cells in enumerate(rows):
        # A bar ends a cell, even in code.
        line = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        used += size(line) + 1
        if used > most:
            return ("\n".join(lines) if number else ""), len(rows) - number
        lines.append(line)
    return ("\n".join(lines) if rows else ""), 0


def details(summary: str, text: str) -> str:
    """A folded text. `summary` is our own text, in which forges read no Markdown."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def size(text: str) -> int:
    """Number of UTF-16 units, which forges count."""
    return len(text) + sum(sign > "\uffff" for sign in text)


_COLUMNS = ("", "series", ">base → head", ">Δ (95 %)", ">times the noise of a run", ">controls")
_EMPTY = {"", "–"}
_FOLDED = (
    (Verdict.INCONCLUSIVE, "inconclusive"),
    (Verdict.UNCHANGED, "unchanged"),
    (Verdict.MISSING, "with nothing to compare"),
)
_AROUND = 200  # characters around a folded table


def has_changed(row: ArtefactRow) -> bool:
    """Whether the row regressed, improved or fails at head."""
    return row.fails or row.verdict in CHANGED


def changed_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    """The changed rows, in about `most` characters."""
    rows = [row for row in artefact.rows if has_changed(row)]
    cells = [_cells(artefact, row, links) for row in rows]
    for row, each in zip(rows, cells, strict=True):
        each[0] = f"**{row.verdict.value}**" if row.is_blocking else row.verdict.value
    text, left = _narrow_table(cells, most)
    left += sum(each.count for each in artefact.left_out if each.fails or each.verdict in CHANGED)
    return [part for part in (text, _not_shown(left, "changed rows")) if part]


def compiled_code(artefact: GateArtefact, most: int) -> list[str]:
    """The kernels with changed machine code."""
    cells = [
        [code_span(each.kernel), code_span(each.architecture), gate_labels.code_facts(each, code_span)]
        for each in artefact.code
    ]
    text, left = table(("changed kernel", "for", "changes"), cells, most)
    return [part for part in (text, _not_shown(left + artefact.code_left_out, "changed kernels")) if part]


def folded_rows(artefact: GateArtefact, links: Links, most: int) -> list[str]:
    parts = []
    for verdict, what in _FOLDED:
        rows = [row for row in artefact.rows if row.verdict is verdict and not row.fails]
        left_out = artefact.count(verdict) - sum(row.verdict is verdict for row in artefact.rows)
        if not rows and not left_out:
            continue
        text, left = _narrow_table([_cells(artefact, row, links) for row in rows], most - _AROUND)
        content = [part for part in (text, _not_shown(left + left_out, "rows")) if part]
        parts.append(details(f"{len(rows) + left_out} {what}", "\n\n".join(content)))
        most -= size(parts[-1]) + 2
    return parts


def _cells(artefact: GateArtefact, row: ArtefactRow, links: Links) -> list[str]:
    address = links.series(artefact, row)
    name = code_span(gate_labels.name(row)) + (f" [history]({address})" if address else "")
    why = remark(row, code_span)
    return [
        "",
        f"{name}<br>{why}" if why else name,
        _unbroken(levels(row, code_span)),
        _unbroken(change_with_interval(row)),
        times_noise(row),
        change(row.control_change),
    ]


def _narrow_table(cells: Sequence[Sequence[str]], most: int) -> tuple[str, int]:
    """A table without empty columns."""
    columns = [at for at in range(len(_COLUMNS)) if any(row[at] not in _EMPTY for row in cells)]
    return table([_COLUMNS[at] for at in columns], [[row[at] for at in columns] for row in cells], most)


def _unbroken(text: str) -> str:
    """The text with no-break spaces between numbers and units."""
    if not text.strip("– →"):
        return "–"
    if "`" in text:
        return text  # with an unknown unit
    unbroken = text.replace(" ", "\N{NO-BREAK SPACE}")
    for before in ("→", "(", "…"):
        unbroken = unbroken.replace(f"\N{NO-BREAK SPACE}{before}", f" {before}")
    return unbroken


def _not_shown(left: int, what: str) -> str:
    return f"{left} more {what} not shown." if left else ""


def widths(parts: Sequence[str]) -> int:
    """Size of paragraphs with blank lines between them."""
    return sum(size(part) + 2 for part in parts)
