"""What is said of a gate's artefact in words: titles, cells, sentences.

`quote` gets each of the artefact's own words, which are a stranger's, and makes them fit where the sentence will stand.
"""

from collections.abc import Sequence

from warpwatch.dashboard.model.comparison import Outcome
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import Quote, threshold_note
from warpwatch.dashboard.text.labels import count

from ..gate.artefact import CUT, ArtefactRow, CodeDifference, CodeFact, GateArtefact
from ..gate.gate_loop import cost_sentence

_IN_TITLES = (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.IMPROVED)
_NAMED = 3  # benchmarks that fail, by name
_VERBS = {
    Verdict.REGRESSED: "regressed",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.IMPROVED: "improved",
}
_MOST_FACTS = 4
_LONGEST_NAME = 300


def title(artefact: GateArtefact, quote: Quote = str) -> str:
    """The verdict in a few words: "1 series regressed, 2 improved on Tesla T4"; before that what fails, by name."""
    on = f" on {quote(place(artefact))}" if place(artefact) else ""
    first = [part for part in (quote(artefact.fault) if artefact.fault else "", failing(artefact, quote)) if part]
    moved = _moved_series(artefact)
    if moved or not first:
        first.append(moved or _nothing_moved(artefact))
    return "; ".join(first) + on


def failing(artefact: GateArtefact, quote: Quote = str) -> str:
    """ "2 benchmarks fail at head: rope(fp16), rope(fp32)"; empty where none does."""
    rows = [row for row in artefact.rows if row.fails and row.accepted is None]
    beyond = sum(each.count for each in artefact.left_out if each.fails and not each.accepted)
    names = list(dict.fromkeys(row.series.title for row in rows))  # a benchmark may have several metrics
    many = len(names) + beyond
    if not many:
        return ""
    shown = ", ".join(quote(name) for name in names[:_NAMED])
    more = f" and {many - _NAMED} more" if many > _NAMED else ""
    return f"{count(many, 'benchmark')} {'fail' if many > 1 else 'fails'} at head: {shown}{more}"


def _moved_series(artefact: GateArtefact) -> str:
    accepted = [row for row in artefact.rows if row.accepted is not None]
    gone = sum(row.fails for row in accepted)
    counts = {
        verdict: artefact.count(verdict) - sum(row.verdict is verdict for row in accepted) for verdict in _IN_TITLES
    }
    told = [f"{len(accepted) - gone} accepted as slower"] * (len(accepted) > gone) + [f"{gone} accepted as gone"] * (
        gone > 0
    )
    told += [f"{counts[verdict]} {_VERBS[verdict]}" for verdict in _IN_TITLES if counts[verdict]]
    if not told:
        return ""
    first, _, rest = told[0].partition(" ")
    return ", ".join([f"{first} series {rest}", *told[1:]])


def _nothing_moved(artefact: GateArtefact) -> str:
    unchanged = artefact.count(Verdict.UNCHANGED)
    return f"no change in {count(unchanged, 'series', 'series')}" if unchanged else "nothing to compare"


def place(artefact: GateArtefact) -> str:
    """Where it was measured: the GPU's name, else the machine's."""
    return artefact.gpu or artefact.machine or ""


def worst(artefacts: Sequence[GateArtefact]) -> Outcome:
    """The worst outcome of all machines."""
    order = list(Outcome)
    return min((artefact.outcome for artefact in artefacts), key=order.index)


def name(row: ArtefactRow) -> str:
    """What a row is called where there is a line for it; the metric where its benchmark's name does not say it."""
    title = row.series.title
    shown = title if len(title) <= _LONGEST_NAME else title[: _LONGEST_NAME - 1] + CUT
    return shown if row.series.metric in row.series.benchmark else f"{shown} {row.series.metric}"


def code_facts(code: CodeDifference, quote: Quote = str) -> str:
    """What the compiler made of it: "registers 96 → 128, instructions 400 → 512"."""
    if code.state != "changed":
        return code.state
    told = [_fact(fact, quote(fact.name)) for fact in code.facts]
    told += [_fact(each, "instructions" if each.name == "total" else quote(each.name)) for each in code.instructions]
    if not told:
        return "other machine code, the same counts"
    more = f", {len(told) - _MOST_FACTS} more" if len(told) > _MOST_FACTS else ""
    return ", ".join(told[:_MOST_FACTS]) + more


def cost(artefact: GateArtefact) -> str:
    """What the gate took, and its error rate."""
    spent, note = artefact.cost, threshold_note(artefact.threshold, artefact.rows)
    sentence = cost_sentence(spent.runs, spent.minutes, spent.stopped, artefact.count(Verdict.INCONCLUSIVE))
    return (
        f"{sentence} {note[:1].upper()}{note[1:]}; "
        f"the chance of any false alarm is {artefact.family_error * 100:.3g} %."
    )


def _fact(fact: CodeFact, name: str) -> str:
    return f"{name} {quantity(fact.before, fact.unit)} → {quantity(fact.after, fact.unit)}"
