"""What is said of a gate's artefact in words: titles, cells, sentences.

`quote` gets each of the artefact's own words, which are a stranger's, and makes them fit where the sentence will stand.
"""

from collections.abc import Callable, Sequence

from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.quantities import change, number, quantity, share
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.text.comparison_labels import MOST_RUNS_ADVISED, NOISE_BY
from warpwatch.dashboard.text.labels import change_word, count

from ..gate.artefact import CUT, ArtefactRow, CodeDifference, CodeFact, GateArtefact, GateVerdict
from ..gate.gate_loop import END_REASONS, End

_IN_TITLES = (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.IMPROVED)
_NAMED = 3  # benchmarks that fail, by name
_VERBS = {
    Verdict.REGRESSED: "regressed",
    Verdict.INCONCLUSIVE: "could not be told",
    Verdict.IMPROVED: "improved",
}
_MAY_BLOCK = {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
_MOST_FACTS = 4
_LONGEST_NAME = 300
_KNOWN_UNITS = {"seconds", "bytes", "launches", "registers", "instructions", ""}
Quote = Callable[[str], str]


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
    names = list(dict.fromkeys(row.title for row in rows))  # a benchmark may have several metrics
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


def worst(artefacts: Sequence[GateArtefact]) -> GateVerdict:
    """Of all machines."""
    order = list(GateVerdict)
    return min((artefact.verdict for artefact in artefacts), key=order.index)


def name(row: ArtefactRow) -> str:
    """What a row is called where there is a line for it; the metric where its benchmark's name does not say it."""
    shown = row.title if len(row.title) <= _LONGEST_NAME else row.title[: _LONGEST_NAME - 1] + CUT
    return shown if row.metric in row.benchmark else f"{shown} {row.metric}"


def moved(row: ArtefactRow) -> str:
    """The change with its interval: "+4.1 % (+3.8 % … +4.4 %)"."""
    told = row.change
    if told is None:
        return "–"
    by = change(told.value, row.base)
    return f"{by} ({change(told.low)} … {change(told.high)})" if told.low < told.high else by


def levels(row: ArtefactRow, quote: Quote = str) -> str:
    """Before and after: "70.8 µs → 73.7 µs"."""
    told = f"{quantity(row.base, row.unit)} → {quantity(row.head, row.unit)}"
    return told if row.unit in _KNOWN_UNITS else quote(told)


def direction(row: ArtefactRow) -> str:
    """What the change means: "slower", "fewer"."""
    return change_word(row.change.value, metric(row.metric, row.unit)) if row.change is not None else ""


def against_noise(row: ArtefactRow) -> str:
    """How many times the noise of one run: "29×"."""
    times = row.times_noise
    if times is None:
        return "exact" if row.change is not None and not row.change.noise else "–"
    return f"{times:.3g}×"


def controls(row: ArtefactRow) -> str:
    """What the rivals of the same workload did meanwhile."""
    return change(row.control_change)


def remark(row: ArtefactRow, quote: Quote = str) -> str:
    """Why it could not be told, or what would tell it; then why it does not decide."""
    return "; ".join(part for part in (_told(row, quote), _why_not_deciding(row, quote)) if part)


def _told(row: ArtefactRow, quote: Quote) -> str:
    if row.reason:
        return quote(row.reason)
    if row.runs_needed and row.change is not None:
        noise = f"noise {number(100 * row.change.noise)} % {NOISE_BY[row.change.noise_source]}"
        if row.runs_needed > MOST_RUNS_ADVISED:
            return f"too noisy to compare ({noise})"
        return f"{count(row.runs_needed, 'more run')} of each would tell ({noise})"
    return f"counts from {share(row.counts_from)}" if row.counts_from is not None else ""


def _why_not_deciding(row: ArtefactRow, quote: Quote) -> str:
    if row.accepted is not None:
        said = row.accepted
        return f"accepted by {quote(said.by)} ({quote(said.source)}): {quote(said.reason)}"
    return "does not block" if (row.fails or row.verdict in _MAY_BLOCK) and not row.blocks else ""


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


def machine_part(artefact: GateArtefact, quote: Quote = str) -> str:
    """What the machine did by itself, by its controls; empty where it stood still."""
    drift = artefact.drift
    if drift is None:
        return ""
    canaries = ", ".join(f"{quote(each.workload)} {change(each.change)}" for each in drift.canaries)
    if drift.change:
        by = f"; canaries: {canaries}" if canaries else ""
        return (
            f"The machine moved by {change(drift.change)} itself ({count(drift.controls, 'control')}{by}): taken off."
        )
    return f"The machine moved, and not all of it alike (canaries: {canaries}): nothing is taken off."


def cost(artefact: GateArtefact) -> str:
    """What it took and how sure it is."""
    spent = artefact.cost
    own = ", where the policy says no other" if any(row.counts_from is not None for row in artefact.rows) else ""
    return (
        f"Up to {count(spent.runs, 'run')} of each commit in {spent.minutes:.1f} min; {END_REASONS[End(spent.ended)]}. "
        f"Changes from {artefact.threshold * 100:g} % on matter{own}; "
        f"the chance of any false alarm is {artefact.family_error * 100:.3g} %."
    )


def _fact(fact: CodeFact, name: str) -> str:
    return f"{name} {quantity(fact.before, fact.unit)} → {quantity(fact.after, fact.unit)}"
