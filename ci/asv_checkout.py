"""An asv project on this machine: its commits measured and imported, its machine, uncommitted changes."""

import json
import platform
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.cli.store_access import CannotTellError
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, open_folder, project_name
from warpwatch.dashboard.importers.git import GitError, resolve, root_of, uncommitted_files
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvCheckout:
    """An asv project whose commits this machine builds and measures."""

    folder: Path  # of asv.conf.json
    project: str  # the store's name of it
    repository: Path
    results: Path
    benchmarks: Path  # folder of the benchmarks' modules, always of this checkout
    machine: str  # asv's name of this machine

    def commit(self, name: str) -> str:
        """The full hash of a commit. Raises CannotTellError."""
        commit = resolve(self.repository, name)
        if commit is None:
            raise CannotTellError(f"{self.repository} has no commit {name!r}")
        return commit


def asv_checkout(folder: Path, project: str | None = None, arguments: Sequence[str] = ()) -> AsvCheckout:
    """The project in a folder with asv.conf.json; `arguments` are those of asv run. Raises CannotTellError."""
    path = folder / "asv.conf.json"
    try:
        asv = asv_project(path)
    except NoResultsError as error:
        raise CannotTellError(str(error)) from error
    if asv.repository is None:
        raise CannotTellError(f"{path} names no git repository on this machine: nothing to build")
    machine = asv_machine(arguments)
    if machine is None:
        raise CannotTellError("asv has no name for this machine: run `asv machine --yes`")
    return AsvCheckout(
        folder=folder,
        project=project or asv.name or project_name(asv.results.resolve()),
        repository=asv.repository,
        results=asv.results,
        benchmarks=asv.benchmarks,
        machine=machine,
    )


def asv_machine(arguments: Sequence[str] = ()) -> str | None:
    """asv's name of this machine: from `--machine`, else from ~/.asv-machine.json, as asv does; None without one."""
    for index, word in enumerate(arguments):
        if word == "--machine" and index + 1 < len(arguments):
            return arguments[index + 1]
        if word.startswith("--machine="):
            return word.partition("=")[2]
    try:
        known = json.loads((Path.home() / ".asv-machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = [name for name, facts in known.items() if isinstance(facts, dict)] if isinstance(known, dict) else []
    host = platform.uname().node
    chosen = host if host in names else names[0] if len(names) == 1 else None
    return str(known[chosen].get("machine", chosen)) if chosen is not None else None


_SHOWN = 5  # files named in a warning


def uncommitted_warnings(repository: Path, benchmarks: Path) -> tuple[str, ...]:
    """A warning about uncommitted code, which is not measured, and one about uncommitted benchmarks, which are used.

    asv builds commits, but runs the benchmarks of the working tree.
    """
    root = root_of(repository)
    if root is None:
        return ()
    try:
        changed = uncommitted_files(root)
    except GitError:  # a bare repository has no working tree
        return ()
    of_benchmarks = [name for name in changed if _is_benchmark((root / name).resolve(), benchmarks.resolve())]
    others = [name for name, is_tracked in changed.items() if is_tracked and name not in of_benchmarks]
    warnings = []
    if others:
        warnings.append(f"Warning: uncommitted changes are not measured, only commits are: {_names(others)}")
    if of_benchmarks:
        warnings.append(
            "Warning: uncommitted benchmarks are used for all commits, as asv takes them from the working tree: "
            + _names(of_benchmarks)
        )
    return tuple(warnings)


def _is_benchmark(path: Path, folder: Path) -> bool:
    if "__pycache__" in path.parts:
        return False
    return path.is_relative_to(folder) or folder.is_relative_to(path)  # git names an untracked folder, not its files


def _names(files: list[str]) -> str:
    more = len(files) - _SHOWN
    return ", ".join(files[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


_SOME_FAILED = 2  # asv's status if a benchmark failed, which it records


class GateError(Exception):
    """A commit could not be measured; the message ends with asv's last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvRuns:
    """Runs of one asv project into one store."""

    folder: Path  # with asv.conf.json
    store: Store
    project: str
    patterns: Sequence[str] = ()  # asv's --bench; empty: all
    arguments: Sequence[str] = ()  # further arguments of asv run
    python: str = sys.executable  # runs asv
    lock_descriptors: Sequence[int] = ()  # of the host lock, which asv holds even if the gate is killed

    def import_earlier(self) -> None:
        """Imports earlier results, which the file of a new run repeats, so that they are not attributed to that run."""
        with suppress(NoResultsError):
            import_results(self.store, open_folder(self.folder, project=self.project), workers=1)

    def run(self, commit: str, series: Collection[SeriesSchema] | None = None) -> None:
        """Measures a commit (full hash) and imports the results. Raises GateError."""
        patterns = (
            self.patterns
            if series is None
            else sorted({bench_pattern(each.suite, each.parameters.items()) for each in series})
        )
        words = ["run", "--record-samples", *self.arguments]
        for pattern in patterns:
            words += ["--bench", pattern]
        done = subprocess.run(
            [self.python, "-m", "asv", *words, f"{commit}^!"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            pass_fds=self.lock_descriptors,
        )
        if done.returncode not in (0, _SOME_FAILED):
            last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise GateError(f"asv run of {commit[:8]} ended with {done.returncode}:\n{last_lines}")
        # Now, as the next run of this commit overwrites the file.
        import_results(self.store, open_folder(self.folder, project=self.project), workers=1)


def bench_pattern(suite: str, parameters: Iterable[tuple[str, str]]) -> str:
    """A pattern for asv's --bench that matches all metrics and implementations of a workload: baselines are controls.

    asv matches it with "name(param, param)", where strings have quotes; the store's parameters have none.
    """
    values = [".*" if name == "implementation" else f".?{re.escape(value)}.?" for name, value in parameters]
    suffix = r"\(" + ", ".join(values) + r"\)$" if values else "$"
    return f"^{re.escape(suite)}\\.[^.(]*{suffix}"
