"""Compiled code of a commit, from a file of `python -m perf_suite.compiled` (schema 1)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warpwatch.dashboard.model.compiled_code import CompiledCode

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
