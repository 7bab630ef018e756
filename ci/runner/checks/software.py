"""Software that builds and measures the kernels: Python and its packages, compilers, git, asv."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ..calibration_files import ceiling_file, cpu_key
from ..finding import Finding, Subject
from ..host import Host

_OLDEST_PYTHON = (3, 11)
_BUILD = "sudo apt-get install -y g++ make git python3-venv"


def python(host: Host) -> Iterator[Finding]:
    """The measuring interpreter, and asv in it."""
    version, subject = host.packages.get("python"), Subject("python", host.python)
    if version is None:
        yield subject.wrong("does not run", why="Nothing can be measured.", fix=f"make -C {host.folder} setup")
    elif tuple(map(int, version.split(".")[:2])) < _OLDEST_PYTHON:
        yield subject.wrong(
            f"Python {version}",
            why="warpwatch and asv need 3.11 or newer.",
            fix=f"rm -r {host.folder / '.venv'} && make -C {host.folder} setup PYTHON=python3.12",
        )
    elif "asv" not in host.packages:
        yield subject.wrong(
            f"Python {version} without asv",
            why="asv builds the commits and runs the benchmarks.",
            fix=f"make -C {host.folder} setup",
        )
    else:
        yield subject.good(f"Python {version} with asv {host.packages['asv']}")


def torch(host: Host) -> Iterator[Finding]:
    """PyTorch in that interpreter; with a GPU, its CUDA build and NVBench."""
    subject, version = Subject("torch", f"packages of {host.python}"), host.packages.get("torch")
    install = f"make -C {host.folder} setup"
    if version is None:
        yield subject.wrong("PyTorch is not installed", why="The suite measures PyTorch operators.", fix=install)
    elif host.gpus.devices and version.endswith("+cpu"):
        yield subject.wrong(
            f"PyTorch {version} on a machine with a GPU",
            why="The CPU build cannot use the GPU: the CPU twins would be measured.",
            fix=f"rm -r {host.folder / '.venv'} && {install}",
        )
    elif host.gpus.devices and "cuda-bench" not in host.packages:
        yield subject.note(
            f"PyTorch {version} without cuda-bench (NVBench)",
            why="The suite then times with CUDA events, which are noisier, and reads no clock per call.",
            fix=f"{host.python} -m pip install 'warpwatch[gpu]'",
        )
    else:
        yield subject.good(f"PyTorch {version}")


def compiler(host: Host) -> Iterator[Finding]:
    answer = host.run("g++", "--version")
    subject = Subject("compiler", "g++ --version")
    if answer.status:
        yield subject.wrong(answer.first_line, why="Each commit's kernels are compiled here.", fix=_BUILD)
    else:
        yield subject.good(answer.first_line)


def cuda_compiler(host: Host) -> Iterator[Finding]:
    """nvcc, from a toolkit or from NVIDIA's packages for pip."""
    subject = Subject("nvcc", "CUDA_HOME, PATH, and pip's nvidia-cuda-nvcc")
    home = host.environ.get("CUDA_HOME")
    nvcc = str(Path(home) / "bin" / "nvcc") if home and (Path(home) / "bin" / "nvcc").exists() else host.which("nvcc")
    version = host.packages.get("nvidia-cuda-nvcc")
    if nvcc:
        yield subject.good(nvcc)
    elif version:
        yield subject.good(f"from pip, {version}")
    else:
        yield subject.wrong(
            "no CUDA compiler",
            why="The CUDA kernels cannot be built.",
            fix=f"{host.python} -m pip install -r {host.folder}/kernels/building/cuda_from_pip.txt",
        )


def git(host: Host) -> Iterator[Finding]:
    """Whether the checkout is a git repository with its whole history."""
    answer = host.run(*host.as_user, "git", "-C", str(host.folder), "rev-parse", "--is-shallow-repository")
    subject = Subject("git", f"git -C {host.folder} rev-parse")
    if answer.status == 127:
        yield subject.wrong(answer.err, why="asv checks out commits with git.", fix=_BUILD)
    elif "dubious ownership" in answer.err:
        yield subject.wrong(
            "the checkout belongs to another user",
            why="git refuses to work in it, which stops asv.",
            fix=f"git config --global --add safe.directory {host.folder}",
        )
    elif answer.status:
        yield subject.wrong(
            answer.first_line,
            why="asv builds the commits of a git repository.",
            fix="git clone ADDRESS, and run this command in the clone",
        )
    elif answer.out.strip() == "true":
        yield subject.note(
            "a shallow clone",
            why="Commits before its end can be neither measured nor ordered.",
            fix=f"git -C {host.folder} fetch --unshallow",
        )
    else:
        yield subject.good("a repository with its whole history")


_OLD_DAYS = 365


def project(host: Host) -> Iterator[Finding]:
    """asv.conf.json."""
    path = host.folder / "asv.conf.json"
    subject = Subject("asv project", str(path))
    if path.is_file():
        yield subject.good("found")
    else:
        yield subject.wrong(
            "missing",
            why="asv.conf.json defines the measured project.",
            fix="run this command in the checkout, or name the checkout with --folder",
        )


def machine(host: Host) -> Iterator[Finding]:
    """asv's name for this machine, under which results are recorded."""
    path = host.home / ".asv-machine.json"
    subject = Subject("asv machine", str(path))
    try:
        names = [name for name in json.loads(path.read_text()) if name != "version"]
    except FileNotFoundError:
        names = []
    except (OSError, ValueError, TypeError) as error:
        yield subject.wrong(
            f"cannot be read: {error}", why="asv needs the machine's name.", fix=f"rm {path} && asv machine --yes"
        )
        return
    hostname = (host.read("/proc/sys/kernel/hostname") or "").strip()
    if not names:
        yield subject.wrong(
            "this machine has no name yet",
            why="asv prompts for the name at the first run, and a runner has no one to answer.",
            fix="asv machine --yes",
        )
    elif len(names) > 1 and hostname not in names:
        yield subject.wrong(
            f"it names {', '.join(names)}, and this host is {hostname}",
            why="asv looks up the entry with the host's name, and there is none.",
            fix="asv machine --yes",
        )
    else:
        yield subject.good(hostname if hostname in names else names[0])


def calibration(host: Host) -> Iterator[Finding]:
    """Ceilings of each GPU, or of the processor if there is no GPU."""
    keys = [gpu.uuid for gpu in host.gpus.devices] or [cpu_key(host.read("/proc/cpuinfo") or "")]
    for key in keys:
        path = ceiling_file(host, key)
        why = "The pages compare latencies with the ceilings measured here, next to the data sheet's peaks."
        fix = f"cd {host.folder} && warpbench calibrate"
        subject = Subject("calibration", str(path))
        try:
            measured_at = str(json.loads(path.read_text())["measured_at"])
        except FileNotFoundError:
            yield subject.note("never measured", why=why, fix=fix)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield subject.wrong(f"cannot be read: {error!r}", why=why, fix=f"rm {path} && {fix}")
        else:
            days = _days_since(measured_at)
            if days is not None and days > _OLD_DAYS:
                yield subject.note(
                    f"{days} days old", why="Driver updates, dust and aging change a GPU's ceilings.", fix=fix
                )
            else:
                yield subject.good(f"measured {measured_at[:10]}")


def _days_since(moment: str) -> int | None:
    try:
        then = datetime.fromisoformat(re.sub(r"Z$", "+00:00", moment))
    except ValueError:
        return None
    return (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).days
