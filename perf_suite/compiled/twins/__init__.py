"""The Triton twins compiled for GPUs that are not here, and the facts of their machine code. No torch in this file.

What needs Triton runs in a process of its own, from `under_triton/`. That folder has no __init__.py, so that asv, which
imports every module of its benchmark folder, passes it over where Triton is missing.
"""

import importlib.metadata
import importlib.util
import json
import math
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpbench.child_process import python_running
from warpbench.compiled.cuda_binaries import NoToolsError, Tools, find_tools
from warpbench.compiled.machine_code import KernelKey, kernel_code
from warpbench.compiled.triton_cache import TritonKernel, triton_instantiations

from .compiled_twin import CompiledTwin, keep, kept
from .facts_digest import facts_digests

FACTS = "what.jsonl"  # in the folder that compiler.py writes
PROGRESS = "triton_progress.txt"  # in asv's environment: "12 80" after 12 of 80 compilations
_NOT_LAUNCHED = "this commit's twin launches no such function"
_LIMIT_S = 900.0
_LAST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledConfiguration:
    """One line of compiler.py's: a function in one configuration for one architecture, or why there is none."""

    architecture: str
    function: str
    configuration: str
    cubin: str = ""  # a file in the same folder
    shared_bytes: int = 0  # a block, dynamic, which is how Triton requests all of it
    compile_s: float | None = None  # CPU time, when it was compiled on this machine
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTwins:
    """What came of all of them, and why of the others nothing, by (function, architecture); by () of every other."""

    compiled: tuple[CompiledTwin, ...]
    unavailable: Mapping[tuple[str, ...], str]
    software: Mapping[str, str]


def compile_twins(wanted: Collection[tuple[str, str]]) -> CompiledTwins:
    """Compile (function, architecture) of the installed commit's twins, on all cores, in a process that sees no GPU.

    The facts of what was compiled here before come from the user's cache folder, and start no process.
    """
    for package, name in (("triton", "Triton"), ("torch", "PyTorch")):
        if importlib.util.find_spec(package) is None:
            return _nothing(f"{name} is not installed here")
    try:
        tools = find_tools()
    except NoToolsError as error:
        return _nothing(str(error))
    software = {"triton": importlib.metadata.version("triton"), "nvdisasm": tools.version()}
    depends_on = {**software, "torch": importlib.metadata.version("torch")}
    digests = facts_digests(wanted, depends_on)
    twins = {pair: twin for pair, digest in digests.items() if (twin := kept(_cache(), digest))}
    missing = [pair for pair in wanted if pair not in twins]
    unavailable: Mapping[tuple[str, ...], str] = {(): _NOT_LAUNCHED}
    if missing:
        compiled, unavailable = _compile(missing, tools)
        unedited = digests.items() & facts_digests(missing, depends_on).items()  # while it was compiled
        for pair, digest in unedited:
            if pair in compiled:
                keep(compiled[pair], _cache(), digest)
        twins |= compiled
    return CompiledTwins(
        compiled=tuple(twin for _, twin in sorted(twins.items())), unavailable=unavailable, software=software
    )


def _compile(
    wanted: Collection[tuple[str, str]], tools: Tools
) -> tuple[dict[tuple[str, str], CompiledTwin], Mapping[tuple[str, ...], str]]:
    """The twins by (function, architecture), and why of the others nothing, as in CompiledTwins."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problem = _run_compiler(folder, wanted)
        if problem and (environment := os.environ.get("ASV_ENV_DIR")):  # what remains is not compiled any more
            Path(environment, PROGRESS).unlink(missing_ok=True)
        facts = folder / FACTS
        lines = facts.read_text().splitlines() if facts.exists() else []
        found = [CompiledConfiguration(**json.loads(line)) for line in lines]
        twins = {(twin.code.kernel, twin.code.architecture): twin for twin in _compiled(folder, found, tools)}
        reasons: dict[tuple[str, ...], str] = {(): problem or _NOT_LAUNCHED}
        reasons |= {(each.function, each.architecture): each.reason for each in found if each.reason}
        return twins, reasons


def _run_compiler(folder: Path, wanted: Collection[tuple[str, str]]) -> str | None:
    """None, or what went wrong with the whole."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
        "CUDA_VISIBLE_DEVICES": "",
        "TRITON_CACHE_DIR": str(_cache()),
    }
    command = [
        *python_running("perf_suite.compiled.twins.under_triton.compiler"),
        str(folder),
        *(":".join(pair) for pair in wanted),
    ]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"the twins were not compiled within {_LIMIT_S:g} s"
    return None if done.returncode == 0 else f"the twins were not compiled: {done.stderr.strip()[-_LAST_WORDS:]}"


def _compiled(folder: Path, found: Collection[CompiledConfiguration], tools: Tools) -> tuple[CompiledTwin, ...]:
    """Those functions that compiled in all their configurations."""
    groups: dict[KernelKey, list[CompiledConfiguration]] = defaultdict(list)
    for each in found:
        groups[each.function, each.architecture].append(each)
    whole = {key: group for key, group in sorted(groups.items()) if not any(each.reason for each in group)}
    kernels = [
        TritonKernel(
            function=each.function,
            architecture=each.architecture,
            configuration=each.configuration,
            cubin=(folder / each.cubin).read_bytes(),
            shared_bytes=each.shared_bytes,
        )
        for group in whole.values()
        for each in group
    ]
    return tuple(
        CompiledTwin(code=kernel_code(*key, instantiations), compile_s=_sum(each.compile_s for each in whole[key]))
        for key, instantiations in triton_instantiations(kernels, tools).items()
    )


def _cache() -> Path:
    # Not the one that timed twins are compiled into: the compile time of what lies there is unknown.
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpwatch" / "twins"


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def _nothing(reason: str) -> CompiledTwins:
    return CompiledTwins(compiled=(), unavailable={(): reason}, software={})
