"""Search by words: kernels, workloads, machines, commits and series."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice

from sqlalchemy import Connection, select

from ...model.naming import module_of, series_name
from ...model.series import Series, workload_of
from .. import schema
from ..engine import Store
from ..mappers import COMMIT_COLUMNS, Workloads, commit_of, project_id, select_series, series_record, workloads

# What a search of the store finds.


class HitKind(StrEnum):
    """What was found, in the order in which kinds are shown."""

    PROJECT = "project"
    KERNEL = "kernel"
    MODULE = "module"  # of a project that describes no workloads
    WORKLOAD = "workload"
    MACHINE = "machine"
    COMMIT = "commit"
    SERIES = "series"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One thing that has every word of a search."""

    kind: HitKind
    project: str
    name: str
    beside: str  # what tells it from others of the same name; may be empty
    place: str  # what its address holds: a name, a hash, a series' key


@dataclass(frozen=True, slots=True, kw_only=True)
class HitsOfKind:
    """The best hits of a kind, and how many there are in all."""

    kind: HitKind
    hits: tuple[Hit, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits by kind; where there are none, perhaps words that are much alike and would find something."""

    kinds: tuple[HitsOfKind, ...]
    suggestion: str | None = None

    @property
    def total(self) -> int:
        """All hits, shown or not."""
        return sum(each.total for each in self.kinds)


# Finding anything by words: kernels, workloads, machines, commits and series, in one project or in all.
#
# The names of a project are few beside its points: they are read once for each state of the store and searched in
# memory.

_LEAST_HASH = 4  # digits, from which on a word may be the beginning of a hash
_ALIKE = 0.7  # difflib's ratio, from which on a word is offered for another
_SIGN = re.compile(r"[\W_]+")
_MOST_WORDS = 12  # of a search; the rest says nothing more


@dataclass(frozen=True, slots=True)
class _Entry:
    """What can be found: `text` is in small letters, once as written and once with a blank before each part."""

    hit: Hit
    text: str

    def is_hash(self, word: str) -> bool:
        return self.hit.kind is HitKind.COMMIT and len(word) >= _LEAST_HASH and self.hit.place.startswith(word)

    def begins(self, words: Sequence[str]) -> bool:
        """Whether every word is the beginning of a part."""
        return all(f" {word}" in self.text or self.is_hash(word) for word in words)


_Index = Mapping[HitKind, Sequence[_Entry]]  # of each kind in the order of importance


def search(store: Store, words: str, *, project: str | None = None, limit: int = 8) -> SearchResult:
    """What has every word of `words`, in any order and letter case, at most `limit` of a kind.

    Of a kind, those come first of which every word is the beginning of a part: of a name's, a parameter's, a subject's.
    Then what is still listed, ours before rivals, what is judged before the rest; and the newest commits.
    """
    asked = words.lower().split()[:_MOST_WORDS]
    if not asked:
        return SearchResult(kinds=())
    indexes = [_index(store, name) for name in ([project] if project is not None else _projects(store))]
    if project is None:
        indexes.append(
            {HitKind.PROJECT: [_entry(HitKind.PROJECT, name, name, place=name) for name in _projects(store)]}
        )
    found = _found(indexes, asked, limit)
    return found if found.kinds else SearchResult(kinds=(), suggestion=_suggestion(store, indexes, project, asked))


def _found(indexes: Sequence[_Index], words: Sequence[str], limit: int) -> SearchResult:
    kinds = []
    for kind in HitKind:
        entries = [entry for index in indexes for entry in _having(index.get(kind, ()), words)]
        if kind is HitKind.KERNEL:
            entries += [entry for index in indexes for entry in _kernels_of_workloads(index, words)]
        if entries:
            kinds.append(HitsOfKind(kind=kind, hits=_best(entries, words, limit), total=len(entries)))
    return SearchResult(kinds=tuple(kinds))


def _having(entries: Sequence[_Entry], words: Sequence[str]) -> Sequence[_Entry]:
    for word in sorted(words, key=len, reverse=True):  # the rarest first, most likely
        if entries and entries[0].hit.kind is HitKind.COMMIT:
            entries = [entry for entry in entries if word in entry.text or entry.is_hash(word)]
        else:
            entries = [entry for entry in entries if word in entry.text]
    return entries


def _kernels_of_workloads(index: _Index, words: Sequence[str]) -> Iterable[_Entry]:
    """The kernels that some of the words name, and of which a workload has all of them: "attention fp16 s2048"."""
    operators = {entry.hit.beside for entry in _having(index.get(HitKind.WORKLOAD, ()), words)}
    for entry in index.get(HitKind.KERNEL, ()):
        named = [word in entry.text for word in words]
        if entry.hit.place in operators and any(named) and not all(named):
            yield entry


def _best(matching: Sequence[_Entry], words: Sequence[str], limit: int) -> tuple[Hit, ...]:
    first = list(islice((entry for entry in matching if entry.begins(words)), limit))
    if len(first) < limit:
        first += islice((entry for entry in matching if not entry.begins(words)), limit - len(first))
    return tuple(entry.hit for entry in first)


def _suggestion(store: Store, indexes: Sequence[_Index], project: str | None, words: Sequence[str]) -> str | None:
    """The words with those that occur nowhere replaced by the most alike, if that finds anything."""

    def parts() -> list[str]:
        texts = (entry.text for index in indexes for entries in index.values() for entry in entries)
        return sorted({part for text in texts for part in text.split() if part.isalnum() and not part.isdecimal()})

    known = store.cached(project, "search: parts", parts)
    mended = []
    for word in words:
        if any(word in part for part in known) or _found(indexes, [word], 1).kinds:
            mended.append(word)
            continue
        near = [other for other in known if abs(len(other) - len(word)) <= 2]
        alike = get_close_matches(word, near, n=1, cutoff=_ALIKE)
        if not alike:
            return None
        mended += alike
    return " ".join(mended) if mended != list(words) and _found(indexes, mended, 1).kinds else None


def _projects(store: Store) -> Sequence[str]:
    def read() -> Sequence[str]:
        with store.read() as connection:
            return connection.execute(select(schema.project.c.name).order_by(schema.project.c.name)).scalars().all()

    return store.cached(None, "search: projects", read)


def _index(store: Store, project: str) -> _Index:
    def read() -> _Index:
        index: dict[HitKind, list[_Entry]] = {}
        with store.read() as connection:
            owner = project_id(connection, project)
            for entry in _entries(connection, project, owner) if owner is not None else ():
                index.setdefault(entry.hit.kind, []).append(entry)
        return index

    return store.cached(project, "search", read)


def _entries(connection: Connection, project: str, owner: int) -> Iterable[_Entry]:
    known = workloads(connection, owner)
    rows = connection.execute(select_series().where(schema.series.c.project_id == owner)).all()
    series = sorted((series_record(row, known) for row in rows), key=_importance)
    yield from _kernels(project, series, known)
    for name, operator in sorted({(one.name, one.operator) for one in known.values()}):
        yield _entry(HitKind.WORKLOAD, project, name, operator, place=name)
    table = schema.machine
    found = connection.execute(
        select(table.c.name, table.c.context).where(table.c.project_id == owner).order_by(table.c.name)
    )
    for name, context in found:
        gpu = ((context or {}).get("gpu") or {}).get("name") or ""
        yield _entry(HitKind.MACHINE, project, name, gpu, place=name)
    commits = connection.execute(
        select(schema.commit.c.position, *COMMIT_COLUMNS)
        .where(schema.commit.c.project_id == owner)
        .order_by(schema.commit.c.position.desc().nulls_first())
    )
    for row in commits:
        commit = commit_of(*row)
        beside = " · ".join(filter(None, (commit.hash[:8], f"{commit.date:%Y-%m-%d}", commit.author)))
        searched = f"{commit.subject or ''} {commit.author or ''}"
        yield _entry(
            HitKind.COMMIT, project, commit.subject or "no subject", beside, place=commit.hash, searched=searched
        )
    has_several = len({one.environment for one in series}) > 1
    for one in series:
        workload = workload_of(one, known)
        name = series_name(one, workload.operator) if workload is not None else one.title
        beside = f"{one.machine} · {one.environment}" if has_several else one.machine
        searched = f"{name} {one.title} {one.machine} {one.environment}"
        yield _entry(HitKind.SERIES, project, name, beside, place=one.key, searched=searched)


def _kernels(project: str, series: Sequence[Series], known: Workloads) -> Iterable[_Entry]:
    """The operators, or the modules of the benchmarks where no operator is known: the groups of the overview."""
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
    kind: HitKind, project: str, name: str, beside: str = "", *, place: str, searched: str | None = None
) -> _Entry:
    text = (f"{name} {beside}" if searched is None else searched).lower()
    parts = _SIGN.sub(" ", text)
    return _Entry(Hit(kind=kind, project=project, name=name, beside=beside, place=place), f" {text}\n {parts} ")
