"""Which of the code that was compiled a machine's GPU runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from warpwatch.dashboard.store import tables
from warpwatch.dashboard.store.queries.commits import commit_row, compiled_of
from warpwatch.dashboard.store.reading import project_id
from warpwatch.dashboard.store.records import CompiledCode
from warpwatch.dashboard.store.store import Store


def compiled_for(store: Store, project: str, commit: str, machine: str) -> tuple[CompiledCode, ...]:
    """Each kernel at a commit (full hash), for the architecture that the machine runs."""
    table = tables.machine
    with store.read() as connection:
        owner = project_id(connection, project)
        row = commit_row(connection, owner, commit)
        if row is None:
            return ()
        context = connection.execute(
            select(table.c.context).where(table.c.project_id == owner, table.c.name == machine)
        ).scalar()
        return tuple(code_of_machine(compiled_of(connection, row.id, None), context))


def code_of_machine(compiled: Sequence[CompiledCode], context: Mapping[str, Any] | None) -> list[CompiledCode]:
    """The code that the machine's GPU takes, of each kernel: the newest architecture that it can run.

    All of it where the GPU's compute capability is not known, or too old for any.
    """
    capability = str(((context or {}).get("gpu") or {}).get("compute_capability") or "").replace(".", "")
    if not capability.isdecimal():
        return list(compiled)
    best: dict[tuple[str, str], CompiledCode] = {}
    for code in compiled:
        key = (code.operator, code.kernel)
        if _runs_on(code.architecture, int(capability)) and (
            key not in best or _number(code.architecture) > _number(best[key].architecture)
        ):
            best[key] = code
    return list(best.values()) or list(compiled)


def _number(architecture: str) -> int:
    digits = "".join(sign for sign in architecture if sign.isdecimal())
    return int(digits or 0)


def _runs_on(architecture: str, capability: int) -> bool:
    """Binary code runs on its own major version, from its minor one on; an `a` target on its own alone."""
    number = _number(architecture)
    if architecture.endswith("a"):
        return number == capability
    return number // 10 == capability // 10 and number <= capability
