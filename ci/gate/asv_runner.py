"""A run of the gate: asv builds a commit and measures it, and the store gets the results."""

import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warpwatch.dashboard.importers.asv_folder import NoResultsError, open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.store import Store

_FAILED_SOME = 2  # asv's status when a benchmark failed, which is recorded and judged


class GateError(Exception):
    """A commit could not be measured; the message has asv's last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvRuns:
    """Runs of one asv project into one store."""

    folder: Path  # with asv.conf.json
    store: Store
    project: str
    patterns: Sequence[str] = ()  # asv's --bench; none: all
    arguments: Sequence[str] = ()  # further ones of asv run
    python: str = sys.executable  # runs asv
    held: Sequence[int] = ()  # descriptors of the host's lock, which asv keeps even if the gate is killed

    def take_in(self) -> None:
        """Imports what asv recorded before: a run's file has these results too, and they are none of that run."""
        with suppress(NoResultsError):
            import_results(self.store, open_folder(self.folder, project=self.project), workers=1)

    def run(self, commit: str, series: Collection[SeriesSchema] | None = None) -> None:
        """Measures a commit (full hash) and imports the results. Raises GateError."""
        patterns = (
            self.patterns
            if series is None
            else sorted({pattern_of(each.suite, each.parameters.items()) for each in series})
        )
        words = ["run", "--record-samples", *self.arguments]
        for pattern in patterns:
            words += ["--bench", pattern]
        done = subprocess.run(
            [self.python, "-m", "asv", *words, f"{commit}^!"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            pass_fds=self.held,
        )
        if done.returncode not in (0, _FAILED_SOME):
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise GateError(f"asv run of {commit[:8]} ended with {done.returncode}:\n{said}")
        # Before the next run of this commit writes its file anew.
        import_results(self.store, open_folder(self.folder, project=self.project), workers=1)


def pattern_of(suite: str, parameters: Iterable[tuple[str, str]]) -> str:
    """What asv's --bench wants for all metrics of all implementations of a case: rivals are its controls.

    asv matches it against "name(param, param)" with strings in quotes, of which the store keeps none.
    """
    values = [".*" if name == "implementation" else f".?{re.escape(value)}.?" for name, value in parameters]
    where = r"\(" + ", ".join(values) + r"\)$" if values else "$"
    return f"^{re.escape(suite)}\\.[^.(]*{where}"
