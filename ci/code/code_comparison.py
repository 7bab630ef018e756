"""Comparison of two commits' compiled code: the document that leaves the machine which built them."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from warpwatch.dashboard.model.compiled_code import CodeChange, CompiledCode, Fact, compiled_difference

from .compiled_facts import Architecture, CommitFacts, CommitHash, Name

_SPILLS, _OCCUPANCY, _REGISTERS, _TOTAL = "local memory instructions", "occupancy", "registers", "total"
_Value = Annotated[float, Field(ge=0, le=1e15)]


class Difference(BaseModel):
    """One quantity; `before` is None for a new kernel, `after` for a removed one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    unit: Literal["", "bytes", "share"]
    before: _Value | None
    after: _Value | None

    @property
    def growth(self) -> float:
        """After minus before; 0 if one is None."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


class KernelChange(BaseModel):
    """One changed kernel on one architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operator: Name
    kernel: Name
    architecture: Architecture
    what: Literal["changed", "new", "gone", "reordered"]  # reordered: other machine code, the same counts
    facts: Annotated[tuple[Difference, ...], Field(max_length=20)]  # those that differ; all of a new or removed kernel
    instructions: Annotated[
        tuple[Difference, ...], Field(max_length=1000)
    ]  # the total, then the largest difference first

    def fact(self, name: str) -> Difference | None:
        """The difference with that name; None if equal."""
        return next((each for each in (*self.facts, *self.instructions) if each.name == name), None)

    def growth(self, name: str) -> float:
        """Growth of the quantity with that name."""
        difference = self.fact(name)
        return difference.growth if difference else 0.0


class CodeComparison(BaseModel):
    """Changes of compiled code from base to head. The job that posts it validates it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_number: Literal[1] = Field(alias="schema")
    base: CommitHash
    head: CommitHash
    changes: Annotated[tuple[KernelChange, ...], Field(max_length=20_000)]  # the most important first
    unchanged: Annotated[int, Field(ge=0)]
    runs_same_code: Mapping[Architecture, bool]  # equal machine code, host code and Python


def compare_code(base: CommitFacts, head: CommitFacts) -> CodeComparison:
    """Compares kernels of the same operator, name and architecture."""
    difference = compiled_difference(_codes(base), _codes(head))
    architectures = sorted(base.code_sha256.keys() | head.code_sha256.keys())
    return CodeComparison(
        schema=1,
        base=base.commit,
        head=head.commit,
        changes=tuple(sorted(map(_change, difference.changes), key=_rank)),
        unchanged=difference.unchanged,
        runs_same_code={
            name: base.code_sha256.get(name) is not None and base.code_sha256.get(name) == head.code_sha256.get(name)
            for name in architectures
        },
    )


def _codes(facts: CommitFacts) -> tuple[CompiledCode, ...]:
    return tuple(each.as_code() for each in facts.kernels)


def _change(change: CodeChange) -> KernelChange:
    code = change.after or change.before
    assert code is not None
    what: Literal["changed", "new", "gone", "reordered"] = "changed"
    facts, instructions = _differences(change.facts), _differences(change.instructions)
    if change.before is None or change.after is None:
        what = "new" if change.before is None else "gone"
        facts, instructions = _one_side(code, is_new=what == "new"), ()
    elif not facts and not instructions:
        what = "reordered"
    return KernelChange(
        operator=change.operator,
        kernel=change.kernel,
        architecture=change.architecture,
        what=what,
        facts=facts,
        instructions=instructions,
    )


def _differences(facts: Iterable[Fact]) -> tuple[Difference, ...]:
    return tuple(Difference.model_validate(_asdict(each)) for each in facts)


def _asdict(fact: Fact) -> dict[str, object]:
    return {"name": fact.name, "unit": fact.unit, "before": fact.before, "after": fact.after}


def _one_side(code: CompiledCode, *, is_new: bool) -> tuple[Difference, ...]:
    facts: tuple[tuple[str, Literal["", "bytes", "share"], float | None], ...] = (
        (_REGISTERS, "", code.registers),
        (_SPILLS, "", code.local_memory_instructions),
        ("shared memory", "bytes", code.shared_bytes),
        (_OCCUPANCY, "share", code.occupancy),
        (_TOTAL, "", code.instructions.get(_TOTAL)),
    )
    return tuple(
        Difference(name=name, unit=unit, before=None if is_new else value, after=value if is_new else None)
        for name, unit, value in facts
        if value is not None
    )


def _rank(change: KernelChange) -> tuple[object, ...]:
    """Sort key: spills, occupancy, registers, then the share of changed instructions."""
    total = change.fact(_TOTAL)
    share = abs(total.growth) / total.before if total and total.before else 0.0
    return (
        ("changed", "gone", "new", "reordered").index(change.what),
        -change.growth(_SPILLS),
        change.growth(_OCCUPANCY),
        -abs(change.growth(_REGISTERS)),
        -share,
        change.kernel,
        change.architecture,
    )
