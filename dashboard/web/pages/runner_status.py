"""Data arrival of the machines."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ...analysis.slow_decline import slow_declines
from ...model.overview import OverviewEntry, RowState
from ...statistics.arrival import Arrival, is_archived
from ...store import queries
from ...store.cache import ROW_BYTES
from ..request_context import cached, store


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """State of one machine by its newest data."""

    name: str
    newest: datetime
    usual_pause: timedelta | None
    patience: timedelta
    is_overdue: bool
    is_archived: bool  # like all machines of its project
    stopped: int  # series that it no longer measures
    invalid: int  # series without a valid value at their newest commit

    @property
    def needs_attention(self) -> bool:
        """Whether its data or a series stopped."""
        return not self.is_archived and (self.is_overdue or bool(self.stopped))


def states_by_machine(standings: Iterable[OverviewEntry]) -> Mapping[tuple[str, RowState], int]:
    """Number of series in each state on each machine."""
    return Counter((row.row.series.machine, row.state) for row in standings)


def runners(
    arrivals: Mapping[str, Arrival], states: Mapping[tuple[str, RowState], int], now: datetime
) -> tuple[Runner, ...]:
    """Machines with results; those that need attention first, the longest silent first."""
    archived = is_archived((arrival.newest_s for arrival in arrivals.values()), now.timestamp())
    machines = [
        Runner(
            name=name,
            newest=datetime.fromtimestamp(arrival.newest_s, UTC),
            usual_pause=timedelta(seconds=arrival.usual_pause_s) if arrival.usual_pause_s is not None else None,
            patience=timedelta(seconds=arrival.patience_s),
            is_overdue=arrival.is_overdue(now.timestamp()),
            is_archived=archived,
            stopped=states.get((name, RowState.STOPPED), 0),
            invalid=states.get((name, RowState.INVALID), 0),
        )
        for name, arrival in arrivals.items()
    ]
    return tuple(sorted(machines, key=lambda runner: (not runner.needs_attention, runner.newest, runner.name)))


def _bytes(entries: Sequence[OverviewEntry]) -> int:
    return ROW_BYTES * len(entries)


@cached(size=_bytes)
def machine_standings(project: str, machine: str) -> tuple[OverviewEntry, ...]:
    """State of every series of one machine, without slow declines."""
    return queries.standings(store(), project, machine=machine)


@cached(size=_bytes)
def standings_of(project: str) -> tuple[OverviewEntry, ...]:
    """State of every series of a project, for all pages."""
    declines = slow_declines(store(), project)
    return tuple(
        replace(entry, decline=declines[key].change) if (key := entry.row.series.key) in declines else entry
        for entry in queries.standings(store(), project)
    )
