"""The gate's loop: measure, look, and measure again what is still open."""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from warpwatch.ci.gate.looks import Look, order
from warpwatch.dashboard.check import Check, CheckRow, in_order
from warpwatch.dashboard.store.records import Series
from warpwatch.dashboard.verdict import Verdict

_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED}
Measure = Callable[[bool, Collection[Series] | None], None]
"""Runs head (True) or base, all that was asked for (None) or what these series need, into the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a gate ends in."""

    check: Check
    runs: int  # of each commit, where something stayed open to the end
    seconds: float
    spent: bool  # the budget ended it, not certainty


def run_gate(
    looks: Iterable[Look], measure: Measure, check: Callable[[float], Check], *, budget_s: float,
    clock: Callable[[], float] = time.monotonic, say: Callable[[str], None] = lambda line: None,
) -> Gate:  # fmt: skip
    """Measures until no series is inconclusive; no run begins that would likely end beyond the budget.

    The first look's runs are made whatever they take. A series that was told stays told, and is not measured again.
    """
    began = clock()
    told: dict[str, CheckRow] = {}
    open_series: list[Series] | None = None
    runs, result, spent = 0, None, False
    for look in looks:
        turns = order(runs + 1, look.runs)
        if result is not None:
            a_run = (clock() - began) / (2 * runs)  # at most: what is still open is less than all
            if clock() - began + a_run * len(turns) > budget_s:
                spent = True
                break
        for is_head in turns:
            measure(is_head, open_series)
        runs = look.runs
        result = check(look.family_error)
        for row in result.rows:
            if row.verdict in _TOLD:
                told.setdefault(row.series.key, row)
        result = replace(result, rows=in_order(told.get(row.series.key, row) for row in result.rows))
        open_series = [row.series for row in result.rows if row.verdict is Verdict.INCONCLUSIVE]
        say(_progress(result, runs, clock() - began))
        if not open_series:
            break
    if result is None:
        raise ValueError("a gate without a look")
    return Gate(check=result, runs=runs, seconds=clock() - began, spent=spent or bool(open_series))


def _progress(check: Check, runs: int, seconds: float) -> str:
    counts = [f"{check.count(verdict)} {verdict.value}" for verdict in Verdict if check.count(verdict)]
    return f"{runs} runs of each, {seconds:.0f} s: {', '.join(counts) or 'nothing to compare'}"
