"""Mappers of rows to records, shared by queries and analysis."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, overload

from sqlalchemy import Connection, Row, Select, select

from ..model.machine import Ceilings, HardwareLimits
from ..model.metric import metric
from ..model.series import UNORDERED_POSITION, Commit, Series, Workload
from . import schema
from .ids import plain
from .statements import id_in, is_one_of

_CACHED = 20_000  # records of this process


class Workloads(dict[tuple[str, str], Workload]):
    """A project's workloads by suite and name, with the role of each implementation in a suite."""

    def is_rival(self, suite: str, implementation: str | None) -> bool:
        """Whether the implementation is a baseline in the suite.

        If no workload of the suite names it, because no machine could run it, the other suites decide, if they agree.
        """
        if (suite, implementation) in self._named:
            return (suite, implementation) in self._rivals
        rivals, ours = self._names
        return implementation in rivals and implementation not in ours

    def operator(self, suite: str, workload: str | None) -> str | None:
        """The operator of a workload; without a record, that of the suite's other workloads if they agree."""
        if (recorded := self.get((suite, workload or ""))) is not None:
            return recorded.operator
        operators = self._operators.get(suite, set())
        return next(iter(operators)) if len(operators) == 1 else None

    def is_control(self, suite: str, implementation: str | None) -> bool:
        return (suite, implementation) in self.controls

    @cached_property
    def _operators(self) -> dict[str, set[str]]:
        operators: dict[str, set[str]] = {}
        for (suite, _), workload in self.items():
            operators.setdefault(suite, set()).add(workload.operator)
        return operators

    @cached_property
    def _named(self) -> frozenset[tuple[str, str]]:
        """Suite and implementation of every named implementation."""
        return frozenset(
            (suite, name)
            for (suite, _), workload in self.items()
            for name in (*workload.kernels, *workload.baselines, *workload.controls)
        )

    @cached_property
    def _rivals(self) -> frozenset[tuple[str, str]]:
        return frozenset((suite, name) for (suite, _), workload in self.items() for name in workload.baselines)

    @cached_property
    def controls(self) -> frozenset[tuple[str, str]]:
        """The canaries, by suite and implementation."""
        return frozenset((suite, name) for (suite, _), workload in self.items() for name in workload.controls)

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of baselines, and of our kernels, in all suites."""
        ours = frozenset(name for workload in self.values() for name in workload.kernels)
        return frozenset(name for _, name in self._rivals), ours


SERIES_COLUMNS = (
    schema.series,
    schema.benchmark.c.name.label("benchmark_name"),
    schema.benchmark.c.self_described,
    schema.machine.c.name.label("machine_name"),
    schema.environment.c.name.label("environment_name"),
    schema.project.c.name.label("project_name"),
)

COMMIT_COLUMNS = (
    schema.commit.c.date_ms,
    schema.commit.c.hash,
    schema.commit.c.subject,
    schema.commit.c.author,
    schema.commit.c.unmeasured_before,
    schema.commit.c.parents,
)


@overload
def moment(milliseconds: int) -> datetime: ...
@overload
def moment(milliseconds: None) -> None: ...
def moment(milliseconds: int | None) -> datetime | None:
    """A stored time in milliseconds as datetime."""
    return None if milliseconds is None else _moment(milliseconds)


@lru_cache(maxsize=_CACHED)
def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def project_id(connection: Connection, name: str) -> int:
    """The id of a project; 0, which no project has, if there is none: queries by it find nothing."""
    return connection.execute(select(schema.project.c.id).where(schema.project.c.name == name)).scalar() or 0


def commit_ids(connection: Connection, project: int, hashes: Collection[str]) -> dict[str, int]:
    table = schema.commit
    is_chosen = (table.c.project_id == project) & is_one_of(connection, table.c.hash, hashes)
    return {row.hash: row.id for row in connection.execute(select(table.c.hash, table.c.id).where(is_chosen))}


def workloads(connection: Connection, project: int) -> Workloads:
    """All workloads of a project, from context files."""
    rows = connection.execute(select(schema.workload).where(schema.workload.c.project_id == project))
    return Workloads(((row.suite, row.name), _workload(row)) for row in rows)


def _workload(row: Row[Any]) -> Workload:
    return Workload(
        benchmark=row.suite,
        operator=row.operator,
        name=row.name,
        dtype=row.dtype,
        flops=row.flops,
        bytes=row.bytes,
        parameters=row.parameters,
        kernels=tuple(row.kernels),
        baselines=tuple(row.baselines),
        controls=tuple(row.controls),
    )


def select_series(*more: Any) -> Select[Any]:
    """Select series with the names for their records, and further columns."""
    series = schema.series
    return (
        select(*SERIES_COLUMNS, *more)
        .join_from(series, schema.benchmark, schema.benchmark.c.id == series.c.benchmark_id)
        .join(schema.machine, schema.machine.c.id == series.c.machine_id)
        .join(schema.environment, schema.environment.c.id == series.c.environment_id)
        .join(schema.project, schema.project.c.id == series.c.project_id)
    )


def series_row(connection: Connection, key: str) -> Row[Any] | None:
    """The row of `select_series` of a series by key."""
    return connection.execute(select_series().where(schema.series.c.key == key)).one_or_none()


def series_record(row: Row[Any], known: Workloads) -> Series:
    """The record of a row of `select_series`."""
    suite = row.benchmark_name.rpartition(".")[0]
    return _series_of(
        row.key,
        row.project_name,
        row.benchmark_name,
        tuple(map(tuple, row.parameters)),
        row.metric,
        row.unit,
        row.machine_name,
        row.environment_name,
        row.workload,
        row.implementation,
        known.is_rival(suite, row.implementation),
        known.is_control(suite, row.implementation),
        row.listed,
        not row.self_described,
    )


@lru_cache(maxsize=_CACHED)  # cached results share the records of thousands of series
def _series_of(
    key: str,
    project: str,
    benchmark: str,
    parameters: tuple[tuple[str, str], ...],
    metric_name: str,
    unit: str,
    machine: str,
    environment: str,
    workload: str | None,
    implementation: str | None,
    is_baseline: bool,
    is_control: bool,
    listed: bool,
    is_from_asv: bool,
) -> Series:
    names = [name for name, _ in parameters]
    values = plain(value for _, value in parameters)
    return Series(
        key=key,
        project=project,
        benchmark=benchmark,
        parameters=tuple(zip(names, values, strict=True)),
        metric=metric(metric_name, unit),
        machine=machine,
        environment=environment,
        workload=workload,
        implementation=implementation,
        is_baseline=is_baseline,
        is_control=is_control,
        listed=listed,
        is_from_asv=is_from_asv,
    )


def commits_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, Commit]:
    numbers = sorted(set(ids))
    if not numbers:
        return {}
    rows = connection.execute(select(schema.commit).where(id_in(connection, schema.commit.c.id, numbers)))
    return {row.id: commit_record(row) for row in rows}


def commit_record(row: Row[Any]) -> Commit:
    return commit_of(row.position, *(getattr(row, column.name) for column in COMMIT_COLUMNS))


@lru_cache(maxsize=_CACHED)  # histories of a project share a thousand commits
def commit_of(
    position: int | None,
    date_ms: int,
    commit: str,
    subject: str | None,
    author: str | None,
    gap: int | None,
    parents: str | None,
) -> Commit:
    return Commit(
        hash=commit,
        date=moment(date_ms),
        subject=subject,
        author=author,
        position=position if position is not None else UNORDERED_POSITION,
        unmeasured_before=gap,
        parents=tuple(parents.split()) if parents else (),
    )


def chosen_series(
    connection: Connection, project: int, *, benchmark: str, metric: str | None, machine: str | None
) -> Sequence[Row[Any]]:
    """Rows of `select_series` of benchmarks that contain `benchmark`, ignoring case; None: all metrics or machines."""
    series = schema.series
    where = [series.c.project_id == project, schema.benchmark.c.name.icontains(benchmark, autoescape=True)]
    if metric is not None:
        where.append(series.c.metric == metric)
    if machine is not None:
        where.append(schema.machine.c.name == machine)
    return connection.execute(select_series().where(*where).order_by(schema.benchmark.c.name, series.c.id)).all()


def limits_of(context: Mapping[str, Any] | None) -> HardwareLimits:
    """Peaks by datasheet and measured ceilings from a machine's context."""
    ceilings = [_ceilings(each) for name in ("ceilings", "measured_ceilings") if (each := (context or {}).get(name))]
    return HardwareLimits(
        peaks=next((each for each in ceilings if each.source != "measured"), None),
        measured=next((each for each in reversed(ceilings) if each.source == "measured"), None),
    )


def _ceilings(raw: Mapping[str, Any]) -> Ceilings:
    measured_at = raw.get("measured_at")
    return Ceilings(
        name=raw["name"],
        source=raw["source"],
        bandwidth_bps=raw["bandwidth_bps"],
        flops=raw["flops"],
        note=raw.get("note"),
        l2_bandwidth_bps=raw.get("l2_bandwidth_bps"),
        measured_at=datetime.fromisoformat(measured_at) if measured_at else None,
    )
