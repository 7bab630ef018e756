"""Compiled code of a build, and the comparison of two builds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warpwatch.dashboard.model.compiled_code import CodeChange, CompiledCode, Fact, compiled_difference

# The file is untrusted and its names are published, so names have few characters.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_:.<>,~ ]+$", max_length=200)]
Architecture = Annotated[str, Field(pattern=r"^sm_\d{2,3}[af]?$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
CommitHash = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Count = Annotated[int, Field(ge=0)]

_LARGEST_FILE = 32 * 2**20  # bytes
_Model = TypeVar("_Model", bound=BaseModel)


class CodeFileError(Exception):
    """A file is invalid; the message names the field."""


class KernelFacts(BaseModel):
    """One kernel on one architecture; perf_suite/compiled/machine_code.py defines the fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer suite may add fields

    operator: Name
    kernel: Name
    architecture: Architecture
    registers: Count
    stack_bytes: Count
    shared_bytes: Count
    dynamic_shared_bytes: Count | None = None
    barriers: Count | None = None
    occupancy: Annotated[float, Field(ge=0, le=1)] | None = None
    occupancy_limit: Name | None = None
    local_memory_instructions: Count
    code_bytes: Count
    instructions: Mapping[Name, Count]
    sha256: Sha256

    def as_code(self) -> CompiledCode:
        """The dashboard's record of it."""
        return CompiledCode(implementation="warpwatch", **self.model_dump())


class CommitFacts(BaseModel):
    """Compiled code of one commit."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_number: Literal[1] = Field(alias="schema")
    commit: CommitHash
    tools: Annotated[str, Field(max_length=200)]
    code_sha256: Mapping[Architecture, Sha256]
    kernels: Annotated[tuple[KernelFacts, ...], Field(max_length=20_000)]


def read_facts(path: Path) -> CommitFacts:
    """Reads a file of `python -m perf_suite.compiled`. Raises CodeFileError."""
    return read_model(CommitFacts, path, made_by="python -m perf_suite.compiled")


def read_model(model: type[_Model], path: Path, *, made_by: str) -> _Model:
    """Reads a file of a schema. Raises CodeFileError, which names the first invalid field and quotes no text."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise CodeFileError(f"{path} is larger than {_LARGEST_FILE // 2**20} MiB; `{made_by}` writes less")
        return model.model_validate_json(text)
    except OSError as error:
        raise CodeFileError(f"{path}: {error.strerror}; `{made_by}` writes it") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        field = ".".join(_printable(part) for part in first["loc"]) or "the document"
        raise CodeFileError(f"{path} is not a file of `{made_by}`: {field}: {first['type']}") from error


def _printable(part: str | int) -> str:
    """A key of the untrusted file, safe for logs of workflows, in which a line can be a command."""
    return str(part) if isinstance(part, int) or part.isidentifier() else "?"


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
    return tuple(Difference.model_validate(each, from_attributes=True) for each in facts)


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
