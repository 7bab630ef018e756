"""All of one commit's compiled code as one document. No torch here."""

from warpbench.compiled.commit_code import as_json, commit_code
from warpbench.compiled.cuda_binaries import find_tools
from warpbench.compiled.machine_code import read_machine_code
from warpbench.python_code import python_code_sha256

from .installed_kernels import compiled_sources, kernels_folder, library
from .watched_kernels import ARCHITECTURES, operator_of

_NOT_RUN = "building"  # makes the library, and is not part of what runs


def read_commit_code(commit: str) -> str:
    """The document of the `warpwatch.kernels` that Python imports: every kernel of the library, watched or not.

    Raises NoKernelsError where it is not built, NoToolsError without NVIDIA's tools, CalledProcessError if the library
    cannot be read.
    """
    tools = find_tools()
    kernels = read_machine_code(library(), tools, ARCHITECTURES, is_wanted=lambda kernel: True)
    code = commit_code(commit, tools, kernels, [*_host_code(), *_python_code()])
    return as_json(code, lambda kernel: operator_of(kernel) or kernel)


def _host_code() -> list[str]:
    """What launches the kernels: tables of tiles, grids, the choice between kernels."""
    return [f"{source} {facts.host_sha256}" for source, facts in sorted(compiled_sources().items())]


def _python_code() -> list[str]:
    """The operators' Python and the Triton twins; each module alone, since what it imports is listed separately."""
    folder = kernels_folder()
    modules = [path for path in sorted(folder.rglob("*.py")) if path.relative_to(folder).parts[0] != _NOT_RUN]
    return [f"{path.relative_to(folder)} {python_code_sha256(path, path)}" for path in modules]
