"""Writes what stands in a context file beside the values: machine, workloads, details, profiles, compiled code."""

from collections.abc import Mapping

from sqlalchemy import Connection, select, update

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.incoming import Context
from warpwatch.dashboard.store.names import Names
from warpwatch.dashboard.store.rows import insert_new, insert_or_replace


def write_context(
    connection: Connection, names: Names, commit: int, machine: int, context: Context, ids: Mapping[str, int]
) -> None:
    """Adds what is new; `ids` are the rows of the context's runs by name."""
    _describe_machine(connection, machine, context)
    workloads = {(record["benchmark"], record["workload"]): record for record in context.workloads}
    for (suite, name), record in workloads.items():
        kept = ("operator", "dtype", "flops", "bytes", "parameters", "kernels", "baselines")
        described = {key: record[key] for key in kept} | {"controls": record.get("controls") or []}
        names.workload(connection, suite, name, described)
    insert_new(
        connection,
        tables.detail,
        [
            {"run_id": ids[m.run.name], "suite": m.benchmark, "workload": m.workload,
             "implementation": m.implementation, "code_sha256": m.code_sha256, "data": dict(m.data)}
            for m in context.measurements
        ],
    )  # fmt: skip
    # The same may be profiled again within a run: the last line holds.
    profiles = {(p.run.name, p.benchmark, p.workload, p.implementation): p for p in context.profiles}
    insert_or_replace(
        connection,
        tables.profile,
        [
            {"run_id": ids[p.run.name], "suite": p.benchmark, "workload": p.workload,
             "implementation": p.implementation, "data": dict(p.data)}
            for p in profiles.values()
        ],
    )  # fmt: skip
    numbers = ("registers", "stack_bytes", "shared_bytes", "local_memory_instructions", "code_bytes", "sha256")
    insert_new(
        connection,
        tables.compiled_code,
        [
            {"run_id": ids[run.name], "commit_id": commit, "kernel": record["kernel"],
             "architecture": record["architecture"], "operator": record.get("operator", ""),
             "instructions": record.get("instructions") or {}, **{key: record.get(key) for key in numbers},
             "more": {key: record[key] for key in tables.MORE_OF_CODE if record.get(key) is not None}}
            for run, record in context.compiled
        ],
    )  # fmt: skip


def _describe_machine(connection: Connection, machine: int, context: Context) -> None:
    """As the newest run says that saw the GPU; one that only compiled tells no more than that there is a machine."""
    newest = max(context.runs.values(), key=lambda run: (bool(run.data.get("gpu")), run.started_ms), default=None)
    if newest is None:
        return
    table = tables.machine
    known = connection.execute(select(table.c.context).where(table.c.id == machine)).scalar() or {}
    told = bool(known.get("gpu")), known.get("started_ms", 0)
    if told <= (bool(newest.data.get("gpu")), newest.started_ms):
        described = {**newest.machine, "started_ms": newest.started_ms}
        connection.execute(update(table).where(table.c.id == machine).values(context=described))
