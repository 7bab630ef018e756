"""How often an analysis that continues the last one differs from one of the whole history.

`python -m warpwatch.dashboard.trials.replay_analysis DATABASE` takes the newest values of series drawn at random one by
one, as imports would bring them, and at each asks both. What goes on as before keeps the changes that the detector told
last; told is in how many places that is another answer than the detector gives now.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click
import numpy as np
from sqlalchemy import select

from warpwatch.dashboard.continued import continued
from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.detection import tell_levels
from warpwatch.dashboard.statistics.summary import Summary
from warpwatch.dashboard.store import Store, tables
from warpwatch.dashboard.store.calendar import Calendar, calendar
from warpwatch.dashboard.store.grown import Grown
from warpwatch.dashboard.store.plain_history import PlainHistory, plain_history, plain_summary
from warpwatch.dashboard.store.points import read_points
from warpwatch.dashboard.store.tails import Tail, tail_of

_LEAST = 40  # commits of a series that is taken


@dataclass(slots=True, kw_only=True)
class _Replayed:
    """A series at some place of its history."""

    id: int
    metric: str
    unit: str
    whole: PlainHistory
    changes: tuple[Changepoint, ...] = ()  # as the detector told them last
    summary: Summary | None = None
    tail: Tail | None = None

    def until(self, end: int) -> PlainHistory:
        """The history up to a commit."""
        whole = self.whole
        return PlainHistory(
            points=whole.points.take(slice(0, end)), date_ms=whole.date_ms[:end], card=whole.card,
            numbers=whole.numbers[whole.numbers < end],
        )  # fmt: skip

    def look(self, end: int) -> tuple[tuple[Changepoint, ...], Summary, Tail | None]:
        """What the detector tells of the history up to a commit."""
        history, its_metric = self.until(end), metric(self.metric, self.unit)
        changes = tell_levels(history.levels(), its_metric).changes
        last = changes[-1] if changes else None
        return changes, plain_summary(history, last, its_metric), tail_of(history, changes, its_metric)


@dataclass(slots=True, kw_only=True)
class _Score:
    """What was seen, in places: one value of one series each."""

    places: int = 0
    continued: int = 0
    unlike: Counter[str] = field(default_factory=Counter)

    def add(self, before: Sequence[Changepoint], now: Sequence[Changepoint], told: Summary, full: Summary) -> None:
        """A place where the analysis was continued, and what the detector tells there."""
        self.continued += 1
        ways = [{(change.magnitude > 0, change.index) for change in changes} for changes in (before, now)]
        missing = [one for one in ways[1] if not any(_same(one, other) for other in ways[0])]
        more = [one for one in ways[0] if not any(_same(one, other) for other in ways[1])]
        self.unlike["a change is missing"] += bool(missing)
        self.unlike["a change that the detector would take back"] += bool(more)
        self.unlike["a change lies at another commit"] += not missing and not more and ways[0] != ways[1]
        self.unlike["the verdict of the summary differs"] += told.verdict is not full.verdict


def _same(one: tuple[bool, int], other: tuple[bool, int]) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) <= 5


@click.command()
@click.argument("database")
@click.option("--series", type=int, default=300, show_default=True)
@click.option("--commits", type=int, default=60, show_default=True, help="The newest, that come one by one.")
@click.option("--seed", type=int, default=1, show_default=True)
def main(database: str, series: int, commits: int, seed: int) -> None:
    """Replay the newest commits of some series of DATABASE."""
    score = _Score()
    for some, whole in _histories(Store(database), series, seed):
        _replay(some, whole, commits, score)
    click.echo(
        f"{score.places} values, {score.continued / max(score.places, 1):.1%} taken without the detector; of those"
    )
    for what, count in score.unlike.items():
        click.echo(f"    {what}: {count}, {count / max(score.continued, 1):.2%}")


def _histories(store: Store, count: int, seed: int) -> Iterator[tuple[list[_Replayed], Calendar]]:
    """Plain histories of each project, long enough."""
    rng, table = np.random.default_rng(seed), tables.series
    with store.read() as connection:
        for project in connection.execute(select(tables.project.c.id)).scalars().all():
            whole = calendar(connection, project)
            rows = connection.execute(
                select(table.c.id, table.c.metric, table.c.unit)
                .where(table.c.project_id == project)
                .order_by(table.c.id)
            ).all()
            chosen = [rows[n] for n in rng.permutation(len(rows))[:count]]
            points = read_points(connection, [row.id for row in chosen])
            found = [
                _Replayed(id=row.id, metric=row.metric, unit=row.unit, whole=history)
                for row in chosen
                if row.id in points
                and (history := plain_history(points[row.id], whole)) is not None
                and len(history.numbers) >= _LEAST
            ]
            yield found, whole


def _replay(series: Sequence[_Replayed], whole: Calendar, commits: int, score: _Score) -> None:
    for each in series:
        each.changes, each.summary, each.tail = each.look(max(len(each.whole.points) - commits, _LEAST // 2))
    for step in range(commits, 0, -1):
        here = [each for each in series if len(each.whole.points) - step >= _LEAST // 2]
        grown = [
            Grown(
                id=each.id, metric=each.metric, unit=each.unit, revision=0, tail=each.tail,
                new=whole.rows(each.id, each.whole.points.take(slice(place, place + 1))),
                verdict=each.summary.verdict if each.summary is not None and each.summary.change_is_step else None,
            )
            for each in here
            if each.tail is not None
            for place in [len(each.whole.points) - step]
        ]  # fmt: skip
        going = {found.series_id: found for found in continued(grown, whole)}
        for each in here:
            changes, summary, tail = each.look(len(each.whole.points) - step + 1)
            score.places += 1
            if (found := going.get(each.id)) is not None:
                score.add(each.changes, changes, found.summary, summary)
                each.summary, each.tail = found.summary, found.tail
            else:
                each.changes, each.summary, each.tail = changes, summary, tail


if __name__ == "__main__":
    main()
