"""A clone of this repository whose newest commits make a CPU kernel slower, and the means to measure it."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.once_per_run import once_per_run

HOUSE = Path(__file__).resolve().parents[2]
ROPE = r"rope\.Rope\."  # asv's --bench
_SOURCE = Path("kernels/csrc/rope/rope_cpu.cpp")
_SOUND = "    turn_row(static_cast<const Element*>(p.x)"
# The same row 32 times over: the result is right and late, as a careless refactoring is. Eight times would be 1.6 times
# as slow where angles are computed, which a noisy machine cannot distinguish from less than twice.
_SLOW = "    for (int again = 0; again < 32; ++again) turn_row(static_cast<const Element*>(p.x)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedClone:
    """The clone, its own commits from the oldest on, and the environment of its commands."""

    folder: Path
    commits: tuple[str, ...]
    planted: str  # the first slow one
    environment: dict[str, str]

    def asv(self, *words: str) -> None:
        """A command of asv, which must succeed."""
        self._run("asv", *words, must=True)

    def warpwatch(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of ours, however it ends."""
        return self._run("warpwatch.ci.cli", *words, must=False)

    def _run(self, module: str, *words: str, must: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert not must or done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done


def planted_clone(tmp_path_factory: pytest.TempPathFactory, name: str, *, good: int, bad: int) -> PlantedClone:
    """So many commits that change a note, then one that plants the slowdown, and further ones up to `bad`."""
    root = tmp_path_factory.mktemp(name) / "home"
    shutil.copytree(once_per_run(tmp_path_factory, "clone", _prepare), root, symlinks=True)
    folder, commits = root / "clone", []
    for number in range(good + bad):
        if number == good:
            _plant(folder)
        (folder / "NOTES.md").write_text(f"note {number}\n")
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"change {number}")
        commits.append(_git(folder, "rev-parse", "HEAD"))
    return PlantedClone(folder=folder, commits=tuple(commits), planted=commits[good], environment=_environment(root))


def _prepare(root: Path) -> None:
    """The clone, asv's file of this machine, and asv's environment, for which pip takes 15 CPU seconds."""
    folder = root / "clone"
    _git(root, "clone", "--quiet", str(HOUSE), str(folder))
    _git(folder, "checkout", "--quiet", "--detach")  # as a runner's checkout is
    for words in (("machine", "--yes"), ("setup",)):  # the latter's exit status is 1 also when all went well
        command = [sys.executable, "-m", "asv", *words]
        done = subprocess.run(command, cwd=folder, env=_environment(root), capture_output=True, text=True)
    assert list(folder.glob(".asv/env/*/asv-env-info.json")), done.stdout + done.stderr


def _environment(root: Path) -> dict[str, str]:
    """That of commands whose home is `root`: asv keeps its machine file there."""
    environment = os.environ | {
        "HOME": str(root),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),  # of compiled objects
        "WARPWATCH_CUDA_ARCHS": "none",
        "WARPWATCH_LOCK_FOLDER": str(root),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("WARPWATCH_DATABASE", None)
    return environment


def _git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A. Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def _plant(folder: Path) -> None:
    source = folder / _SOURCE
    text = source.read_text()
    assert text.count(_SOUND) == 1, f"{_SOURCE} no longer has the line this test makes slow"
    source.write_text(text.replace(_SOUND, _SLOW))
