"""The order of a project's commits, kept between requests: reading it takes longer than reading a history."""

import threading
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from sqlalchemy import Connection, select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.calendar import Calendar, ProjectCalendar
from warpwatch.dashboard.store.columns import Ints
from warpwatch.dashboard.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectOrder:
    """A project's calendar, and where each of its commits stands."""

    calendar: Calendar
    rank: Ints  # of each of `calendar.commits` among those with results
    among_all: Ints  # and among all of the repository, as far as they are counted

    def ranks(self, commits: Ints) -> Ints:
        """The ranks of commits by their ids."""
        return self.rank[np.searchsorted(self.calendar.commits, commits)]


class _Known:
    """What this process has read of one project."""

    def __init__(self, project: int) -> None:
        self._project = project
        self._calendar = ProjectCalendar(project)
        self._order: ProjectOrder | None = None
        self._lock = threading.Lock()

    def read(self, connection: Connection) -> ProjectOrder:
        with self._lock:
            calendar = self._calendar.read(connection)
            if self._order is None or self._order.calendar is not calendar:
                self._order = _order(connection, self._project, calendar)
            return self._order


_known: WeakKeyDictionary[Store, dict[int, _Known]] = WeakKeyDictionary()


def project_order(store: Store, connection: Connection, project: int) -> ProjectOrder:
    """The order as this transaction sees it."""
    return _known.setdefault(store, {}).setdefault(project, _Known(project)).read(connection)


def _order(connection: Connection, project: int, calendar: Calendar) -> ProjectOrder:
    commit = tables.commit
    gaps = connection.execute(
        select(commit.c.unmeasured_before).where(commit.c.project_id == project).order_by(commit.c.id)
    ).scalars()
    gap = np.array([each or 0 for each in gaps], dtype=np.int64)
    order = np.lexsort((calendar.commits, calendar.date_ms, calendar.position))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    among_all = np.empty(len(order), dtype=np.int64)
    among_all[order] = np.cumsum(1 + gap[order]) - 1
    return ProjectOrder(calendar=calendar, rank=rank, among_all=among_all)
