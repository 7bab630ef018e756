"""Labels of a gate's artefact, titles, cells, sentences; and acceptances in replies, applied to it.

`quote` escapes the artefact's texts, which are untrusted, for the format of the report.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard.model.comparison import Acceptance, Outcome, outcome_of
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import Quote, threshold_note
from warpwatch.dashboard.text.labels import count, shortened
from warpwatch.dashboard.web.urls import compare_address, project_in_path

from ..acceptance import covering
from ..asv_checkout import bench_pattern
from ..gate.artefact import CUT, ArtefactAcceptance, ArtefactRow, CodeDifference, CodeFact, GateArtefact
from ..gate.gate_loop import cost_sentence

_IN_TITLES = (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.IMPROVED)
_NAMED = 3  # failing benchmarks listed by name
_VERBS = {
    Verdict.REGRESSED: "regressed",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.IMPROVED: "improved",
}
_MOST_FACTS = 4
_LONGEST_NAME = 300


def title(artefact: GateArtefact, quote: Quote = str) -> str:
    """The verdict as a title: "1 series regressed, 2 improved on Tesla T4"; failing benchmarks come first."""
    on = f" on {quote(location(artefact))}" if location(artefact) else ""
    first = [part for part in (quote(artefact.fault) if artefact.fault else "", failing(artefact, quote)) if part]
    changed = _changed_series(artefact)
    if changed or not first:
        first.append(changed or _nothing_changed(artefact))
    return "; ".join(first) + on


def failing(artefact: GateArtefact, quote: Quote = str) -> str:
    """ "2 benchmarks fail at head: rope(fp16), rope(fp32)"; empty if none fails."""
    rows = [row for row in artefact.rows if row.fails and row.accepted is None]
    left_out = sum(each.count for each in artefact.left_out if each.fails and not each.accepted)
    names = list(dict.fromkeys(row.series.title for row in rows))  # a benchmark may have several metrics
    total = len(names) + left_out
    if not total:
        return ""
    listed = ", ".join(quote(name) for name in names[:_NAMED])
    more = f" and {total - _NAMED} more" if total > _NAMED else ""
    return f"{count(total, 'benchmark')} {'fail' if total > 1 else 'fails'} at head: {listed}{more}"


def _changed_series(artefact: GateArtefact) -> str:
    accepted = [row for row in artefact.rows if row.accepted is not None]
    missing = sum(row.fails for row in accepted)
    counts = {
        verdict: artefact.count(verdict) - sum(row.verdict is verdict for row in accepted) for verdict in _IN_TITLES
    }
    parts = [f"{len(accepted) - missing} accepted as slower"] * (len(accepted) > missing)
    parts += [f"{missing} accepted as missing"] * (missing > 0)
    parts += [f"{counts[verdict]} {_VERBS[verdict]}" for verdict in _IN_TITLES if counts[verdict]]
    if not parts:
        return ""
    first, _, rest = parts[0].partition(" ")
    return ", ".join([f"{first} series {rest}", *parts[1:]])


def _nothing_changed(artefact: GateArtefact) -> str:
    unchanged = artefact.count(Verdict.UNCHANGED)
    return f"no change in {count(unchanged, 'series', 'series')}" if unchanged else "nothing to compare"


def location(artefact: GateArtefact) -> str:
    """The GPU's name, else the machine's."""
    return artefact.gpu or artefact.machine or ""


def worst(artefacts: Sequence[GateArtefact]) -> Outcome:
    order = list(Outcome)
    return min((artefact.outcome for artefact in artefacts), key=order.index)


def name(row: ArtefactRow) -> str:
    """The series' title in a table row, with the metric unless the benchmark's name has it."""
    title = shortened(row.series.title, _LONGEST_NAME)
    return title if row.series.metric in row.series.benchmark else f"{title} {row.series.metric}"


def code_facts(code: CodeDifference, quote: Quote = str) -> str:
    """Changes of compiled code: "registers 96 → 128, instructions 400 → 512"."""
    if code.state != "changed":
        return code.state
    facts = [_fact(fact, quote(fact.name)) for fact in code.facts]
    facts += [_fact(each, "instructions" if each.name == "total" else quote(each.name)) for each in code.instructions]
    if not facts:
        return "equal counts, reordered"
    more = f", {len(facts) - _MOST_FACTS} more" if len(facts) > _MOST_FACTS else ""
    return ", ".join(facts[:_MOST_FACTS]) + more


def cost(artefact: GateArtefact) -> str:
    """Runs and time of the gate, and its error rate."""
    spent, note = artefact.cost, threshold_note(artefact.threshold, artefact.rows)
    sentence = cost_sentence(spent.runs, spent.minutes, spent.stopped, artefact.count(Verdict.INCONCLUSIVE))
    return (
        f"{sentence} {note[:1].upper()}{note[1:]}; "
        f"the probability of any false alarm is {artefact.family_error * 100:.3g} %."
    )


def _fact(fact: CodeFact, name: str) -> str:
    return f"{name} {quantity(fact.before, fact.unit)} → {quantity(fact.after, fact.unit)}"


_MOST_PATTERNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Links to the dashboard; None without one."""

    dashboard: str | None = None

    def comparison(self, artefact: GateArtefact) -> str | None:
        """The page that compares the two commits."""
        if self.dashboard is None:
            return None
        return self._root + compare_address(artefact.project, artefact.base.hash, artefact.head.hash)

    def series(self, artefact: GateArtefact, row: ArtefactRow) -> str | None:
        """The page of a row's history."""
        if self.dashboard is None:
            return None
        return f"{self._root}/{project_in_path(artefact.project)}/series/{row.series.key}"

    @property
    def _root(self) -> str:
        return (self.dashboard or "").rstrip("/")


def reproduce(artefact: GateArtefact, rows: Iterable[ArtefactRow]) -> str | None:
    """The shell command that measures these rows again; None if asv did not measure them or a name was cut."""
    whole = (row.series for row in rows if _is_whole(row))
    patterns = list(dict.fromkeys(bench_pattern(each.suite, each.parameters.items()) for each in whole))
    if not patterns:
        return None
    words = [f"--bench {shlex.quote(pattern)}" for pattern in patterns[:_MOST_PATTERNS]]
    return f"warpwatch gate {artefact.base.hash} {artefact.head.hash} " + " ".join(words)


def _is_whole(row: ArtefactRow) -> bool:
    texts = (row.series.benchmark, *row.series.parameters.values())
    return row.series.measured_by_asv and not any(text.endswith(CUT) for text in texts)


_MOST_EXPIRED = 10


def with_replies(
    artefact: GateArtefact, replies: Sequence[Acceptance], expired: Sequence[Acceptance] = ()
) -> GateArtefact:
    """The artefact with each row accepted by the first reply that covers it; earlier acceptances stay.

    Its notes list replies to an earlier head that would cover a blocking row.
    """
    rows = tuple(_accepted(row, replies) for row in artefact.rows)
    relevant = [each for each in expired if any(row.is_blocking and covering([each], row) for row in rows)]
    notes = tuple(dict.fromkeys(_expired_note(each, artefact.head.hash) for each in relevant))
    return artefact.model_copy(
        update={
            "rows": rows,
            "outcome": outcome_of((*rows, *artefact.left_out)),
            "notes": (*artefact.notes, *notes[:_MOST_EXPIRED]),
        }
    )


def _expired_note(reply: Acceptance, head: str) -> str:
    return (
        f"{reply.pattern}, accepted by {reply.by} ({reply.source}) before {head[:8]}, has expired: reply again if it "
        f"is still meant ({reply.reason[:200]})"
    )


def _accepted(row: ArtefactRow, replies: Sequence[Acceptance]) -> ArtefactRow:
    reply = covering(replies, row) if row.accepted is None else None
    if reply is None:
        return row
    return row.model_copy(update={"accepted": ArtefactAcceptance.bounded(reply.model_dump())})
