"""Compiled code of a kernel, and the difference between two commits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """What the compiler made of one kernel for one architecture at one commit."""

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
    occupancy_limit: str | None  # what allows no more


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
    """One kernel on one architecture that is not what it was."""

    operator: str
    kernel: str
    architecture: str
    before: CompiledCode | None  # None: new
    after: CompiledCode | None  # None: gone
    facts: tuple[Fact, ...]  # those that differ
    instructions: tuple[Fact, ...]  # likewise, the largest difference first; their total ahead of all

    @property
    def word(self) -> str:
        """What happened to it, where that is not plain from the facts."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "" if self.facts or self.instructions else "other machine code, the same counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledDifference:
    """What changed, by operator, kernel and architecture; what did not is counted."""

    changes: tuple[CodeChange, ...]
    unchanged: int
    has_both: bool  # whether both commits tell of compiled code at all


def compiled_difference(before: Sequence[CompiledCode], after: Sequence[CompiledCode]) -> CompiledDifference:
    """Kernels are the same by operator, name and architecture."""
    old, new = _by_place(before), _by_place(after)
    if not old or not new:
        return CompiledDifference(changes=(), unchanged=0, has_both=False)
    changes = [_change(place, old.get(place), new.get(place)) for place in sorted(old.keys() | new.keys())]
    told = tuple(change for change in changes if change is not None)
    return CompiledDifference(changes=told, unchanged=len(changes) - len(told), has_both=True)


def _is_same_code(before: CompiledCode, after: CompiledCode) -> bool:
    """By the hashes of the machine code, else by what was counted; what one side does not tell is no difference."""
    if before.sha256 and after.sha256:
        return before.sha256 == after.sha256
    return not _facts(before, after) and not _instructions(before, after)


_Place = tuple[str, str, str]


def _by_place(codes: Iterable[CompiledCode]) -> dict[_Place, CompiledCode]:
    return {(code.operator, code.kernel, code.architecture): code for code in codes}


def _change(place: _Place, before: CompiledCode | None, after: CompiledCode | None) -> CodeChange | None:
    operator, kernel, architecture = place
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
    told = [(name, unit, getattr(before, field), getattr(after, field)) for name, field, unit in _FACTS]
    return tuple(
        Fact(name=name, unit=unit, before=old, after=new)
        for name, unit, old, new in told
        if None not in (old, new) and old != new
    )


def _instructions(before: CompiledCode, after: CompiledCode) -> tuple[Fact, ...]:
    if not before.instructions or not after.instructions:
        return ()
    names = before.instructions.keys() | after.instructions.keys()
    counts = {name: (before.instructions.get(name, 0), after.instructions.get(name, 0)) for name in names}
    changed = [(name, old, new) for name, (old, new) in counts.items() if old != new]
    changed.sort(key=lambda each: (each[0] != _TOTAL, -abs(each[2] - each[1]), each[0]))
    return tuple(Fact(name=name, unit="", before=old, after=new) for name, old, new in changed)
