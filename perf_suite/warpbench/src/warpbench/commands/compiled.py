"""`warpbench compiled FILE`: the named kernels of the built libraries as a file, for `warpwatch compare --code`."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from ..compiled.benchmark import named_kernels, no_such_kernel
from ..compiled.commit_code import as_json, commit_code
from ..compiled.cuda_binaries import NoToolsError, Tools, find_tools
from ..compiled.library_file import NoLibraryError, find_library
from ..compiled.machine_code import KernelCode, kernel_names, read_machine_code
from ..project import Project, project_here

_ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "compiled",
        help="write the compiled code of the CUDA kernels that the benchmarks name",
        description="Read the libraries that @kernel(library=…, kernels=…) names and write registers, memory, "
        "instructions and a hash of each kernel for each architecture, without a GPU. `warpwatch compare --code` lays "
        "the files of two commits side by side.",
    )
    parser.add_argument("output", type=Path, metavar="FILE", help="JSON")
    parser.add_argument(
        "--architecture", action="append", metavar="NAME", help="such as sm_90a, may be repeated; default: all usual"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read and write. Exit status 2: there is nothing to read, and the sentence says why."""
    project = project_here()
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project.folder, capture_output=True, text=True)
    if done.returncode:
        _refuse(f"{project.folder} is no git checkout with a commit: {done.stderr.strip()}")
    try:
        tools = find_tools()
        kernels, operators, shared = _read(project, tools, arguments.architecture or _ARCHITECTURES)
    except (NoLibraryError, NoToolsError, ValueError) as error:
        _refuse(str(error))
    code = commit_code(done.stdout.strip(), tools, kernels, shared)
    arguments.output.write_text(as_json(code, lambda kernel: operators[kernel]))


def _read(
    project: Project, tools: Tools, architectures: list[str] | tuple[str, ...]
) -> tuple[list[KernelCode], dict[str, str], list[str]]:
    """The kernels, the operator of each, and hashes of the Python and the libraries that run on every architecture."""
    found: dict[tuple[str, str], KernelCode] = {}
    operators: dict[str, str] = {}
    shared = []
    for named in (named for kind in project.operators.values() for named in named_kernels(kind)):
        if named.library is None:
            continue
        path = find_library(named.library)
        shared.append(
            f"{named.kind.operator} {named.implementation} {named.kind.code_sha256(named.implementation, None)}"
        )
        codes = read_machine_code(path, tools, architectures, is_wanted=named.matches)
        if not codes:
            names = kernel_names(path, tools)
            if any(map(named.matches, names)):
                raise ValueError(f"{path} has no code for {', '.join(architectures)}; see --architecture")
            raise ValueError(no_such_kernel("|".join(named.patterns), named, names, str(path)))
        for code in codes:
            found.setdefault((code.kernel, code.architecture), code)
            operators.setdefault(code.kernel, named.kind.operator)
    if not found:
        raise ValueError('no benchmark names a library: @kernel(library="package/_C*.so", kernels=["rms_norm_.*"])')
    return [found[key] for key in sorted(found)], operators, shared


def _refuse(sentence: str) -> NoReturn:
    print(f"warpbench compiled: {sentence}", file=sys.stderr)
    sys.exit(2)
