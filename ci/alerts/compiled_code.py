"""Differences of the compiled code at both ends of regressions, in a few lines."""

from collections.abc import Sequence

from warpwatch.dashboard.model.changepoint import RegressionGroup
from warpwatch.dashboard.model.compiled_code import CodeChange, Fact
from warpwatch.dashboard.model.quantities import quantity
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.queries.compiled_code import CodeBetween

_KERNELS, _FACTS = 3, 6


def compiled_code_lines(store: Store, project: str, groups: Sequence[RegressionGroup]) -> list[tuple[str, ...]]:
    """Lines for each group, in order; none where the code is not recorded at both commits."""
    return [_lines(between) for between in queries.code_between(store, project, groups)] if groups else []


def _lines(code: CodeBetween) -> tuple[str, ...]:
    if code.differences:
        shown = tuple(_difference(each) for each in code.differences[:_KERNELS])
        more = len(code.differences) - _KERNELS
        return (*shown, f"and {more} more kernels of {code.compared}") if more > 0 else shown
    if code.compared:
        return (f"the same at both commits, in all {code.compared} kernels of its operators",)
    if code.ran_the_same and not code.ran_another:
        return ("the same machine code ran at both commits",)
    return ()


def _difference(each: CodeChange) -> str:
    facts = ", ".join(_fact(one) for one in (*each.facts, *each.instructions)[:_FACTS])
    return f"{each.kernel} ({each.architecture}): {each.word or facts}"


def _fact(one: Fact) -> str:
    return f"{one.name} {quantity(one.before, one.unit)} → {quantity(one.after, one.unit)}"
