"""All of one commit's compiled code as one document, to be laid beside that of another commit. No torch here."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warpbench.compiled.cuda_binaries import find_tools
from warpbench.compiled.machine_code import KernelCode, read_machine_code
from warpbench.python_code import python_code_sha256

from .installed_kernels import compiled_sources, kernels_folder, library
from .watched_kernels import ARCHITECTURES, operator_of

SCHEMA = 1
_NOT_RUN = "building"  # makes the library, and is not part of what runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCode:
    """Every kernel of a library, watched or not, and for each architecture one hash of all that runs there."""

    commit: str  # full hash
    tools: str  # cuobjdump's version: another one may name instructions otherwise
    kernels: tuple[KernelCode, ...]
    code_sha256: Mapping[str, str]  # by architecture; equal where nothing was changed but words and places


def read_commit_code(commit: str) -> CommitCode:
    """Of the `warpwatch.kernels` that Python imports.

    Raises NoKernelsError where it is not built, NoToolsError without NVIDIA's tools, CalledProcessError if the library
    cannot be read.
    """
    tools = find_tools()
    kernels = read_machine_code(library(), tools, ARCHITECTURES, is_wanted=lambda kernel: True)
    shared = [*_host_code(), *_python_code()]
    architectures = sorted({each.architecture for each in kernels})
    return CommitCode(
        commit=commit,
        tools=tools.version(),
        kernels=kernels,
        code_sha256={name: _sha256([*shared, *_machine_code(kernels, name)]) for name in architectures},
    )


def as_json(code: CommitCode) -> str:
    """The document: a kernel a line, so that two of them can also be compared with diff."""
    kernels = [
        json.dumps({"operator": operator_of(each.kernel) or each.kernel, **asdict(each)}) for each in code.kernels
    ]
    head = {"schema": SCHEMA, "commit": code.commit, "tools": code.tools, "code_sha256": dict(code.code_sha256)}
    return json.dumps(head)[:-1] + ', "kernels": [\n' + ",\n".join(kernels) + "\n]}\n"


def _machine_code(kernels: Sequence[KernelCode], architecture: str) -> list[str]:
    return [f"{each.kernel} {each.sha256}" for each in kernels if each.architecture == architecture]


def _host_code() -> list[str]:
    """What launches the kernels: tables of tiles, grids, the choice between kernels."""
    return [f"{source} {facts.host_sha256}" for source, facts in sorted(compiled_sources().items())]


def _python_code() -> list[str]:
    """The operators' Python and the Triton twins."""
    folder = kernels_folder()
    modules = [path for path in sorted(folder.rglob("*.py")) if path.relative_to(folder).parts[0] != _NOT_RUN]
    return [f"{path.relative_to(folder)} {_alone_sha256(path)}" for path in modules]


def _alone_sha256(module: Path) -> str:
    return python_code_sha256(module, module)  # itself as the package: what it imports is listed beside it


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
