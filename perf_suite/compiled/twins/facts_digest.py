"""One hash of everything that the facts of a compiled twin depend on. No torch here."""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import warpbench
from warpbench.python_code import python_code_sha256
from warpbench.workload import Workload

from ..code_digest import code_digest
from ..watched_kernels import operator_of

_SUITE = Path(__file__).resolve().parents[2]
_WARPBENCH = Path(warpbench.__file__).resolve().parent
# What calls the twins, compiles them and reads the machine code; what each of these imports of ours is found by itself.
# A package's __init__ is named here, since an import of a module in it does not lead there.
_COMPUTED_BY = (
    (_SUITE, "compiled/twins/__init__.py"),
    (_SUITE, "compiled/twins/under_triton/compiler.py"),
    (_WARPBENCH, "compiled/machine_code.py"),
    (_WARPBENCH, "compiled/triton_cache.py"),
    (_WARPBENCH, "inputs.py"),
    (_WARPBENCH, "draw.py"),
)
_NOT_TRITONS_OUTPUT = {"TRITON_CACHE_DIR", "TRITON_INTERPRET"}  # set for the compiler, whatever they are here


def workloads_that_call(operator: str) -> tuple[Workload, ...]:
    """The workloads that lead to the configurations of an operator's twin, in the catalogue's order."""
    from ...catalogue import workloads_of  # which imports the benchmarks of the twins

    return tuple(
        workload
        for workload in workloads_of(operator)
        if workload.device == "cuda" and "triton" in workload.implementations
    )


def facts_digests(wanted: Collection[tuple[str, str]], software: Mapping[str, str]) -> Mapping[tuple[str, str], str]:
    """A digest of each (function, architecture) of the installed commit, compiled and read by this software.

    Comments and line numbers change neither the digest nor the facts. There is none of a function that is not watched,
    or that this commit does not have.
    """
    tritons = {name: value for name, value in os.environ.items() if name.startswith("TRITON_")}
    settings = {name: value for name, value in tritons.items() if name not in _NOT_TRITONS_OUTPUT}
    common = (dict(software), settings, [_code(folder, module) for folder, module in _COMPUTED_BY])
    operators = {function: operator_of(function) for function, _ in wanted}
    sources = {operator: _sources(operator) for operator in set(operators.values()) if operator is not None}
    return {
        (function, architecture): _sha256(function, architecture, source, common)
        for function, architecture in wanted
        if (operator := operators[function]) is not None and (source := sources[operator]) is not None
    }


def _sources(operator: str) -> str | None:
    twin = code_digest("triton", operator, "9.0")  # Python, and so the same for every GPU
    if twin is None:
        return None
    called_with = [(workload.dtype, dict(workload.parameters)) for workload in workloads_that_call(operator)]
    return _sha256(twin, called_with, _code(_SUITE, f"benchmarks/{operator}.py"))


def _code(folder: Path, module: str) -> str:
    return python_code_sha256(folder / module, folder)


def _sha256(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
