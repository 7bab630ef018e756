"""The cubins and the PTX inside a library, machine code as assembly: NVIDIA's tools, which come with Triton or CUDA."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_LISTED = re.compile(r"^Fatbin (elf|ptx) code:\n=+\narch = (\w+)$", re.MULTILINE)
_WRITTEN = re.compile(r"^Extracting (?:ELF|PTX) file.*?\d: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Both of one release."""

    cuobjdump: Path
    nvdisasm: Path

    def version(self) -> str:
        """As the tools say it: "Cuda compilation tools, release 12.8, V12.8.55"."""
        said = _run([self.cuobjdump, "--version"]).splitlines()
        return next((line for line in said if "release" in line), said[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One cubin or one PTX file of a library: what one source became for one architecture."""

    architecture: str  # "sm_90a", or of PTX "compute_80"
    data: bytes


class NoToolsError(Exception):
    """Machine code cannot be read here; the message says what is missing."""


def find_tools() -> Tools:
    """Triton's own, which are the same wherever that Triton is installed; else CUDA's. Raises NoToolsError."""
    if importlib.util.find_spec("elftools") is None:
        raise NoToolsError("cubins are read with pyelftools, which is not installed here")
    spec = importlib.util.find_spec("triton")
    folders = [Path(home) / "backends/nvidia/bin" for home in (spec.submodule_search_locations or ())] if spec else []
    if on_path := shutil.which("cuobjdump"):
        folders.append(Path(on_path).parent)
    for folder in folders:
        tools = Tools(cuobjdump=folder / "cuobjdump", nvdisasm=folder / "nvdisasm")
        if tools.cuobjdump.exists() and tools.nvdisasm.exists():
            return tools
    raise NoToolsError("cuobjdump and nvdisasm come with Triton or CUDA; neither is here")


def cubins_of(library: Path, tools: Tools) -> tuple[Code, ...]:
    """Every cubin of a library or object file, in the order of the file; none of a build for the CPU alone.

    Raises CalledProcessError if the file cannot be read.
    """
    return _extracted(library, tools, "elf", "sm_")


def ptx_of(library: Path, tools: Tools) -> tuple[Code, ...]:
    """Every PTX file of a library, likewise."""
    return _extracted(library, tools, "ptx", "compute_")


def disassemble(code: bytes, architecture: str, tools: Tools) -> str:
    """Machine code of "sm_90a" as assembly, a line an instruction. Raises CalledProcessError for what is none.

    Half a second goes by before nvdisasm begins, so give it the code of many functions, one behind the other.
    """
    with tempfile.NamedTemporaryFile(suffix=".sass") as file:
        file.write(code)
        file.flush()
        return _run([tools.nvdisasm, "--binary", architecture.replace("sm_", "SM"), file.name])


def _extracted(library: Path, tools: Tools, kind: str, prefix: str) -> tuple[Code, ...]:
    # A file's name says sm_90 of both sm_90 and sm_90a; the listing, in the same order, distinguishes them.
    listed = [found for listed_kind, found in _LISTED.findall(_cuobjdump(tools, library)) if listed_kind == kind]
    if not listed:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        written = _WRITTEN.findall(_cuobjdump(tools, f"-x{kind}", "all", library.resolve(), folder=folder))
        if len(written) != len(listed):
            raise ValueError(f"cuobjdump lists {len(listed)} {kind} files of {library} and wrote {len(written)}")
        return tuple(
            Code(architecture=prefix + name.removeprefix("sm_"), data=Path(folder, file).read_bytes())
            for name, file in zip(listed, written, strict=True)
        )


def _cuobjdump(tools: Tools, *arguments: object, folder: str | None = None) -> str:
    done = subprocess.run([tools.cuobjdump, *map(str, arguments)], capture_output=True, text=True, cwd=folder)
    if "does not contain device code" in done.stdout + done.stderr:  # reported as an error
        return ""
    done.check_returncode()
    return done.stdout


def _run(command: list[str | Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
