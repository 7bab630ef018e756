"""What builds the kernels and measures them: Python and its packages, compilers, git."""

from collections.abc import Iterator
from pathlib import Path

from ..finding import Finding, good, note, wrong
from ..host import Host

_OLDEST_PYTHON = (3, 11)
_BUILD = "sudo apt-get install -y g++ make git python3-venv"


def python(host: Host) -> Iterator[Finding]:
    """The interpreter that measures, and asv in it."""
    version, looked_at = host.packages.get("python"), host.python
    if version is None:
        yield wrong(
            "python", looked_at, "it does not run", why="Nothing can be measured.", fix=f"make -C {host.folder} setup"
        )
    elif tuple(map(int, version.split(".")[:2])) < _OLDEST_PYTHON:
        yield wrong(
            "python",
            looked_at,
            f"Python {version}",
            why="warpwatch and asv want 3.11 or newer.",
            fix=f"rm -r {host.folder / '.venv'} && make -C {host.folder} setup PYTHON=python3.12",
        )
    elif "asv" not in host.packages:
        yield wrong(
            "python",
            looked_at,
            f"Python {version} without asv",
            why="asv builds the commits and runs the benchmarks.",
            fix=f"make -C {host.folder} setup",
        )
    else:
        yield good("python", looked_at, f"Python {version} with asv {host.packages['asv']}")


def torch(host: Host) -> Iterator[Finding]:
    """PyTorch in that interpreter: its CUDA build where there is a card, and NVBench beside it."""
    looked_at, version = f"packages of {host.python}", host.packages.get("torch")
    install = f"make -C {host.folder} setup"
    if version is None:
        yield wrong(
            "torch", looked_at, "PyTorch is not installed", why="The suite measures PyTorch operators.", fix=install
        )
    elif host.gpus.cards and version.endswith("+cpu"):
        yield wrong(
            "torch",
            looked_at,
            f"PyTorch {version} on a machine with a GPU",
            why="The CPU build sees no card: the CPU twins would be measured.",
            fix=f"rm -r {host.folder / '.venv'} && {install}",
        )
    elif host.gpus.cards and "cuda-bench" not in host.packages:
        yield note(
            "torch",
            looked_at,
            f"PyTorch {version} without cuda-bench (NVBench)",
            why="The suite then times with CUDA events, which scatter more, and reads no clock beside each call.",
            fix=f"{host.python} -m pip install 'warpwatch[gpu]'",
        )
    else:
        yield good("torch", looked_at, f"PyTorch {version}")


def compiler(host: Host) -> Iterator[Finding]:
    """The host's C++ compiler."""
    said = host.run("g++", "--version")
    if said.status:
        yield wrong(
            "compiler", "g++ --version", said.first_line, why="Each commit's kernels are compiled here.", fix=_BUILD
        )
    else:
        yield good("compiler", "g++ --version", said.first_line)


def cuda_compiler(host: Host) -> Iterator[Finding]:
    """nvcc, of a toolkit or of NVIDIA's packages for pip."""
    looked_at = "CUDA_HOME, PATH, and pip's nvidia-cuda-nvcc"
    home = host.environ.get("CUDA_HOME")
    found = str(Path(home) / "bin" / "nvcc") if home and (Path(home) / "bin" / "nvcc").exists() else host.which("nvcc")
    packaged = host.packages.get("nvidia-cuda-nvcc")
    if found:
        yield good("nvcc", looked_at, found)
    elif packaged:
        yield good("nvcc", looked_at, f"from pip, {packaged}")
    else:
        yield wrong(
            "nvcc",
            looked_at,
            "no CUDA compiler",
            why="The CUDA kernels cannot be built.",
            fix=f"{host.python} -m pip install -r {host.folder}/kernels/building/cuda_from_pip.txt",
        )


def git(host: Host) -> Iterator[Finding]:
    """Whether the checkout is one, and its history whole: asv builds commits, the dashboard orders them."""
    said = host.run(*host.as_user, "git", "-C", str(host.folder), "rev-parse", "--is-shallow-repository")
    looked_at = f"git -C {host.folder} rev-parse"
    if said.status == 127:
        yield wrong("git", looked_at, said.err, why="asv checks commits out with it.", fix=_BUILD)
    elif "dubious ownership" in said.err:
        yield wrong(
            "git",
            looked_at,
            "the checkout belongs to another user",
            why="git refuses to work in it, and so does asv.",
            fix=f"git config --global --add safe.directory {host.folder}",
        )
    elif said.status:
        yield wrong(
            "git",
            looked_at,
            said.first_line,
            why="asv builds the commits of a git repository.",
            fix="git clone ADDRESS, and run this in the clone",
        )
    elif said.out.strip() == "true":
        yield note(
            "git",
            looked_at,
            "a shallow clone",
            why="Commits before its end can be neither measured nor put in order.",
            fix=f"git -C {host.folder} fetch --unshallow",
        )
    else:
        yield good("git", looked_at, "a repository with its whole history")
