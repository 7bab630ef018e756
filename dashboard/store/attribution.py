"""Attribution of each value in an asv file to a run, by the context file."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select, update

from ..model.result_file import Context, ContextMeasurement, ContextRun, Value
from ..model.series import Status
from . import schema
from .ids import NameIds
from .statements import STATUS_CODES, insert_new, insert_or_replace


def write_context(
    connection: Connection, names: NameIds, commit: int, machine: int, context: Context, ids: Mapping[str, int]
) -> None:
    """Store a context's machine, workloads, details, profiles and compiled code; `ids`: of its runs by name."""
    _describe_machine(connection, machine, context)
    workloads = {(record["benchmark"], record["workload"]): record for record in context.workloads}
    for (suite, name), record in workloads.items():
        fields = ("operator", "dtype", "flops", "bytes", "parameters", "kernels", "baselines")
        described = {key: record[key] for key in fields} | {"controls": record.get("controls") or []}
        names.workload(connection, suite, name, described)
    insert_new(
        connection,
        schema.detail,
        [
            {
                "run_id": ids[m.run.name],
                "suite": m.benchmark,
                "workload": m.workload,
                "implementation": m.implementation,
                "code_sha256": m.code_sha256,
                "data": dict(m.data),
            }
            for m in context.measurements
        ],
    )
    # Repeated profiles within a run: the last one counts.
    profiles = {(p.run.name, p.benchmark, p.workload, p.implementation): p for p in context.profiles}
    insert_or_replace(
        connection,
        schema.profile,
        [
            {
                "run_id": ids[p.run.name],
                "suite": p.benchmark,
                "workload": p.workload,
                "implementation": p.implementation,
                "data": dict(p.data),
            }
            for p in profiles.values()
        ],
    )
    numbers = ("registers", "stack_bytes", "shared_bytes", "local_memory_instructions", "code_bytes", "sha256")
    insert_new(
        connection,
        schema.compiled_code,
        [
            {
                "run_id": ids[run.name],
                "commit_id": commit,
                "kernel": record["kernel"],
                "architecture": record["architecture"],
                "operator": record.get("operator", ""),
                "instructions": record.get("instructions") or {},
                **{key: record.get(key) for key in numbers},
                "more": {key: record[key] for key in schema.MORE_OF_CODE if record.get(key) is not None},
            }
            for run, record in context.compiled
        ],
    )


def _describe_machine(connection: Connection, machine: int, context: Context) -> None:
    """Store the machine's context from the newest run with a GPU; runs that only compiled count last."""
    newest = max(context.runs.values(), key=lambda run: (bool(run.data.get("gpu")), run.started_ms), default=None)
    if newest is None:
        return
    table = schema.machine
    known = connection.execute(select(table.c.context).where(table.c.id == machine)).scalar() or {}
    stored = bool(known.get("gpu")), known.get("started_ms", 0)
    if stored <= (bool(newest.data.get("gpu")), newest.started_ms):
        described = {**newest.machine, "started_ms": newest.started_ms}
        connection.execute(update(table).where(table.c.id == machine).values(context=described))


# asv stores one value for each benchmark and parameter combination, the context file every run. A value belongs to the
# newest run that measured its combination before asv finished the benchmark, or, if no run did (the machine cannot run
# it), to the newest run of the suite. Runs overwritten by asv are added from the context. A run without records gets no
# row.

_FIELD_OF_METHOD = {
    "track_latency": "latency_s",
    "track_warm_latency": "warm_latency_s",
    "track_steady_latency": "steady_latency_s",
    "track_cycles": "sm_cycles",
    "track_peak_memory": "peak_memory_bytes",
    "track_kernels_launched": "kernels_launched",
}
_Combination = tuple[str, tuple[str, ...]]  # suite, plain parameters


class Attribution:
    """Stores a context file's runs, and finds the run of a value."""

    def __init__(
        self,
        connection: Connection,
        names: NameIds,
        commit: int,
        machine: int,
        environment: int,
        context: Context | None,
    ) -> None:
        self._ids: dict[str, int] = {}
        self._measured: dict[_Combination, list[ContextMeasurement]] = {}
        self._compiled: dict[_Combination, list[ContextRun]] = {}
        self._chosen: dict[_Combination, ContextMeasurement] = {}
        self._suites: dict[str, dict[str, ContextRun]] = {}
        self._controls: set[tuple[str, str, str]] = set()  # suite, workload, implementation
        if context is None:
            return
        for workload in context.workloads:
            suite, name = workload["benchmark"], workload["workload"]
            self._controls |= {(suite, name, canary) for canary in workload.get("controls") or ()}
        for record in context.measurements:
            self._suites.setdefault(record.benchmark, {})[record.run.name] = record.run
        for run, compiled in context.compiled:
            self._suites.setdefault(compiled["benchmark"], {})[run.name] = run
        recorded = {name: run for runs in self._suites.values() for name, run in runs.items()}
        recorded |= {profile.run.name: profile.run for profile in context.profiles}  # without values
        for run in recorded.values():
            values = {
                "machine_id": machine,
                "environment_id": environment,
                "commit_id": commit,
                "started_ms": run.started_ms,
                "gpu": run.gpu,
                "context": dict(run.data),
            }
            self._ids[run.name] = names.run(connection, run.name, values)
        for record in sorted(context.measurements, key=lambda m: m.run.started_ms):
            combination = (record.benchmark, (record.workload, record.implementation))
            self._measured.setdefault(combination, []).append(record)
        for run, compiled in sorted(context.compiled, key=lambda pair: pair[0].started_ms):
            combination = (compiled["benchmark"], (compiled["kernel"], compiled["architecture"]))
            self._compiled.setdefault(combination, []).append(run)
        write_context(connection, names, commit, machine, context, self._ids)

    def of(
        self, suite: str, parameters: tuple[str, ...], ended_ms: int | None, value: Value
    ) -> tuple[int | None, Status, str | None]:
        """The run of a value (None without a context), and its status and reason."""
        combination = (suite, parameters)
        if combination in self._measured:
            record = _newest(self._measured[combination], ended_ms)
            self._chosen[combination] = record
            status, reason = value.status, value.reason
            if record.status is not Status.OK or (status is Status.FAILED and record.reason):
                status = record.status if record.status is not Status.OK else status
                reason = record.reason or reason
            return self._ids[record.run.name], status, reason
        runs = self._compiled.get(combination) or sorted(
            self._suites.get(suite, {}).values(), key=lambda run: run.started_ms
        )
        if not runs:
            return None, value.status, value.reason
        before = [run for run in runs if ended_ms is None or run.started_ms <= ended_ms]
        return self._ids[(before or runs[:1])[-1].name], value.status, value.reason

    def canaries(self) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
        """The latencies of canaries: suite, parameters, and a row without series and commit.

        Each run measures them, but asv has their values only if it ran their benchmark.
        """
        for (suite, parameters), records in self._measured.items():
            if (suite, parameters[0], parameters[1]) not in self._controls:
                continue
            for record in records:
                ok = record.status is Status.OK
                yield suite, parameters, self._row(record, record.data.get("latency_s") if ok else None)

    def _row(self, record: ContextMeasurement, number: float | None) -> dict[str, Any]:
        return {
            "run_id": self._ids[record.run.name],
            "value": number,
            "q25": None,
            "q75": None,
            "sample_count": record.sample_count,
            "status": STATUS_CODES[record.status],
            "reason": record.reason,
        }

    def older_runs(self, benchmark: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
        """Values of a benchmark from runs before the chosen ones: parameters, and a row without series and commit."""
        suite, _, method = benchmark.rpartition(".")
        field = _FIELD_OF_METHOD.get(method)
        if field is None:
            return
        for (chosen_suite, parameters), chosen in self._chosen.items():
            if chosen_suite != suite:
                continue
            for record in self._measured[suite, parameters]:
                number = record.data.get(field) if record.status is Status.OK else None
                is_recorded = number is not None or record.status is not Status.OK
                if is_recorded and record.run.started_ms < chosen.run.started_ms:
                    yield parameters, self._row(record, number)


def _newest(records: list[ContextMeasurement], ended_ms: int | None) -> ContextMeasurement:
    """The last record that started before the end; the first if none did, because clocks disagree."""
    before = [record for record in records if ended_ms is None or record.run.started_ms <= ended_ms]
    return before[-1] if before else records[0]
