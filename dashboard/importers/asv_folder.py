"""An asv results folder: its files, machines and `benchmarks.json`."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..model.commit_links import commit_url_of, web_address
from ..model.result_file import BenchmarkSpec, storable
from .asv import machine_details
from .import_limits import MIB, RESULT_FILE_BYTES
from .input_files import BrokenFileError, read_json, read_regular

_LARGEST_MACHINE_FILE = MIB


class NoResultsError(Exception):
    """No results at a path; the message names what was expected there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFolder:
    """A folder of results with the machine that it names; several folders may name one machine."""

    path: Path
    machine: str | None  # None: neither machine.json nor the folder names it
    details: Mapping[str, str]
    files: tuple[Path, ...]  # its results, in order of name


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvFolder:
    """A results folder and the project around it."""

    results: Path
    project: str
    repository: Path | None
    listed: Mapping[str, BenchmarkSpec] | None = None  # None without a readable benchmarks.json
    problems: tuple[str, ...] = ()
    prefix: str = ""  # of its files' names in the store, if several folders are imported together
    nameless: Path | None = None  # a machine's folder whose name is not the machine's
    commit_url: str | None = None  # from asv.conf.json

    def machines(self) -> Iterator[MachineFolder]:
        """Every sub-folder with result files, by name."""
        for folder in sorted(path for path in self.results.iterdir() if path.is_dir()):
            if files := result_files(folder):
                details = _read_machine(folder / "machine.json")
                name = None if folder == self.nameless else folder.name
                yield MachineFolder(path=folder, machine=details.get("machine", name), details=details, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvProject:
    """A project's asv.conf.json; asv need not have run yet."""

    results: Path
    name: str | None
    repository: Path | None  # None if it is not on this machine
    benchmarks: Path  # folder of the benchmarks' modules
    commit_url: str | None  # URL prefix of a commit's hash


def asv_project(conf_path: Path) -> AsvProject:
    """Read asv.conf.json. Raises NoResultsError if it cannot be read."""
    conf = _read_conf(conf_path)
    repository = conf_path.parent / str(conf.get("repo", "."))
    return AsvProject(
        results=conf_path.parent / conf.get("results_dir", "results"),
        name=conf.get("project"),
        repository=repository.resolve() if (repository / ".git").exists() else None,
        benchmarks=conf_path.parent / str(conf.get("benchmark_dir", "benchmarks")),
        commit_url=web_address(conf.get("show_commit_url")) or commit_url_of(str(conf.get("repo", ""))),
    )


def result_files(folder: Path) -> tuple[Path, ...]:
    """The folder's result files, by name; none if the folder cannot be read."""
    try:
        with os.scandir(folder) as inside:
            names = [each.name for each in inside if each.name.endswith(".json") and _is_file(each)]
    except (FileNotFoundError, PermissionError):
        return ()
    return tuple(folder / name for name in sorted(names) if name != "machine.json")


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a file, without a stat unless it is a link."""
    return entry.is_file(follow_symlinks=False) or (entry.is_symlink() and Path(entry.path).is_file())


def open_folder(path: Path, *, project: str | None = None, repository: Path | None = None) -> AsvFolder:
    """The results at `path`: a results folder, or a folder with asv.conf.json, or that file itself.

    Raises NoResultsError.
    """
    if not path.exists():
        raise NoResultsError(f"{path} does not exist")
    conf_path = path if path.is_file() else path / "asv.conf.json"
    results, commit_url = path, None
    if conf_path.is_file():
        conf = asv_project(conf_path)
        results = conf.results
        if not results.is_dir():
            raise NoResultsError(f"{results}, the results folder of {conf_path}, does not exist: has asv run yet?")
        project = project or conf.name
        repository, commit_url = repository or conf.repository, conf.commit_url
    folder = AsvFolder(
        results=results.resolve(),
        project=project or project_name(results.resolve()),
        repository=repository.resolve() if repository else None,
        commit_url=commit_url,
    )
    if (folder.results / "benchmarks.json").is_file():
        listed, problems = read_benchmarks(folder.results / "benchmarks.json")
        return replace(folder, listed=listed, problems=problems)
    if next(folder.machines(), None) is None:
        raise NoResultsError(f"{path} has neither benchmarks.json nor <machine>/<commit>-<environment>.json")
    return folder


def project_name(results: Path) -> str:
    """The first folder upwards without a generic name: "numpy" of /src/numpy/.asv/results."""
    for part in (results, *results.parents):
        if part.name and part.name not in {"results", ".asv", "asv", "benchmarks", ".benchmarks", "perf_suite"}:
            return part.name
    return "project"


def _read_conf(path: Path) -> Mapping[str, Any]:
    import json5  # only needed for a configuration

    try:
        conf = json5.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoResultsError(f"cannot read {path}: {error}") from error
    if not isinstance(conf, dict):
        raise NoResultsError(f"{path} is not asv's configuration but a {type(conf).__name__}")
    return conf


def _read_machine(path: Path) -> Mapping[str, str]:
    try:
        data = read_json(read_regular(path, _LARGEST_MACHINE_FILE))
    except (BrokenFileError, OSError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    known = {k: v for k, v in data.items() if k != "version" and v is not None and storable(f"{k}{v}")}
    return machine_details(known)


def read_benchmarks(path: Path) -> tuple[Mapping[str, BenchmarkSpec] | None, tuple[str, ...]]:
    """The benchmarks in asv's `benchmarks.json`, None if it cannot be read, and the problems."""
    try:
        data = read_json(read_regular(path, RESULT_FILE_BYTES))
        if not isinstance(data, dict):
            raise ValueError(f"a {type(data).__name__} where asv writes an object")
        return {name: _listed(entry) for name, entry in data.items() if isinstance(entry, dict)}, ()
    except (BrokenFileError, OSError, TypeError, ValueError, RecursionError) as error:
        return None, (f"{path}: {error}; units and parameter names are guesses",)


def _listed(entry: Mapping[str, Any]) -> BenchmarkSpec:
    return BenchmarkSpec(
        unit=_text(entry.get("unit")),
        kind=_text(entry.get("type")),
        parameter_names=tuple(map(str, entry.get("param_names") or ())),
        parameters=tuple(frozenset(map(str, choices)) for choices in entry.get("params") or ()),
    )


def _text(raw: Any) -> str | None:
    return raw if isinstance(raw, str) else None
