"""Which series may become regressions: ours, of judged metrics; and series by words of their name."""

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import Connection, Text, cast, or_, select

from warpwatch.dashboard.metrics import Metric, metric
from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.reading import workloads

Watched = Callable[[int, str | None, str, str], Metric | None]


def watched_metrics(connection: Connection, owner: int) -> Watched:
    """Of a benchmark's id, an implementation, a metric's name and its unit: the metric, if such series are watched."""
    known = workloads(connection, owner)
    suites = {
        number: name.rpartition(".")[0]
        for number, name in connection.execute(
            select(tables.benchmark.c.id, tables.benchmark.c.name).where(tables.benchmark.c.project_id == owner)
        )
    }

    @cache
    def watched(benchmark: int, implementation: str | None, name: str, unit: str) -> Metric | None:
        suite, its = suites[benchmark], metric(name, unit)
        is_ours = not known.is_rival(suite, implementation) and not known.is_control(suite, implementation)
        return its if its.is_judged and is_ours else None

    return watched


def named_series(connection: Connection, owner: int, words: str) -> set[int]:
    """The project's series whose benchmark and parameters hold every word, letter case aside."""
    series, benchmark = tables.series, tables.benchmark
    where: list[Any] = [series.c.project_id == owner]
    for word in words.split():
        fields = (benchmark.c.name, cast(series.c.parameters, Text))
        where.append(or_(*(field.icontains(word, autoescape=True) for field in fields)))
    found = select(series.c.id).join(benchmark, benchmark.c.id == series.c.benchmark_id).where(*where)
    return set(connection.execute(found).scalars())
