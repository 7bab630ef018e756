"""Links and commands, built from an artefact's hashes and names and never copied from it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from warpwatch.dashboard.web.urls import compare_address, project_in_path

from ..gate.artefact import CUT, ArtefactRow, GateArtefact
from ..gate.asv_runner import bench_pattern

_MOST_PATTERNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Links to the dashboard; None without one."""

    dashboard: str | None = None

    def comparison(self, artefact: GateArtefact) -> str | None:
        """The page that compares the two commits."""
        if self.dashboard is None:
            return None
        return self._root + compare_address(artefact.project, artefact.base.hash, artefact.head.hash)

    def series(self, artefact: GateArtefact, row: ArtefactRow) -> str | None:
        """The page of a row's history."""
        if self.dashboard is None:
            return None
        return f"{self._root}/{project_in_path(artefact.project)}/series/{row.series.key}"

    @property
    def _root(self) -> str:
        return (self.dashboard or "").rstrip("/")


def reproduce(artefact: GateArtefact, rows: Iterable[ArtefactRow]) -> str | None:
    """The shell command that measures these rows again; None if asv did not measure them or a name was cut."""
    whole = (row.series for row in rows if _is_whole(row))
    patterns = list(dict.fromkeys(bench_pattern(each.suite, each.parameters.items()) for each in whole))
    if not patterns:
        return None
    words = [f"--bench {shlex.quote(pattern)}" for pattern in patterns[:_MOST_PATTERNS]]
    return f"warpwatch gate {artefact.base.hash} {artefact.head.hash} " + " ".join(words)


def _is_whole(row: ArtefactRow) -> bool:
    texts = (row.series.benchmark, *row.series.parameters.values())
    return row.series.measured_by_asv and not any(text.endswith(CUT) for text in texts)
