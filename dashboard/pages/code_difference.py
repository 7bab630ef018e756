"""Compiled code beside that of another commit, in words: what a table of the difference shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpwatch.dashboard import quantities
from warpwatch.dashboard.compiled_difference import is_same_code
from warpwatch.dashboard.store.records import CompiledCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One property of a kernel; `was` is None where it is as before, or nothing is known of before."""

    name: str
    now: str
    was: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One kernel on one architecture."""

    kernel: str
    architecture: str
    state: str  # "same code", "other code", "new", "gone", or "" where nothing is known of before
    facts: tuple[Fact, ...]


def _count(value: float | None) -> str:
    return quantities.quantity(value, "")


def _bytes(value: float | None) -> str:
    return quantities.quantity(value, "bytes")


_FACTS: tuple[tuple[str, Callable[[CompiledCode], float | None], Callable[[float | None], str]], ...] = (
    ("Registers", lambda code: code.registers, _count),
    ("Occupancy", lambda code: code.occupancy, quantities.share),
    ("Barriers", lambda code: code.barriers, _count),
    ("Shared", lambda code: code.shared_bytes, _bytes),
    ("Dynamic shared", lambda code: code.dynamic_shared_bytes, _bytes),
    ("Stack", lambda code: code.stack_bytes, _bytes),
    ("Local memory", lambda code: code.local_memory_instructions, _count),
    ("Code", lambda code: code.code_bytes, _bytes),
    ("Instructions", lambda code: code.instructions.get("total"), _count),
)
COLUMNS = tuple(name for name, _, _ in _FACTS)
_STATES = ("other code", "new", "gone", "same code", "")


def code_difference(now: Sequence[CompiledCode], before: Sequence[CompiledCode]) -> tuple[KernelCode, ...]:
    """Every kernel of either side, those that changed first."""
    new, old = ({(code.architecture, code.kernel): code for code in codes} for codes in (now, before))
    found = [_kernel(new.get(key), old.get(key), bool(old)) for key in sorted({*new, *old})]
    return tuple(sorted(found, key=lambda one: _STATES.index(one.state)))


def _kernel(now: CompiledCode | None, before: CompiledCode | None, is_known: bool) -> KernelCode:
    shown = now or before
    assert shown is not None
    if now is None:
        state = "gone"
    elif before is None:
        state = "new" if is_known else ""
    else:
        state = "same code" if is_same_code(before, now) else "other code"
    facts = []
    for name, value, told in _FACTS:
        here = value(shown)
        was = value(before) if before is not None and now is not None else None
        is_other = was is not None and here is not None and was != here
        facts.append(Fact(name=name, now=told(here), was=told(was) if is_other else None))
    return KernelCode(kernel=shown.kernel, architecture=shown.architecture, state=state, facts=tuple(facts))
