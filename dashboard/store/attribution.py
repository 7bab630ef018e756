"""Which run of the suite a value in an asv file came from, as the context file beside it tells.

asv keeps one value a benchmark and parameter combination; the context file keeps every run. A value belongs to the
newest run that measured its combination before asv finished the benchmark; one that no run speaks of (the machine
cannot run it) to the newest run of the same suite. Runs that asv has since overwritten still have their numbers in the
context, and are added from there. A run that recorded nothing gets no row.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from warpwatch.dashboard.store.context_writing import write_context
from warpwatch.dashboard.store.incoming import Context, ContextMeasurement, ContextRun, Value
from warpwatch.dashboard.store.names import Names
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES

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
    """A context file's runs, recorded, and the question which of them a value belongs to."""

    def __init__(
        self, connection: Connection, names: Names, commit: int, machine: int, environment: int,
        context: Context | None,
    ) -> None:  # fmt: skip
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
        recorded |= {profile.run.name: profile.run for profile in context.profiles}  # values are never a profile's
        for run in recorded.values():
            values = {"machine_id": machine, "environment_id": environment, "commit_id": commit,
                      "started_ms": run.started_ms, "card": run.card, "context": dict(run.data)}  # fmt: skip
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
        """The run a value belongs to (None where no context tells), and its status and reason."""
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

        Each run visits them, but asv has their values only where someone asked it for their benchmark.
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
        """What runs before the chosen ones measured of a benchmark, by parameters, without series and commit."""
        suite, _, method = benchmark.rpartition(".")
        field = _FIELD_OF_METHOD.get(method)
        if field is None:
            return
        for (its_suite, parameters), chosen in self._chosen.items():
            if its_suite != suite:
                continue
            for record in self._measured[suite, parameters]:
                number = record.data.get(field) if record.status is Status.OK else None
                is_told = number is not None or record.status is not Status.OK
                if is_told and record.run.started_ms < chosen.run.started_ms:
                    yield parameters, self._row(record, number)


def _newest(records: list[ContextMeasurement], ended_ms: int | None) -> ContextMeasurement:
    """The last that started before the end; the first if none did, as when clocks disagree."""
    before = [record for record in records if ended_ms is None or record.run.started_ms <= ended_ms]
    return before[-1] if before else records[0]
