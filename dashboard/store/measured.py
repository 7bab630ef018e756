"""A series with all that was recorded of it, in columns: a record a measurement would be too slow for millions."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.dashboard.store.columns import Floats, Ints
from warpwatch.dashboard.store.records import Series


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """A column of texts of which there are few: `words[place]` for each row, nothing where the place is -1."""

    places: Ints
    words: Sequence[str]

    def texts(self) -> list[str | None]:
        """The text of each row."""
        known = (*self.words, None)
        return [known[place] for place in self.places.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """The measurements of a series by commit, then by run. Every column has a place for each."""

    series: Series
    commit: Words  # full hash
    date_ms: Ints  # when it was committed
    position: Ints  # of the commit in the project's order
    run: Words
    started_ms: Ints  # when the run began; -1: not known
    card: Words  # UUID of the GPU
    value: Floats  # NaN unless the status is ok
    q25: Floats  # NaN: not known
    q75: Floats
    sample_count: Ints  # -1: not known
    status: Words
    reason: Words

    def __len__(self) -> int:
        return len(self.value)
