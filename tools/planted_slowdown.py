"""Detections and false alarms of `warpwatch check` with a planted slowdown.

`python -m tools.planted_slowdown RUNS.tar.gz...` compares the runs that `perf_suite/trials/planted_slowdown.sh record`
measured. Each pair has a store of its own, with the GPU's runs of the commit before, one run of base and one of head.
A/A pairs are bases of two commits without a difference, the nearest in time first.
"""

import itertools
import json
import re
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.importers.archive import unpack
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.importers.import_limits import ImportLimits
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries

THRESHOLD = 0.01
_PLANTED_IN = "warpwatch"  # the implementation
_RUN = re.compile(r"(?P<gpu>gpu\d+)-(?:before-\d+|try-(?P<number>\d+)-(?P<side>base|planted))")
_PROJECT = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One result file."""

    file: Path
    commit: str  # full hash
    gpu: str
    side: str | None  # "base", "planted", or None of the commit before
    number: int  # of the try


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two compared runs."""

    base: Run
    head: Run
    detected: tuple[str, ...]  # slower series that are REGRESSED
    wrong: tuple[str, ...]  # series wrongly called changed
    changes: tuple[float, ...]  # measured relative changes of the slower series


def runs_of(folder: Path) -> list[Run]:
    """Every recorded run of an unpacked archive. Raises ValueError if there is none."""
    runs = []
    for file in sorted(folder.glob("*/gpu*.json")):
        match = _RUN.fullmatch(file.stem)
        if match:
            commit = json.loads(file.read_text())["commit_hash"]
            number = int(match["number"] or 0)
            runs.append(Run(file=file, commit=commit, gpu=match["gpu"], side=match["side"], number=number))
    if not runs:
        raise ValueError(f"{folder} has no <machine>/gpu<n>-try-<n>-<base or planted>.json of planted_slowdown.sh")
    return runs


def tries(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    """Base and planted of each try."""
    sides = {(run.gpu, run.number, run.side): run for run in runs}
    for (gpu, number, side), base in sides.items():
        planted = sides.get((gpu, number, "planted"))
        if side == "base" and planted:
            yield base, planted


def alike(runs: Sequence[Run], most: int) -> list[tuple[Run, Run]]:
    """A/A pairs: bases of one GPU and of two commits, at most `most`, the nearest in time first."""
    bases = sorted((run for run in runs if run.side == "base"), key=lambda run: (run.gpu, run.number))
    pairs = [
        (one, other)
        for one, other in itertools.combinations(bases, 2)
        if one.gpu == other.gpu and one.commit != other.commit
    ]
    return sorted(pairs, key=lambda pair: pair[1].number - pair[0].number)[:most]


def compared(base: Run, head: Run, runs: Sequence[Run], threshold: float = THRESHOLD) -> Pair:
    """Check of two runs, in a store with them and the GPU's runs before the tries."""
    before = [run for run in runs if run.gpu == base.gpu and run.side is None]
    with tempfile.TemporaryDirectory(prefix="warpwatch-trial-") as name:
        machine = Path(name) / "results" / base.file.parent.name
        machine.mkdir(parents=True)
        shutil.copy(base.file.parent / "machine.json", machine)
        shutil.copy(base.file.parents[1] / "benchmarks.json", machine.parent)
        for run in (*before, base, head):
            for file in (run.file, run.file.with_suffix(".context.jsonl")):
                shutil.copy(file, machine)
        store = Store(str(Path(name) / "history.db"))
        import_results(store, open_folder(machine.parent, project=_PROJECT))
        commits = [queries.find_commit(store, _PROJECT, run.commit) for run in (base, head)]
        assert commits[0] is not None, f"{base.file} was not imported"
        assert commits[1] is not None, f"{head.file} was not imported"
        comparison = check(store, _PROJECT, commits[0], commits[1], threshold=threshold)
        store.close()
    return _pair(base, head, comparison)


def _pair(base: Run, head: Run, comparison: Comparison) -> Pair:
    is_planted = head.side == "planted"
    detected, wrong, changes = [], [], []
    for row in comparison.rows:
        is_slower = is_planted and row.series.implementation == _PLANTED_IN
        if is_slower and row.estimate is not None:
            changes.append(row.estimate.change)
        if is_slower and row.verdict is Verdict.REGRESSED:
            detected.append(row.series.title)
        elif row.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
            wrong.append(row.series.title)
    return Pair(base=base, head=head, detected=tuple(detected), wrong=tuple(wrong), changes=tuple(changes))


def report(planted: Sequence[Pair], same: Sequence[Pair], threshold: float = THRESHOLD) -> str:
    """The trial in Markdown."""
    changes = [change for pair in planted for change in pair.changes]
    detected = sum(bool(pair.detected) for pair in planted)
    lines = [
        f"| threshold {threshold:.0%} | pairs | slowdown detected | wrong verdicts |",
        "|---|---|---|---|",
        f"| planted | {len(planted)} | in {detected} | in {sum(bool(pair.wrong) for pair in planted)} |",
        f"| the same code | {len(same)} | | in {sum(bool(pair.wrong) for pair in same)} |",
    ]
    if changes:
        lines += ["", f"Measured: {statistics.median(changes):+.2%} ({min(changes):+.2%} to {max(changes):+.2%})."]
        lines.append(
            f"Of {len(changes)} kernels that were slower, {sum(len(pair.detected) for pair in planted)} are detected."
        )
    for pair in (*planted, *same):
        names = f"{pair.base.file.stem} and {pair.head.file.stem}"
        if pair.wrong:
            lines.append(f"- {names}: {', '.join(pair.wrong)} called changed")
        if pair.head.side == "planted" and not pair.detected:
            lines.append(f"- {names}: not detected; measured {', '.join(f'{change:+.2%}' for change in pair.changes)}")
    return "\n".join(lines)


@click.command()
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--pairs", default=50, show_default=True, help="A/A pairs, at most.")
@click.option("--threshold", default=THRESHOLD, show_default=True, help="As of warpwatch check.")
def main(archives: tuple[Path, ...], pairs: int, threshold: float) -> None:
    """Compare the recorded runs of planted_slowdown.sh, each archive separately."""
    planted: list[Pair] = []
    same: list[Pair] = []
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="warpwatch-runs-") as name:
            unpack(archive, Path(name), ImportLimits())
            runs = runs_of(Path(name))
            planted += [compared(base, head, runs, threshold) for base, head in tries(runs)]
            same += [compared(base, head, runs, threshold) for base, head in alike(runs, pairs - len(same))]
    click.echo(report(planted, same, threshold))


if __name__ == "__main__":
    main()
