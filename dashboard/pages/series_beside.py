"""Other series on one axis with a series: which are there, how to take one off, and which could be added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flask import request

from warpwatch.dashboard.figures.history_lines import name_beside
from warpwatch.dashboard.pages.shared import here
from warpwatch.dashboard.store.records import OverviewRow, Point, Series, SeriesChange, Status
from warpwatch.dashboard.store.shown_records import Beside, ShownHistory

MOST_BESIDE = 6
FOUND = 12  # of a search


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideRow:
    """A series that stands beside, with the address that takes it off."""

    series: Series
    name: str
    newest: Point | None  # the newest number
    last_change: SeriesChange | None
    changes: int
    without: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A series that could be added, with the address that adds it."""

    name: str
    address: str


def beside_rows(beside: Sequence[Beside]) -> tuple[BesideRow, ...]:
    """Those on display, in the figure's order."""
    keys = [each.series.key for each in beside]
    return tuple(
        BesideRow(
            series=each.series,
            name=name_beside(each.series),
            newest=next((point for point in reversed(each.points) if point.status is Status.OK), None),
            last_change=each.changes[-1] if each.changes else None,
            changes=len(each.changes),
            without=here(**{"with": [key for key in keys if key != each.series.key]}),
        )
        for each in beside
    )


def choices(
    shown: ShownHistory, siblings: Sequence[OverviewRow], elsewhere: Iterable[Series], found: Iterable[Series]
) -> dict[str, tuple[Choice, ...]]:
    """Under a heading each, what is not on display yet; empty where no more have room."""
    there = [each.series.key for each in shown.beside]
    if len(there) >= MOST_BESIDE:
        return {}
    taken = {shown.history.series.key, *there}

    def offered(some: Iterable[Series]) -> tuple[Choice, ...]:
        return tuple(
            Choice(name=name_beside(one), address=here(**{"with": [*there, one.key], "find": None}))
            for one in some
            if one.key not in taken
        )

    groups = {
        "Found": offered(found),
        "Other metrics of the same measurement": offered(row.series for row in siblings),
        "On other machines": offered(elsewhere),
        "Other implementations": offered(other.series for other in shown.history.others),
    }
    if request.args.get("find"):
        groups = {"Found": groups["Found"]}
    return {heading: some for heading, some in groups.items() if some}
