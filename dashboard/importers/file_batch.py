"""Result files on their way into the store, some in one transaction: a file is in whole or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import DataError

from warpwatch.dashboard.importers.broken_file import BeyondLimitError
from warpwatch.dashboard.importers.limits import Allowance
from warpwatch.dashboard.store.incoming import ResultFile
from warpwatch.dashboard.store.series_ids import SeriesLimitError
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.writing import NewFile, ProjectWriter

_VALUES_AT_ONCE = 200_000  # and samples
_FILES_AT_ONCE = 100


@dataclass(slots=True, kw_only=True)
class FileBatch:
    """Takes files as they are read, and writes some in one transaction. A project is made with its first result."""

    store: Store
    project: str
    repository: str | None
    allowance: Allowance
    writer: ProjectWriter | None = None
    points: int = 0
    set_aside: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _waiting: list[tuple[Path, list[NewFile]]] = field(default_factory=list)
    _values: int = 0

    def open(self) -> ProjectWriter:
        """The project's writer."""
        self.writer = self.writer or ProjectWriter(
            self.store, self.project, repository=self.repository, listed=None, most_series=self.allowance.series
        )
        return self.writer

    def add(self, path: Path, name: str, digest: str, results: Sequence[ResultFile]) -> None:
        """Takes what a file holds: all of it goes in, or nothing. Raises BeyondLimitError."""
        refusal = self.allowance.refusal(sum(len(entry.values) for result in results for entry in result.entries))
        if refusal is not None:
            raise BeyondLimitError(refusal)
        new = [NewFile(path=name, digest=digest, result=r, machine=str(r.machine), context=None) for r in results]
        self._waiting.append((path, new))
        self._values += sum(1 + len(value.samples) for r in results for entry in r.entries for value in entry.values)
        if self._values >= _VALUES_AT_ONCE or len(self._waiting) >= _FILES_AT_ONCE:
            self.write()

    def write(self) -> None:
        """Writes what waits."""
        waiting, self._waiting, self._values = self._waiting, [], 0
        if not waiting:
            return
        writer = self.open()
        try:
            self.points += writer.write_all([file for _, new in waiting for file in new])
            self.warnings += [f"{path}: {p}" for path, new in waiting for file in new for p in file.result.problems]
        except (DataError, SeriesLimitError) as error:
            if len(waiting) == 1:
                self.set_aside.append(f"{waiting[0][0]}: {error.orig if isinstance(error, DataError) else error}")
                return
            for one in waiting:  # one of them holds what the database refuses: without it the others go in
                self._waiting = [one]
                self.write()
