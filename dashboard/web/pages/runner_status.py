"""Whether the machines' data comes: what the overview says first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ...model.overview import OverviewEntry, RowState
from ...statistics.arrival import Arrival, is_archived
from ...store import queries
from ..request_context import store


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One machine as its newest data tells it now."""

    name: str
    newest: datetime
    usual_pause: timedelta | None
    patience: timedelta
    is_overdue: bool
    is_archived: bool  # with all others of its project: nobody waits for its data
    stopped: int  # rows that it leaves out
    invalid: int  # rows without a number at their newest commit

    @property
    def wants_attention(self) -> bool:
        """Whether somebody should look at it."""
        return not self.is_archived and (self.is_overdue or bool(self.stopped))


def runners(arrivals: dict[str, Arrival], standings: Sequence[OverviewEntry], now: datetime) -> tuple[Runner, ...]:
    """Every machine of a project that measured something; those that want attention first, the longest silent before
    the others."""
    archived = is_archived((its.newest_s for its in arrivals.values()), now.timestamp())
    counted = Counter((each.row.series.machine, each.state) for each in standings)
    found = [
        Runner(
            name=name,
            newest=datetime.fromtimestamp(its.newest_s, UTC),
            usual_pause=timedelta(seconds=its.usual_pause_s) if its.usual_pause_s is not None else None,
            patience=timedelta(seconds=its.patience_s),
            is_overdue=its.is_overdue(now.timestamp()),
            is_archived=archived,
            stopped=counted[name, RowState.STOPPED],
            invalid=counted[name, RowState.INVALID],
        )
        for name, its in arrivals.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.wants_attention, one.newest, one.name)))


def standings_of(project: str) -> tuple[OverviewEntry, ...]:
    """How the kernels of a project stand, worked out once for all pages between two commits to the store."""
    return store().cached(project, "standings", lambda: queries.standings(store(), project))
