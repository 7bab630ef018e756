"""Accuracy of machine attribution and of the false discovery rate.

`python -m tools.attribution_trial [FOLDER]`: simulated machines of 40 series and two canaries over 60 commits, of which
one changes a series, the machine, or both. With FOLDER also the labelled histories in it (as for score_detector), each
as one of a family of the printed size.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import click
import numpy as np

from warpwatch.dashboard.analysis.classify import classified
from warpwatch.dashboard.model.verdict import ChangeKind, Control
from warpwatch.dashboard.statistics.changepoint import find_changes
from warpwatch.dashboard.statistics.distributions import SIGNIFICANT_Q
from warpwatch.dashboard.store.classification import (
    ControlLevels,
    MachineChange,
    MachineFindings,
    MachineSeries,
    UnclassifiedMachine,
)

_SERIES, _COMMITS, _AT = 40, 60, 35
_CASES = ((0.0, 0.05), (0.0, 0.1), (0.03, 0.0), (0.06, 0.0), (0.1, 0.0), (0.05, 0.05), (0.05, 0.1), (-0.05, 0.1))
_FAMILIES = (1, 200, 2000)
_MARGIN = 5


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--machines", default=20, show_default=True, help="Of each case.")
def main(folder: Path | None, machines: int) -> None:
    """Print the classification of each case, and the changes of the labelled sets with q <= 0.05."""
    click.echo("machine, commit | a machine's state | step | its magnitude without the machine | interval holds it")
    for machine, commit in _CASES:
        rng = np.random.default_rng(1)
        counts: Counter[str] = Counter()
        sizes: list[float] = []
        for _ in range(machines):
            _simulate(rng, machine, commit, counts, sizes)
        count = max(counts["found"], 1)
        rest = np.median(sizes) if sizes else float("nan")
        click.echo(
            f"{machine:+.0%}, {commit:+.0%} | {counts['machine state'] / count:.2f} | "
            f"{counts['step'] / count:.2f} | {rest:+.1%} | {counts['covered'] / max(len(sizes), 1):.2f}"
        )
    for path in sorted(folder.glob("*_dev.json.gz")) if folder else ():
        _labelled(path)


def _simulate(
    rng: np.random.Generator, machine: float, commit: float, counts: Counter[str], sizes: list[float]
) -> None:
    """One machine; the commit changes the first series only. Scatter 0.3 to 1 % with tails of t5, canaries 0.3 %."""
    scatter = np.append(rng.uniform(0.003, 0.01, _SERIES), [0.003, 0.003])
    logs = rng.standard_t(5, (_SERIES + 2, _COMMITS)) * scatter[:, None]
    logs[:, _AT:] += np.log1p(machine)
    logs[0, _AT:] += np.log1p(commit)
    is_canary = [number >= _SERIES for number in range(_SERIES + 2)]
    series = [
        MachineSeries(
            id=number,
            environment=1,
            suite=f"suite{number // 4}",
            family="latency",
            sign=1,
            memory_bound=None,
            control=Control.CANARIES if canary else None,
            is_canary=canary,
            is_ours=not canary,
            is_exact=False,
            is_listed=True,
        )
        for number, canary in enumerate(is_canary)
    ]
    changes = []
    for number in range(_SERIES):
        for change in find_changes(np.exp(logs[number]).tolist(), smallest_change=0.01).changes:
            changes.append(
                MachineChange(
                    series=series[number],
                    commit_id=change.index,
                    place=change.index,
                    range_start=change.first - 1,
                    range_end=change.last,
                    magnitude=change.magnitude,
                    low=change.ci_low,
                    high=change.ci_high,
                    chance=change.p_adjusted,
                    family=None,
                    stored=(),
                )
            )
    canaries = [number for number, one in enumerate(series) if one.is_canary]
    levels = ControlLevels(
        places=np.arange(_COMMITS), controls=tuple(series[number] for number in canaries), levels=logs[canaries]
    )
    findings = MachineFindings(
        machine=UnclassifiedMachine(id=1, project_id=1, project="p"),
        findings=1,
        families={1: _SERIES},
        changes=tuple(changes),
        controls={(1, "latency"): (levels,)},
    )
    for judgement in classified(findings):
        found, is_commits = judgement.change, commit != 0
        if abs(found.place - _AT) <= _MARGIN and (found.series.id == 0) == is_commits:
            counts["found"] += 1
            counts[judgement.kind.value] += 1
            if judgement.kind is ChangeKind.STEP and judgement.share is not None:
                whole = float(np.log1p(found.magnitude))
                low, high = sorted(whole * (1 - part) for part in (judgement.share.ci_low, judgement.share.ci_high))
                counts["covered"] += low <= np.log1p(commit) <= high
                sizes.append(float(np.expm1(whole * (1 - judgement.share.value))))


def _labelled(path: Path) -> None:
    with gzip.open(path, "rt") as file:
        rows = json.load(file)
    found = [
        (change.p_adjusted, any(abs(change.index - place) <= _MARGIN for place in row["cps"]))
        for row in rows
        for change in find_changes(row["values"]).changes
    ]
    for family in _FAMILIES:
        significant = [is_true for p_value, is_true in found if p_value * family <= SIGNIFICANT_Q]
        true = sum(is_true for _, is_true in found)
        click.echo(
            f"{path.name.partition('_')[0]}, one of {family}: of {true} true changes {sum(significant)} have "
            f"q <= {SIGNIFICANT_Q}, of {len(found) - true} false ones {len(significant) - sum(significant)}"
        )


if __name__ == "__main__":
    main()
