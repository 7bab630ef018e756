"""Search by words: kernels, workloads, machines, commits and series."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice

from sqlalchemy import Connection, select

from ...model.naming import kernel_of, module_of, series_name
from ...model.series import Series, Workload, workload_of
from ...model.series_query import SeriesQuery
from .. import schema
from ..engine import Store, cached
from ..mappers import COMMIT_COLUMNS, Workloads, commit_of, project_id, select_series, series_record, workloads
from .series_list import is_measured_somewhere


class HitKind(StrEnum):
    """Kind of a hit, in the order of display."""

    PROJECT = "project"
    KERNEL = "kernel"
    MODULE = "module"  # of a project that describes no workloads
    WORKLOAD = "workload"
    MACHINE = "machine"
    COMMIT = "commit"
    SERIES = "series"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One hit, which has every word of a search."""

    kind: HitKind
    project: str
    name: str
    details: str  # distinguish hits of one name; may be empty
    place: str  # what its address holds: a name, a hash, a series' key


@dataclass(frozen=True, slots=True, kw_only=True)
class HitsOfKind:
    """The best hits of a kind, and how many there are in all."""

    kind: HitKind
    hits: tuple[Hit, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits by kind; without any, perhaps similar words that would have hits."""

    kinds: tuple[HitsOfKind, ...]
    suggestion: str | None = None

    @property
    def total(self) -> int:
        """Number of hits, shown or not."""
        return sum(each.total for each in self.kinds)


# A project has few names compared with points: an index of them is cached and searched in memory.

_FEWEST_DIGITS = 4  # of a prefix of a hash
_LEAST_SIMILARITY = 0.7  # difflib's ratio of a suggested word
_SEPARATORS = re.compile(r"[\W_]+")
_MOST_WORDS = 12  # of a search; the rest is ignored


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the index. `text`: lower case, once as written, once with a blank before each part."""

    hit: Hit
    text: str
    series: Series | None = None  # of a hit of that kind
    workload: Workload | None = None

    def is_hash(self, word: str) -> bool:
        return self.hit.kind is HitKind.COMMIT and len(word) >= _FEWEST_DIGITS and self.hit.place.startswith(word)

    def has_prefixes(self, words: Sequence[str]) -> bool:
        return all(f" {word}" in self.text or self.is_hash(word) for word in words)


_Index = Mapping[HitKind, Sequence[_Entry]]  # of each kind in the order of importance


def search(store: Store, words: str, *, project: str | None = None, limit: int = 8) -> SearchResult:
    """Hits with every word, in any order, ignoring case; at most `limit` of a kind.

    With conditions (`model/series_query.py`), hits are the series that meet them, their workloads and kernels.

    Hits in which every word is a prefix of a part (of a name, parameter or subject) come first. Then listed series
    before unlisted ones, ours before baselines, judged before others, and newer commits before older ones.
    """
    query = SeriesQuery.parse(words)
    terms = query.words[:_MOST_WORDS]
    if not query:
        return SearchResult(kinds=())
    indexes = [_index(store, name) for name in ([project] if project is not None else _projects(store))]
    if project is None:
        indexes.append(
            {HitKind.PROJECT: [_entry(HitKind.PROJECT, name, name, place=name) for name in _projects(store)]}
        )
    if query.conditions:
        return _matches([_meeting(index, query) for index in indexes], (), limit)
    result = _matches(indexes, terms, limit)
    return result if result.kinds else SearchResult(kinds=(), suggestion=_suggestion(store, indexes, project, terms))


def _matches(indexes: Sequence[_Index], words: Sequence[str], limit: int) -> SearchResult:
    kinds = []
    for kind in HitKind:
        entries = [entry for index in indexes for entry in _having(index.get(kind, ()), words)]
        if kind is HitKind.KERNEL:
            entries += [entry for index in indexes for entry in _kernels_of_workloads(index, words)]
        if entries:
            kinds.append(HitsOfKind(kind=kind, hits=_best(entries, words, limit), total=len(entries)))
    return SearchResult(kinds=tuple(kinds))


def _meeting(index: _Index, query: SeriesQuery) -> _Index:
    """The series that meet the conditions, with their workloads and kernels."""
    found = [
        entry for entry in index.get(HitKind.SERIES, ()) if entry.series and query.matches(entry.series, entry.workload)
    ]
    shapes = {(entry.workload.name, entry.workload.operator) for entry in found if entry.workload}
    kernels = {kernel_of(entry.series, entry.workload) for entry in found if entry.series}
    return {
        HitKind.KERNEL: [entry for entry in index.get(HitKind.KERNEL, ()) if entry.hit.place in kernels],
        HitKind.MODULE: [entry for entry in index.get(HitKind.MODULE, ()) if entry.hit.place in kernels],
        HitKind.WORKLOAD: [
            entry for entry in index.get(HitKind.WORKLOAD, ()) if (entry.hit.place, entry.hit.details) in shapes
        ],
        HitKind.SERIES: found,
    }


def _having(entries: Sequence[_Entry], words: Sequence[str]) -> Sequence[_Entry]:
    for word in sorted(words, key=len, reverse=True):  # long words are rare
        if entries and entries[0].hit.kind is HitKind.COMMIT:
            entries = [entry for entry in entries if word in entry.text or entry.is_hash(word)]
        else:
            entries = [entry for entry in entries if word in entry.text]
    return entries


def _kernels_of_workloads(index: _Index, words: Sequence[str]) -> Iterable[_Entry]:
    """Kernels that have some of the words, while one of their workloads has all: "attention fp16 s2048"."""
    operators = {entry.hit.details for entry in _having(index.get(HitKind.WORKLOAD, ()), words)}
    for entry in index.get(HitKind.KERNEL, ()):
        named = [word in entry.text for word in words]
        if entry.hit.place in operators and any(named) and not all(named):
            yield entry


def _best(matching: Sequence[_Entry], words: Sequence[str], limit: int) -> tuple[Hit, ...]:
    first = list(islice((entry for entry in matching if entry.has_prefixes(words)), limit))
    if len(first) < limit:
        first += islice((entry for entry in matching if not entry.has_prefixes(words)), limit - len(first))
    return tuple(entry.hit for entry in first)


def _suggestion(store: Store, indexes: Sequence[_Index], project: str | None, words: Sequence[str]) -> str | None:
    """The words, with unknown ones replaced by the most similar known ones, if that has hits."""

    def parts() -> list[str]:
        texts = (entry.text for index in indexes for entries in index.values() for entry in entries)
        return sorted({part for text in texts for part in text.split() if part.isalnum() and not part.isdecimal()})

    known = store.cached(project, "search: parts", parts)
    corrected = []
    for word in words:
        if any(word in part for part in known) or _matches(indexes, [word], 1).kinds:
            corrected.append(word)
            continue
        near = [other for other in known if abs(len(other) - len(word)) <= 2]
        similar = get_close_matches(word, near, n=1, cutoff=_LEAST_SIMILARITY)
        if not similar:
            return None
        corrected += similar
    return " ".join(corrected) if corrected != list(words) and _matches(indexes, corrected, 1).kinds else None


def _projects(store: Store) -> Sequence[str]:
    def read() -> Sequence[str]:
        with store.read() as connection:
            return connection.execute(select(schema.project.c.name).order_by(schema.project.c.name)).scalars().all()

    return store.cached(None, "search: projects", read)


@cached()
def _index(store: Store, project: str) -> _Index:
    index: dict[HitKind, list[_Entry]] = {}
    with store.read() as connection:
        for entry in _entries(connection, project, project_id(connection, project)):
            index.setdefault(entry.hit.kind, []).append(entry)
    return index


def _entries(connection: Connection, project: str, owner: int) -> Iterable[_Entry]:
    known = workloads(connection, owner)
    measured = is_measured_somewhere(connection, owner)
    rows = connection.execute(select_series().where(schema.series.c.project_id == owner, measured)).all()
    series = sorted((series_record(row, known) for row in rows), key=_importance)
    yield from _kernels(project, series, known)
    for name, operator in sorted({(one.name, one.operator) for one in known.values()}):
        yield _entry(HitKind.WORKLOAD, project, name, operator, place=name)
    table = schema.machine
    machines = connection.execute(
        select(table.c.name, table.c.context).where(table.c.project_id == owner).order_by(table.c.name)
    )
    for name, context in machines:
        gpu = ((context or {}).get("gpu") or {}).get("name") or ""
        yield _entry(HitKind.MACHINE, project, name, gpu, place=name)
    commits = connection.execute(
        select(schema.commit.c.position, *COMMIT_COLUMNS)
        .where(schema.commit.c.project_id == owner)
        .order_by(schema.commit.c.position.desc().nulls_first())
    )
    for row in commits:
        commit = commit_of(*row)
        details = " · ".join(filter(None, (commit.hash[:8], f"{commit.date:%Y-%m-%d}", commit.author)))
        searched = f"{commit.subject or ''} {commit.author or ''}"
        yield _entry(
            HitKind.COMMIT, project, commit.subject or "no subject", details, place=commit.hash, searched=searched
        )
    has_several = len({one.environment for one in series}) > 1
    for one in series:
        workload = workload_of(one, known)
        name = series_name(one, workload.operator) if workload is not None else one.title
        details = f"{one.machine} · {one.environment}" if has_several else one.machine
        searched = f"{name} {one.title} {one.machine} {one.environment}"
        entry = _entry(HitKind.SERIES, project, name, details, place=one.key, searched=searched)
        yield replace(entry, series=one, workload=workload)


def _kernels(project: str, series: Sequence[Series], known: Workloads) -> Iterable[_Entry]:
    """The operators, or the modules of benchmarks without workloads, as in the overview."""
    operators = {one.operator for one in known.values()}
    for name in sorted(operators):
        yield _entry(HitKind.KERNEL, project, name, place=name)
    for name in sorted({module_of(one.benchmark) for one in series}) if not operators else ():
        yield _entry(HitKind.MODULE, project, name, place=name)


def _importance(series: Series) -> tuple[object, ...]:
    own = series.metric
    return (
        not series.listed,
        not series.is_ours,
        not own.is_judged,
        not own.is_latency,
        series.title,
        series.machine,
        series.environment,
    )


def _entry(
    kind: HitKind, project: str, name: str, details: str = "", *, place: str, searched: str | None = None
) -> _Entry:
    text = (f"{name} {details}" if searched is None else searched).lower()
    parts = _SEPARATORS.sub(" ", text)
    return _Entry(Hit(kind=kind, project=project, name=name, details=details, place=place), f" {text}\n {parts} ")
