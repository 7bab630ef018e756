"""What changed in the compiled code between the last good and the first bad commit of regressions, in a few lines."""

from collections.abc import Sequence

from warpwatch.dashboard.compiled_difference import CodeChange, Fact
from warpwatch.dashboard.quantities import quantity
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.card_records import Card, Seen, Standing
from warpwatch.dashboard.store.queries.code_between import CodeBetween
from warpwatch.dashboard.store.records import RegressionGroup

_KERNELS, _FACTS = 3, 6


def compiled_code_lines(store: Store, project: str, groups: Sequence[RegressionGroup]) -> list[tuple[str, ...]]:
    """Of each group, in order; empty where the code is not recorded at both commits."""
    if not groups:
        return []
    cards = [
        Card(
            seen=Seen(key=str(number), version=""), machine=group.machine, commit=group.commit,
            previous_commit=group.previous_commit, standing=Standing.UNTRIAGED, regressions=group.regressions, gone=(),
            matching=len(group.regressions), total=len(group.regressions), loss=0.0, alert=None,
        )
        for number, group in enumerate(groups)
    ]  # fmt: skip
    between = queries.code_between(store, project, cards)
    return [_lines(between[card.seen.key]) if card.seen.key in between else () for card in cards]


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
