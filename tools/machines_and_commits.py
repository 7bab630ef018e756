"""How well a machine's state is told from a commit, and what the false discovery rate is worth: on simulated machines.

`python -m tools.machines_and_commits [FOLDER]`: machines of 40 series and two canaries over 60
commits, of which one moves a series, or the machine, or both; and with FOLDER the labelled histories in it (as
score_detector takes them), each as one of a family of the size that the table names.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import click
import numpy as np

from warpwatch.dashboard.analysis.classify import classified
from warpwatch.dashboard.model.verdict import ChangeKind, Control
from warpwatch.dashboard.statistics.changepoint import changepoints
from warpwatch.dashboard.statistics.multiplicity import SIGNIFICANT_Q
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
    """Print what each case is told as, and what remains of the labelled sets at q <= 0.05."""
    click.echo("machine, commit | a machine's state | step | its magnitude without the machine | interval holds it")
    for machine, commit in _CASES:
        rng = np.random.default_rng(1)
        told: Counter[str] = Counter()
        sizes: list[float] = []
        for _ in range(machines):
            _simulated(rng, machine, commit, told, sizes)
        count = max(told["told"], 1)
        rest = np.median(sizes) if sizes else float("nan")
        click.echo(
            f"{machine:+.0%}, {commit:+.0%} | {told['machine state'] / count:.2f} | "
            f"{told['step'] / count:.2f} | {rest:+.1%} | {told['held'] / max(len(sizes), 1):.2f}"
        )
    for path in sorted(folder.glob("*_dev.json.gz")) if folder else ():
        _labelled(path)


def _simulated(rng: np.random.Generator, machine: float, commit: float, told: Counter[str], sizes: list[float]) -> None:
    """One machine; the commit moves the first series alone. Scatter 0.3 to 1 % with tails of t5, canaries 0.3 %."""
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
    found = []
    for number in range(_SERIES):
        for change in changepoints(np.exp(logs[number]).tolist(), smallest_change=0.01):
            found.append(
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
                    stored=(),
                )
            )
    speakers = [number for number, one in enumerate(series) if one.is_canary]
    levels = ControlLevels(
        places=np.arange(_COMMITS), controls=tuple(series[number] for number in speakers), levels=logs[speakers]
    )
    findings = MachineFindings(
        machine=UnclassifiedMachine(id=1, project_id=1, project="p"),
        findings=1,
        families={1: _SERIES},
        changes=tuple(found),
        controls={(1, "latency"): (levels,)},
    )
    for judgement in classified(findings):
        its, is_commits = judgement.change, commit != 0
        if abs(its.place - _AT) <= _MARGIN and (its.series.id == 0) == is_commits:
            told["told"] += 1
            told[judgement.kind.value] += 1
            if judgement.kind is ChangeKind.STEP and judgement.share is not None:
                whole = float(np.log1p(its.magnitude))
                low, high = sorted(whole * (1 - part) for part in (judgement.share.ci_low, judgement.share.ci_high))
                told["held"] += low <= np.log1p(commit) <= high
                sizes.append(float(np.expm1(whole * (1 - judgement.share.value))))


def _labelled(path: Path) -> None:
    with gzip.open(path, "rt") as file:
        rows = json.load(file)
    found = [
        (change.p_adjusted, any(abs(change.index - place) <= _MARGIN for place in row["cps"]))
        for row in rows
        for change in changepoints(row["values"])
    ]
    for family in _FAMILIES:
        kept = [is_true for chance, is_true in found if chance * family <= SIGNIFICANT_Q]
        true = sum(is_true for _, is_true in found)
        click.echo(
            f"{path.name.partition('_')[0]}, one of {family}: of {true} true changes {sum(kept)} have "
            f"q <= {SIGNIFICANT_Q}, of {len(found) - true} false ones {len(kept) - sum(kept)}"
        )


if __name__ == "__main__":
    main()
