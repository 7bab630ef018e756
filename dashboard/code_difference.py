"""What the compiler made differently of a kernel at two commits: registers, spills, shared memory, instructions."""

from collections.abc import Iterable
from dataclasses import dataclass

from warpwatch.dashboard.store.records import CompiledCode

_FACTS = (  # attribute, what it is called, unit
    ("registers", "registers", ""),
    ("occupancy", "occupancy", "share"),
    ("local_memory_instructions", "spills and other local memory", "instructions"),
    ("stack_bytes", "stack", "bytes"),
    ("shared_bytes", "shared memory", "bytes"),
    ("dynamic_shared_bytes", "dynamic shared memory", "bytes"),
    ("barriers", "barriers", ""),
    ("code_bytes", "code", "bytes"),
)
_MOST_INSTRUCTIONS = 3
_SMALL = 0.02  # of all instructions: too few of a kind to be told


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number that is another one now; None: not recorded."""

    name: str
    unit: str  # "share" for a share of the whole, else as in a metric
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDifference:
    """One kernel for one architecture. Without facts only the order or the kind of a few instructions differ."""

    operator: str
    kernel: str
    architecture: str
    is_new: bool
    is_gone: bool
    facts: tuple[Fact, ...]


def code_differences(before: Iterable[CompiledCode], after: Iterable[CompiledCode]) -> tuple[CodeDifference, ...]:
    """The kernels whose machine code differs, those with the most to tell first.

    Of an operator that is recorded at one end alone nothing is told: nobody compiled it at the other.
    """
    old = {(code.operator, code.kernel, code.architecture): code for code in before}
    new = {(code.operator, code.kernel, code.architecture): code for code in after}
    at_both = {(key[0], key[2]) for key in old} & {(key[0], key[2]) for key in new}
    found = []
    for key in sorted(old.keys() | new.keys()):
        first, second = old.get(key), new.get(key)
        if (key[0], key[2]) not in at_both or (first and second and is_same(first, second)):
            continue
        facts = _facts(first, second) if first and second else ()
        found.append(
            CodeDifference(
                operator=key[0], kernel=key[1], architecture=key[2], is_new=first is None, is_gone=second is None,
                facts=facts,
            )
        )  # fmt: skip
    found.sort(key=lambda one: -len(one.facts))
    return tuple(found)


def is_same(first: CompiledCode, second: CompiledCode) -> bool:
    """Whether both are one machine code, by its hash; where none was recorded, by all that was."""
    if first.sha256 is not None and second.sha256 is not None:
        return first.sha256 == second.sha256
    return not _facts(first, second)


def _facts(first: CompiledCode, second: CompiledCode) -> tuple[Fact, ...]:
    told = [
        Fact(name=name, unit=unit, before=getattr(first, attribute), after=getattr(second, attribute))
        for attribute, name, unit in _FACTS
        if getattr(first, attribute) != getattr(second, attribute)
        and None not in (getattr(first, attribute), getattr(second, attribute))
    ]
    return (*told, *_instructions(first, second))


def _instructions(first: CompiledCode, second: CompiledCode) -> list[Fact]:
    """All of them, and the kinds whose number moved the most."""
    total = first.instructions.get("total"), second.instructions.get("total")
    if total[0] is None or total[1] is None:
        return []
    facts = [Fact(name="instructions", unit="", before=total[0], after=total[1])] if total[0] != total[1] else []
    kinds = (first.instructions.keys() | second.instructions.keys()) - {"total"}
    moved = {kind: second.instructions.get(kind, 0) - first.instructions.get(kind, 0) for kind in kinds}
    largest = sorted((kind for kind in kinds if moved[kind]), key=lambda kind: (-abs(moved[kind]), kind))
    return facts + [
        Fact(name=kind, unit="", before=first.instructions.get(kind, 0), after=second.instructions.get(kind, 0))
        for kind in largest[:_MOST_INSTRUCTIONS]
        if abs(moved[kind]) > _SMALL * max(total[0], total[1])
    ]
