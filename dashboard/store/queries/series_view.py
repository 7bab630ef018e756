"""The history of a series for its page, thinned, with notes and releases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, select, union

from ...model.history import (
    CommitPosition,
    Extent,
    History,
    LevelLine,
    Mark,
    MarkKind,
    OtherHistory,
    ShownHistory,
    Spread,
)
from ...model.series import Point, Series, workload_of
from ...statistics.levels import medians_of_groups, segments, thin, thin_band
from .. import schema
from ..chunks import Ints
from ..engine import Store
from ..finding_records import changes_of, episodes_of
from ..mappers import select_series, series_record, series_row, workloads
from ..notes import RELEASES
from .run_facts import CommitRun, FactsOfRuns, machine_marks, run_facts
from .series import canaries_of, others_of, profile_of
from .series_lines import EMPTY, Records, SeriesLine, gpu_ratios, lines, project_order


class MarkRow(NamedTuple):
    """A mark with the commit's id."""

    commit: int
    kind: MarkKind
    text: str
    author: str | None


def written_marks(connection: Connection, project: int, series: int) -> list[MarkRow]:
    """Releases of the project, and notes on its commits or on the series."""
    note, commit = schema.annotation, schema.commit
    rows = connection.execute(
        select(note.c.commit_id, note.c.author, note.c.text)
        .join(commit, commit.c.id == note.c.commit_id)
        .where(commit.c.project_id == project, note.c.series_id.is_(None) | (note.c.series_id == series))
        .order_by(note.c.created_ms, note.c.id)
    )
    return [
        MarkRow(row.commit_id, MarkKind.RELEASE, row.text, None)
        if row.author == RELEASES
        else MarkRow(row.commit_id, MarkKind.NOTE, row.text, row.author)
        for row in rows
    ]


MOST_POINTS = 1000  # drawn of the series
_MOST_OTHER_POINTS = 300  # drawn of each other series
_MOST_MARKS = 200  # newest marks
_MOST_BAD_POINTS = 10  # newest points without a number
LISTED = 20  # points on a page of the table


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """The part of a history to show."""

    first: str | None = None  # hash or prefix
    last: str | None = None
    overlays: Sequence[str] = ()  # keys of series to add
    page: int = 1  # of the table of points
    most: int = MOST_POINTS


def shown_history(store: Store, key: str, request: HistoryRequest) -> ShownHistory | None:
    """The history of a series by key; None if there is no such series. Added series must be of the same project."""
    with store.read() as connection:
        row = series_row(connection, key)
        return _HistoryView(store, connection, row, request).shown() if row is not None else None


class _HistoryView:
    """Builder of one ShownHistory."""

    def __init__(self, store: Store, connection: Connection, row: Any, request: HistoryRequest) -> None:
        self.connection, self.row, self.request = connection, row, request
        self.known = workloads(connection, row.project_id)
        self.series = series_record(row, self.known)
        self.order = project_order(store, connection, row.project_name)
        self.others = others_of(connection, row, self.known)
        self.canaries = canaries_of(connection, row, self.series, self.known)
        self.added = self._added()
        shown = [row.id, *(number for number, _ in (*self.others, *self.added))]
        self.lines = lines(connection, self.order, [*shown, *(number for number, _ in self.canaries)])
        self.own = self.lines.get(row.id)
        self.ratios = self.own.ratios(gpu_ratios(connection, [row.id]).get(row.id)) if self.own is not None else {}
        ranks = [self.lines[number].rank for number in shown if number in self.lines]
        self.ranks = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *ranks]))  # of the commits shown
        self.window = self._window()
        self.changes = changes_of(connection, [row.id]).get(row.id, ())
        self.episodes = episodes_of(connection, [row.id]).get(row.id, ())
        self.marks = self._marks(run_facts(store, connection, row.project_name, row.machine_id))

    def _added(self) -> list[tuple[int, Series]]:
        keys = list(dict.fromkeys(self.request.overlays))
        if not keys:
            return []
        series = schema.series
        mine = (series.c.project_id == self.row.project_id) & series.c.key.in_(keys) & (series.c.id != self.row.id)
        rows = {row.key: row for row in self.connection.execute(select_series().where(mine))}
        return [(rows[key].id, series_record(rows[key], self.known)) for key in keys if key in rows]

    def _window(self) -> tuple[int, int] | None:
        """Indices of the first and last commit of the request; None for all."""
        if not len(self.ranks):
            return None
        first, last = self._index_of(self.request.first), self._index_of(self.request.last)
        if first is None and last is None:
            return None
        low, high = 0 if first is None else first, len(self.ranks) - 1 if last is None else last
        return min(low, high), max(low, high)

    def _index_of(self, prefix: str | None) -> int | None:
        if not prefix:
            return None
        commit = schema.commit
        rows = self.connection.execute(
            select(commit.c.id).where(
                commit.c.project_id == self.row.project_id, commit.c.hash.startswith(prefix.lower(), autoescape=True)
            )
        ).scalars()
        ids = np.array(rows.all(), dtype=np.int64)
        ranks = np.intersect1d(self.order.ranks(ids), self.ranks)
        return int(np.searchsorted(self.ranks, ranks[0])) if len(ranks) else None

    def _marks(self, facts: FactsOfRuns) -> list[MarkRow]:
        """Marks in the order of commits, from the first commit shown to the last."""
        marks = written_marks(self.connection, self.row.project_id, self.row.id)
        marks += [MarkRow(at, MarkKind.MACHINE, text, None) for at, text in self._machine_marks(facts)]
        if not marks or not len(self.ranks):
            return []
        rank = self.order.ranks(np.array([mark.commit for mark in marks], dtype=np.int64))
        order = np.argsort(rank, kind="stable")
        inside = (self.ranks[0] <= rank[order]) & (rank[order] <= self.ranks[-1])
        return [marks[number] for number in order[inside][-_MOST_MARKS:]]

    def _machine_marks(self, facts: FactsOfRuns) -> list[tuple[int, str]]:
        if self.own is None:
            return []
        newest_of_commit = np.append(np.flatnonzero(np.diff(self.own.rank)), len(self.own.rank) - 1)
        newest = self.own.points.take(newest_of_commit)
        number, gpu = facts.of(newest.run), self._gpus(self.own)[newest_of_commit]
        # Only runs that differ from the one before can make a mark.
        differs = np.append(True, (np.diff(number) != 0) | (np.diff(gpu) != 0))
        names = (None, *self.order.commit_index.gpus)
        rows = zip(*(each[differs].tolist() for each in (newest.commit, number, gpu)), strict=True)
        return machine_marks(
            [CommitRun(commit, number, names[gpu]) for commit, number, gpu in rows],
            dict(enumerate(facts.different)),
        )

    def _marked(self) -> Ints:
        """Ids of the commits whose points are always drawn."""
        change, episode, alert = schema.changepoint, schema.episode, schema.alert_series
        series = self.row.id
        ids = {mark.commit for mark in self.marks}
        columns = (
            change.c.commit_id,
            change.c.previous_commit_id,
            episode.c.commit_id,
            episode.c.last_commit_id,
            alert.c.commit_id,
        )
        parts = [select(column).where(column.table.c.series_id == series) for column in columns]
        ids.update(self.connection.execute(union(*parts)).scalars())
        return np.array(sorted(ids), dtype=np.int64)

    def _thin(self, number: int, line: SeriesLine, marked: Ints) -> Ints:
        """Indices of the points to draw."""
        is_own = number == self.row.id
        x = np.searchsorted(self.ranks, line.rank)
        is_marked = np.isin(line.points.commit, marked) if is_own else np.zeros(len(x), dtype=bool)
        value = np.where(line.has_number, line.points.value, np.nan)
        most = self.request.most if is_own else min(_MOST_OTHER_POINTS, self.request.most)
        kept = thin(x, value, line.points.status, is_marked, most=most, window=self.window)
        return line.whole_commits(kept) if len(kept) < len(x) else kept

    def shown(self) -> ShownHistory:
        marked = self._marked()
        drawn = {number: self._thin(number, line, marked) for number, line in self.lines.items()}
        own = self.own if self.own is not None else EMPTY
        good, bad = np.flatnonzero(own.has_number), np.flatnonzero(~own.has_number)[::-1]
        count = len(own.rank)
        page = np.arange(count)[::-1][(self.request.page - 1) * LISTED : self.request.page * LISTED]
        chosen = {
            "newest": np.arange(count)[-1:],
            "newest_number": good[-1:],
            "bad": bad[:_MOST_BAD_POINTS],
            "page": page,
        }
        levels, band = self._levels(own), self._band(own)
        adjusted = self._adjusted(own, drawn.get(self.row.id, own.points.commit))
        window = [self._commit_at(index) for index in self.window or ()]
        commits = {
            *marked.tolist(),
            *window,
            *(self._commit_at(n) for n in (0, -1) if len(self.ranks)),
            *(commit for first, last, _ in levels for commit in (first, last)),
            *(commit for commit, *_ in band),
            *(commit for commit, _ in adjusted),
        }
        choices = [(self.lines[number], places) for number, places in drawn.items()]
        records = Records(self.connection, [*choices, *((own, places) for places in chosen.values())], commits)
        points = {number: records.points(self.lines[number], places) for number, places in drawn.items()}
        listed = {name: records.points(own, places) for name, places in chosen.items()}
        at = records.commits
        return ShownHistory(
            history=self._history(points),
            levels=tuple(LevelLine(first=at[first], last=at[last], value=value) for first, last, value in levels),
            band=tuple(Spread(commit=at[commit], low=low, high=high) for commit, low, high in band),
            positions={at[number].hash: place for number, place in self._places(sorted(at)).items()},
            window=(at[window[0]], at[window[1]]) if window else None,
            extent=self._extent(own, drawn.get(self.row.id, own.points.commit)),
            marks=tuple(Mark(commit=at[m.commit], kind=m.kind, text=m.text, author=m.author) for m in self.marks),
            added=self._added_series(points),
            newest=next(iter(listed["newest"]), None),
            newest_number=next(iter(listed["newest_number"]), None),
            without_number=listed["bad"],
            points_without_number=len(bad),
            adjusted=tuple((at[commit], value) for commit, value in adjusted),
            gpus=len(np.unique(self._gpus(own)[self._gpus(own) > 0])),
            listed=listed["page"],
        )

    def _history(self, points: Mapping[int, tuple[Point, ...]]) -> History:
        return History(
            series=self.series,
            points=points.get(self.row.id, ()),
            changes=self.changes,
            episodes=self.episodes,
            workload=workload_of(self.series, self.known),
            others=tuple(OtherHistory(series=one, points=points.get(number, ())) for number, one in self.others),
            canaries=tuple(OtherHistory(series=one, points=points[n]) for n, one in self.canaries if n in points),
            profile=profile_of(self.connection, self.row, self.series),
        )

    def _added_series(self, points: Mapping[int, tuple[Point, ...]]) -> tuple[OtherHistory, ...]:
        changes = changes_of(self.connection, [number for number, _ in self.added])
        return tuple(
            OtherHistory(series=one, points=points.get(number, ()), changes=changes.get(number, ()))
            for number, one in self.added
        )

    def _adjusted(self, own: SeriesLine, drawn: Ints) -> list[tuple[int, float]]:
        """The drawn commits whose values are known GPU-adjusted, and these."""
        if not self.ratios:
            return []
        good = np.flatnonzero(own.has_number)
        rank, group = np.unique(own.rank[good], return_inverse=True)
        medians = medians_of_groups(group, own.points.value[good])
        commit = np.empty(len(rank), dtype=np.int64)
        commit[group] = own.points.commit[good]
        shown = np.isin(rank, own.rank[drawn])
        return [
            (number, value * self.ratios[at])
            for number, value, at in zip(
                commit[shown].tolist(), medians[shown].tolist(), rank[shown].tolist(), strict=True
            )
            if at in self.ratios
        ]

    def _levels(self, own: SeriesLine) -> list[tuple[int, int, float]]:
        """First and last commit of each segment, and its level: GPU-adjusted, else by GPU."""
        good = own.points.take(own.has_number)
        if not self.changes or not len(good):
            return []
        rank, group = np.unique(own.rank[own.has_number], return_inverse=True)
        gpus = np.zeros(len(rank), dtype=np.int64)
        if not self.series.metric.is_exact:
            gpus[group] = self._gpus(own)[own.has_number]
        ratio = np.array([self.ratios.get(each, np.nan) for each in rank.tolist()])
        gpus[~np.isnan(ratio)] = -1  # comparable
        edges = np.array([change.index for change in self.changes], dtype=np.int64)
        commit = np.empty(len(rank), dtype=np.int64)
        commit[group] = good.commit
        values = medians_of_groups(group, good.value) * np.where(np.isnan(ratio), 1.0, ratio)
        levels = segments(values, gpus, np.sort(edges))
        return [(int(commit[each.first]), int(commit[each.last]), each.level) for each in levels]

    def _band(self, own: SeriesLine) -> list[tuple[int, float, float]]:
        """Commits with the quartiles of their samples, thinned in a long history."""
        known = np.flatnonzero(own.has_number & ~np.isnan(own.points.q25) & ~np.isnan(own.points.q75))
        known = known[np.append(np.diff(own.rank[known]) > 0, True)] if len(known) else known  # the last run of each
        points = own.points.take(known)
        x = np.searchsorted(self.ranks, own.rank[known])
        middle, low, high = thin_band(x, points.q25, points.q75, most=self.request.most, window=self.window)
        return list(zip(points.commit[middle].tolist(), low.tolist(), high.tolist(), strict=True))

    def _gpus(self, own: SeriesLine) -> Ints:
        return self.order.commit_index.gpu[np.searchsorted(self.order.commit_index.runs, own.points.run)]

    def _extent(self, own: SeriesLine, drawn: Ints) -> Extent:
        x = np.searchsorted(self.ranks, own.rank)
        low, high = self.window or (0, len(self.ranks))
        inside = (low <= x) & (x <= high)
        return Extent(
            points=len(x), drawn=len(drawn), points_inside=int(inside.sum()), drawn_inside=int(inside[drawn].sum())
        )

    def _commit_at(self, index: int) -> int:
        """The id of the commit at an index among those shown."""
        return int(self.order.commit_index.commits[np.flatnonzero(self.order.rank == self.ranks[index])[0]])

    def _places(self, commits: Sequence[int]) -> dict[int, CommitPosition]:
        """Positions by commit id; a commit without points is at the next commit with some."""
        number = np.searchsorted(self.order.commit_index.commits, np.array(commits, dtype=np.int64))
        measured = np.searchsorted(self.ranks, self.order.rank[number]).tolist()
        among_all = self.order.among_all[number].tolist()
        return {
            commit: CommitPosition(measured=one, among_all=other)
            for commit, one, other in zip(commits, measured, among_all, strict=True)
        }
