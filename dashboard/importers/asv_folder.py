"""An asv results folder: which files it holds, what its machines are called, what `benchmarks.json` lists."""

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
    """The path is no asv results folder; the message says what was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFolder:
    """One folder of results and the machine it says it is; two folders may name the same one."""

    path: Path
    machine: str | None  # None if nothing around its files tells
    details: Mapping[str, str]
    files: tuple[Path, ...]  # its results, in order of name


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvFolder:
    """Where results are, and what the project around them is called."""

    results: Path
    project: str
    repository: Path | None
    listed: Mapping[str, BenchmarkSpec] | None = None  # None without a readable benchmarks.json
    problems: tuple[str, ...] = ()
    prefix: str = ""  # of its files' names in the store, where other folders are imported beside it
    nameless: Path | None = None  # the machine's folder, if any, whose name is not the machine's
    commit_url: str | None = None  # as asv.conf.json states it

    def machines(self) -> Iterator[MachineFolder]:
        """Every sub-folder that holds result files, in order of name."""
        for folder in sorted(path for path in self.results.iterdir() if path.is_dir()):
            if files := result_files(folder):
                details = _read_machine(folder / "machine.json")
                name = None if folder == self.nameless else folder.name
                yield MachineFolder(path=folder, machine=details.get("machine", name), details=details, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvProject:
    """What asv.conf.json says of a project, whether or not asv has run yet."""

    results: Path
    name: str | None
    repository: Path | None  # None if it is not on this machine
    benchmarks: Path  # the folder of their modules
    commit_url: str | None  # what a commit's hash is put behind to read it


def asv_project(conf_path: Path) -> AsvProject:
    """Reads asv.conf.json. Raises NoResultsError if it cannot be read."""
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
    """The folder's result files, in order of name; none of one that may not be read."""
    try:
        with os.scandir(folder) as inside:
            names = [each.name for each in inside if each.name.endswith(".json") and _is_file(each)]
    except (FileNotFoundError, PermissionError):
        return ()
    return tuple(folder / name for name in sorted(names) if name != "machine.json")


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Known from the folder itself, but for links, which may lead nowhere."""
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
        told = asv_project(conf_path)
        results = told.results
        if not results.is_dir():
            raise NoResultsError(f"{results} is no folder, and {conf_path} puts results there: has asv run yet?")
        project = project or told.name
        repository, commit_url = repository or told.repository, told.commit_url
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
        raise NoResultsError(f"{path} holds neither benchmarks.json nor <machine>/<commit>-<environment>.json")
    return folder


def project_name(results: Path) -> str:
    """The first folder upwards that is not called like every project's: /src/numpy/.asv/results is numpy's."""
    for part in (results, *results.parents):
        if part.name and part.name not in {"results", ".asv", "asv", "benchmarks", ".benchmarks", "perf_suite"}:
            return part.name
    return "project"


def _read_conf(path: Path) -> Mapping[str, Any]:
    import json5  # of use to who has a configuration alone

    try:
        conf = json5.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoResultsError(f"cannot read {path}: {error}") from error
    if not isinstance(conf, dict):
        raise NoResultsError(f"{path} is not asv's configuration: it holds a {type(conf).__name__}")
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
    """What asv's `benchmarks.json` lists, None if it cannot be read; and why it cannot."""
    try:
        data = read_json(read_regular(path, RESULT_FILE_BYTES))
        if not isinstance(data, dict):
            raise ValueError(f"a {type(data).__name__} where asv writes an object")
        return {name: _listed(entry) for name, entry in data.items() if isinstance(entry, dict)}, ()
    except (BrokenFileError, OSError, TypeError, ValueError, RecursionError) as error:
        return None, (f"{path}: {error}; units and parameter names are guessed",)


def _listed(entry: Mapping[str, Any]) -> BenchmarkSpec:
    return BenchmarkSpec(
        unit=_text(entry.get("unit")),
        kind=_text(entry.get("type")),
        parameter_names=tuple(map(str, entry.get("param_names") or ())),
        parameters=tuple(frozenset(map(str, choices)) for choices in entry.get("params") or ()),
    )


def _text(raw: Any) -> str | None:
    return raw if isinstance(raw, str) else None
