"""Compiled code of a kernel, and the difference between two commits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """Compiled code of one kernel for one architecture at one commit."""

    operator: str
    kernel: str
    architecture: str
    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None
    local_memory_instructions: int | None
    code_bytes: int | None
    instructions: Mapping[str, int]
    sha256: str | None
    implementation: str | None
    dynamic_shared_bytes: int | None
    barriers: int | None
    occupancy: float | None  # theoretical: share of an SM's warps
    occupancy_limit: str | None  # the limiting resource


_FACTS = (
    ("registers", "registers", ""),
    ("local memory instructions", "local_memory_instructions", ""),  # spills are among them
    ("stack", "stack_bytes", "bytes"),
    ("shared memory", "shared_bytes", "bytes"),
    ("dynamic shared memory", "dynamic_shared_bytes", "bytes"),
    ("barriers", "barriers", ""),
    ("occupancy", "occupancy", "share"),
    ("code", "code_bytes", "bytes"),
)
_TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One quantity before and after."""

    name: str
    unit: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """A changed, new or removed kernel on one architecture."""

    operator: str
    kernel: str
    architecture: str
    before: CompiledCode | None  # None: new
    after: CompiledCode | None  # None: gone
    facts: tuple[Fact, ...]  # those that differ
    instructions: tuple[Fact, ...]  # likewise: the total, then the largest difference first

    @property
    def word(self) -> str:
        """Kind of the change, if the facts do not show it."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "" if self.facts or self.instructions else "other machine code, the same counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledDifference:
    """Changed kernels by operator, kernel and architecture, and the number of unchanged ones."""

    changes: tuple[CodeChange, ...]
    unchanged: int
    has_both: bool  # whether both commits have compiled code


def compiled_difference(before: Sequence[CompiledCode], after: Sequence[CompiledCode]) -> CompiledDifference:
    """Difference of two commits' code; kernels are identified by operator, name and architecture."""
    old, new = _by_key(before), _by_key(after)
    if not old or not new:
        return CompiledDifference(changes=(), unchanged=0, has_both=False)
    changes = [_change(key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys())]
    changed = tuple(change for change in changes if change is not None)
    return CompiledDifference(changes=changed, unchanged=len(changes) - len(changed), has_both=True)


def _is_same_code(before: CompiledCode, after: CompiledCode) -> bool:
    """Equality by the hashes of the machine code, else by the facts that both sides have."""
    if before.sha256 and after.sha256:
        return before.sha256 == after.sha256
    return not _facts(before, after) and not _instructions(before, after)


_Key = tuple[str, str, str]


def _by_key(codes: Iterable[CompiledCode]) -> dict[_Key, CompiledCode]:
    return {(code.operator, code.kernel, code.architecture): code for code in codes}


def _change(key: _Key, before: CompiledCode | None, after: CompiledCode | None) -> CodeChange | None:
    operator, kernel, architecture = key
    facts: tuple[Fact, ...] = ()
    instructions: tuple[Fact, ...] = ()
    if before is not None and after is not None:
        facts, instructions = _facts(before, after), _instructions(before, after)
        if not facts and not instructions and _is_same_code(before, after):
            return None
    return CodeChange(
        operator=operator,
        kernel=kernel,
        architecture=architecture,
        before=before,
        after=after,
        facts=facts,
        instructions=instructions,
    )


def _facts(before: CompiledCode, after: CompiledCode) -> tuple[Fact, ...]:
    values = [(name, unit, getattr(before, field), getattr(after, field)) for name, field, unit in _FACTS]
    return tuple(
        Fact(name=name, unit=unit, before=old, after=new)
        for name, unit, old, new in values
        if None not in (old, new) and old != new
    )


def _instructions(before: CompiledCode, after: CompiledCode) -> tuple[Fact, ...]:
    if not before.instructions or not after.instructions:
        return ()
    names = before.instructions.keys() | after.instructions.keys()
    counts = {name: (before.instructions.get(name, 0), after.instructions.get(name, 0)) for name in names}
    changed = [(name, old, new) for name, (old, new) in counts.items() if old != new]
    changed.sort(key=lambda row: (row[0] != _TOTAL, -abs(row[2] - row[1]), row[0]))
    return tuple(Fact(name=name, unit="", before=old, after=new) for name, old, new in changed)
