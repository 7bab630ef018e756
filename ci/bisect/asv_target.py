"""The asv project, machine and series that a bisect measures."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import json5

from warpwatch.dashboard.cli.store_access import CannotTellError
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name
from warpwatch.dashboard.importers.git import resolve
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.store import Store, queries

from ..asv_checkout import AsvRuns, asv_machine
from ..host_lock import gpu_lock

_KEY = re.compile(r"[0-9a-f]{16}")
_SHOWN = 12
_ALL = 100_000


class SeriesError(Exception):
    """No series, or several; the message lists them."""


class NoSeriesError(SeriesError):
    """No series has this name."""


def is_key(text: str) -> bool:
    """Whether the text looks like a series key."""
    return bool(_KEY.fullmatch(text))


def which_series(
    store: Store, project: str, text: str, *, machine: str | None = None, metric: str | None = None
) -> Series:
    """The only series of asv with that key, or whose "benchmark(parameters)" matches the regular expression.

    Without `metric` only metrics that get verdicts count. Raises SeriesError.
    """
    matches = [
        series
        for series in queries.find_series(store, project, machine=machine, metric=metric, limit=_ALL).series
        if series.is_from_asv and (series.key == text or (not is_key(text) and _matches(series, text, metric)))
    ]
    if len(matches) == 1:
        return matches[0]
    where = f" on {machine}" if machine else ""
    if not matches:
        raise NoSeriesError(f"{project} has no asv series {text!r}{where}; search for it on the dashboard")
    listed = [f"  {each.key}  {each.title}, {each.metric.name}, {each.machine}" for each in matches[:_SHOWN]]
    if len(matches) > _SHOWN:
        listed.append(f"  and {len(matches) - _SHOWN} more")
    raise SeriesError(f"{len(matches)} series match {text!r}{where}; give the key of one:\n" + "\n".join(listed))


def _matches(series: Series, text: str, metric: str | None) -> bool:
    watched = series.listed and series.is_ours and (metric is not None or series.metric.is_judged)
    return watched and re.search(text, series.title) is not None


_DEFAULT_CACHE, _DEFAULT_BENCHMARKS = 2, "benchmarks"  # asv's


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvTarget:
    """An asv project on this machine."""

    folder: Path  # of asv.conf.json
    store: Store
    project: str
    repository: Path
    machine: str  # asv's name of this machine
    arguments: tuple[str, ...]  # further arguments of asv run
    cached_builds: int  # commits whose builds asv keeps
    benchmarks: str  # folder of the benchmarks, always from this checkout

    def runs(self, patterns: Sequence[str]) -> AsvRuns:
        """An asv runner for the benchmarks that match these expressions."""
        return AsvRuns(
            folder=self.folder, store=self.store, project=self.project, patterns=patterns, arguments=self.arguments
        )

    def commit(self, name: str) -> str:
        """The full hash of a commit. Raises CannotTellError."""
        commit = resolve(self.repository, name)
        if commit is None:
            raise CannotTellError(f"{self.repository} has no commit {name!r}")
        return commit

    def series_of_key(self, key: str, metric: str | None = None) -> Series:
        """The series of that key, if this machine measures it. Raises SeriesError."""
        series = which_series(self.store, self.project, key, metric=metric)
        if series.machine != self.machine:
            raise SeriesError(
                f"{series.title} was measured on {series.machine}, but this is {self.machine}: bisect it there"
            )
        return series

    def series(self, text: str, metric: str | None, *, measure_at: str, say: Callable[[str], None]) -> Series:
        """The series with a key, or that matches a regular expression.

        A series without results on this machine is measured at `measure_at` first. Raises SeriesError and GateError.
        """
        if is_key(text):
            return self.series_of_key(text, metric)
        try:
            re.compile(text)
        except re.error as error:
            raise SeriesError(f"{text!r} is neither a series' key nor a regular expression: {error}") from error
        try:
            return which_series(self.store, self.project, text, machine=self.machine, metric=metric)
        except NoSeriesError:
            say(f"{text} has no results on {self.machine}: measuring {measure_at[:8]} first")
        with gpu_lock(say=say) as lock:
            replace(self.runs((text,)), lock_descriptors=lock.descriptors).run(measure_at)
        return which_series(self.store, self.project, text, machine=self.machine, metric=metric)


def asv_target(folder: Path, project: str | None, store: Store, arguments: Sequence[str]) -> AsvTarget:
    """The project in a folder with asv.conf.json. Raises CannotTellError."""
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
    conf = json5.loads(path.read_text(encoding="utf-8"))
    return AsvTarget(
        folder=folder,
        store=store,
        project=project or asv.name or project_name(asv.results.resolve()),
        repository=asv.repository,
        machine=machine,
        arguments=tuple(arguments),
        cached_builds=int(conf.get("build_cache_size", _DEFAULT_CACHE)),
        benchmarks=str(conf.get("benchmark_dir", _DEFAULT_BENCHMARKS)),
    )
