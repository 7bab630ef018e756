"""How often `warpwatch check` told a slowdown that was planted, and how often it told one where there was none.

`python -m tools.planted_slowdown RUNS.tar.gz...` judges what
`perf_suite/trials/planted_slowdown.sh record` measured. Each pair is judged as if it were all that the machine had
seen: a store of its own holds the card's runs of the commit before, one run of base and one of head. A/A pairs are
bases of two commits that differ in nothing, those measured nearest to each other first.
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
_RUN = re.compile(r"(?P<card>gpu\d+)-(?:before-\d+|try-(?P<number>\d+)-(?P<side>base|planted))")
_PROJECT = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One result file."""

    file: Path
    commit: str  # full hash
    card: str
    side: str | None  # "base", "planted", or None of the commit before
    number: int  # of the try


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs that were judged, by the series that were."""

    base: Run
    head: Run
    told: tuple[str, ...]  # where it was planted, REGRESSED
    wrong: tuple[str, ...]  # called changed, and nobody changed them that way
    changes: tuple[float, ...]  # of those where it was planted, as measured; relative


def runs_of(folder: Path) -> list[Run]:
    """Every recorded run of an unpacked archive. Raises ValueError if there is none."""
    found = []
    for file in sorted(folder.glob("*/gpu*.json")):
        told = _RUN.fullmatch(file.stem)
        if told:
            commit = json.loads(file.read_text())["commit_hash"]
            number = int(told["number"] or 0)
            found.append(Run(file=file, commit=commit, card=told["card"], side=told["side"], number=number))
    if not found:
        raise ValueError(f"{folder} holds no <machine>/gpu<n>-try-<n>-<base or planted>.json of planted_slowdown.sh")
    return found


def tries(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    """Base and planted of each try."""
    sides = {(run.card, run.number, run.side): run for run in runs}
    for (card, number, side), base in sides.items():
        planted = sides.get((card, number, "planted"))
        if side == "base" and planted:
            yield base, planted


def alike(runs: Sequence[Run], most: int) -> list[tuple[Run, Run]]:
    """A/A pairs: bases of one card and of two commits, at most so many, the nearest in time first."""
    bases = sorted((run for run in runs if run.side == "base"), key=lambda run: (run.card, run.number))
    pairs = [
        (one, other)
        for one, other in itertools.combinations(bases, 2)
        if one.card == other.card and one.commit != other.commit
    ]
    return sorted(pairs, key=lambda pair: pair[1].number - pair[0].number)[:most]


def judged(base: Run, head: Run, runs: Sequence[Run], threshold: float = THRESHOLD) -> Pair:
    """What a check says of two runs, in a store that knows them and the card's runs before the tries."""
    before = [run for run in runs if run.card == base.card and run.side is None]
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
        found = check(store, _PROJECT, commits[0], commits[1], threshold=threshold)
        store.close()
    return _pair(base, head, found)


def _pair(base: Run, head: Run, found: Comparison) -> Pair:
    is_planted = head.side == "planted"
    told, wrong, changes = [], [], []
    for row in found.rows:
        here = is_planted and row.series.implementation == _PLANTED_IN
        if here and row.estimate is not None:
            changes.append(row.estimate.change)
        if here and row.verdict is Verdict.REGRESSED:
            told.append(row.series.title)
        elif row.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
            wrong.append(row.series.title)
    return Pair(base=base, head=head, told=tuple(told), wrong=tuple(wrong), changes=tuple(changes))


def report(planted: Sequence[Pair], same: Sequence[Pair], threshold: float = THRESHOLD) -> str:
    """The trial in Markdown."""
    changes = [change for pair in planted for change in pair.changes]
    told = sum(bool(pair.told) for pair in planted)
    lines = [
        f"| threshold {threshold:.0%} | pairs | slowdown told | wrong verdicts |",
        "|---|---|---|---|",
        f"| planted | {len(planted)} | in {told} | in {sum(bool(pair.wrong) for pair in planted)} |",
        f"| the same code | {len(same)} | | in {sum(bool(pair.wrong) for pair in same)} |",
    ]
    if changes:
        lines += ["", f"Measured: {statistics.median(changes):+.2%} ({min(changes):+.2%} to {max(changes):+.2%})."]
        lines.append(f"Of {len(changes)} kernels that were slower {sum(len(pair.told) for pair in planted)} are told.")
    for pair in (*planted, *same):
        names = f"{pair.base.file.stem} and {pair.head.file.stem}"
        if pair.wrong:
            lines.append(f"- {names}: {', '.join(pair.wrong)} called changed")
        if pair.head.side == "planted" and not pair.told:
            lines.append(f"- {names}: not told; measured {', '.join(f'{change:+.2%}' for change in pair.changes)}")
    return "\n".join(lines)


@click.command()
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--pairs", default=50, show_default=True, help="A/A pairs, at most.")
@click.option("--threshold", default=THRESHOLD, show_default=True, help="As of warpwatch check.")
def main(archives: tuple[Path, ...], pairs: int, threshold: float) -> None:
    """Judge the recorded runs of planted_slowdown.sh, each archive's by themselves."""
    planted: list[Pair] = []
    same: list[Pair] = []
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="warpwatch-runs-") as name:
            unpack(archive, Path(name), ImportLimits())
            runs = runs_of(Path(name))
            planted += [judged(base, head, runs, threshold) for base, head in tries(runs)]
            same += [judged(base, head, runs, threshold) for base, head in alike(runs, pairs - len(same))]
    click.echo(report(planted, same, threshold))


if __name__ == "__main__":
    main()
