"""What a search of the store finds."""

from dataclasses import dataclass
from enum import StrEnum


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
