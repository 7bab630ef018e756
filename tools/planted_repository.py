"""A git repository of a small C library with an asv benchmark and one slower commit."""

import os
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_ROUNDS = 4000
_SOURCE = """\
/* change {number} */
static const int rounds = {rounds};
double work(double x) {{
  double sum = 0.0;
  for (int round = 0; round < rounds; ++round)
    for (int n = 1; n <= 64; ++n) sum += x / (n + sum);
  return sum;{missing}
}}
"""
_BENCHMARK = """\
import ctypes
import sys
import time
from pathlib import Path


class Library:
    timer = time.process_time  # excludes other work on the machine
    version = "1"
    repeat, rounds, number, warmup_time = 10, 1, 2, 0.02

    def setup(self):
        self.work = ctypes.CDLL(Path(sys.prefix) / "libwork.so").work
        self.work.restype, self.work.argtypes = ctypes.c_double, [ctypes.c_double]

    def time_work(self):
        self.work(1.5)
"""
_BUILDING = """\
import shutil
import subprocess
import sys

what, source, target = sys.argv[1:]
if what == "build":
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", f"{target}/libwork.so", f"{source}/work.c"]
    sys.exit(subprocess.run(command).returncode)
shutil.copy(f"{source}/libwork.so", target)
"""
_CONFIGURATION = """\
{
    // Compiled and copied: neither pip nor a package index has a part in it.
    "version": 1,
    "project": "planted",
    "repo": ".",
    "branches": ["HEAD"],
    "environment_type": "virtualenv",
    "benchmark_dir": "benchmarks",
    "env_dir": ".asv/env",
    "results_dir": ".asv/results",
    "html_dir": ".asv/html",
    "build_cache_size": 64,
    "build_command": ["python {conf_dir}/library.py build {build_dir} {build_cache_dir}"],
    "install_command": ["python {conf_dir}/library.py install {build_cache_dir} {env_dir}"],
    "uninstall_command": ["python -c pass"]
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRepository:
    """The repository, its commits from the good one on, and the environment for commands."""

    folder: Path
    commits: tuple[str, ...]
    environment: dict[str, str]

    def warpwatch(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a warpwatch command; any exit status."""
        return subprocess.run(
            [sys.executable, "-m", "warpwatch.ci.cli", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )


def planted_repository(
    folder: Path,
    *,
    commits: int,
    culprit: int,
    change: float,
    broken: Collection[int] = (),
    notes: Collection[int] = (),
) -> PlantedRepository:
    """So many commits after a good one, each of which changes the source, but for `notes`, which change a text.

    From `culprit` on the library takes 1 + `change` times as long; the `broken` do not compile. The commits are a
    minute apart, as a dashboard without the repository orders them by date.
    """
    folder.mkdir(parents=True)
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "library.py").write_text(_BENCHMARK)
    (folder / "asv.conf.json").write_text(_CONFIGURATION)
    (folder / "library.py").write_text(_BUILDING)
    (folder / ".gitignore").write_text(".asv/\n.warpwatch/\n.home/\n__pycache__/\n")
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    made, began = [], time.time()
    for number in range(commits + 1):
        rounds = round(_ROUNDS * (1 + change)) if number >= culprit else _ROUNDS
        if number in notes:
            (folder / "NOTES.md").write_text(f"note {number}\n")
        else:
            text = _SOURCE.format(number=number, rounds=rounds, missing=" +" if number in broken else "")
            (folder / "work.c").write_text(text)
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"change {number}", date_s=int(began) + 60 * (number - commits))
        made.append(_git(folder, "rev-parse", "HEAD"))
    home = folder / ".home"  # asv keeps its machine file there
    home.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"HOME": str(home), "PATH": path}
    environment.pop("WARPWATCH_DATABASE", None)
    subprocess.run(
        [sys.executable, "-m", "asv", "machine", "--yes"], cwd=folder, env=environment, check=True, capture_output=True
    )
    return PlantedRepository(folder=folder, commits=tuple(made), environment=environment)


def _git(folder: Path, *words: str, date_s: int | None = None) -> str:
    identity = ["-c", "user.name=A. Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    dated = {} if date_s is None else {f"GIT_{who}_DATE": f"{date_s} +0000" for who in ("AUTHOR", "COMMITTER")}
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, env=os.environ | dated, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
