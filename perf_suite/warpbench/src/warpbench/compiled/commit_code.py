"""All of one commit's compiled code as one document, to be compared with another commit's. No torch here."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from .cuda_binaries import Tools
from .machine_code import KernelCode

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCode:
    """Kernels of a commit, and for each architecture one hash of all that runs there."""

    commit: str  # full hash
    tools: str  # cuobjdump's version: another one may name instructions otherwise
    kernels: tuple[KernelCode, ...]
    code_sha256: Mapping[str, str]  # by architecture; equal where nothing was changed but words and places


def commit_code(commit: str, tools: Tools, kernels: Sequence[KernelCode], shared: Sequence[str]) -> CommitCode:
    """The code of a commit; `shared` are hashes of what runs on every architecture, such as the host's code."""
    return CommitCode(
        commit=commit,
        tools=tools.version(),
        kernels=tuple(kernels),
        code_sha256={
            name: _sha256([*shared, *(f"{each.kernel} {each.sha256}" for each in kernels if each.architecture == name)])
            for name in sorted({each.architecture for each in kernels})
        },
    )


def as_json(code: CommitCode, operator_of: Callable[[str], str]) -> str:
    """The document: a kernel a line, so that two of them can also be compared with diff."""
    kernels = [json.dumps({"operator": operator_of(each.kernel), **asdict(each)}) for each in code.kernels]
    head = {"schema": SCHEMA, "commit": code.commit, "tools": code.tools, "code_sha256": dict(code.code_sha256)}
    return json.dumps(head)[:-1] + ', "kernels": [\n' + ",\n".join(kernels) + "\n]}\n"


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
