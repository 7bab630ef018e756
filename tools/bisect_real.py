"""Real bisects: git repositories with a planted slowdown, built and measured by asv on this machine.

`python -m tools.bisect_real FOLDER` makes the repositories in there, bisects each with `warpwatch bisect`
and prints what it named. Every ninth commit changes a text alone, and the one in the middle does not compile.
"""

import json
import time
from pathlib import Path

import click
import numpy as np

from tools.planted_repository import planted_repository

_SIZES = ((16, 0.5), (32, 0.2), (64, 0.1))  # commits, planted change


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", default=1, show_default=True, help="Of the culprits' places.")
@click.option("--budget", default=30.0, show_default=True, help="Minutes of each bisect.")
def main(folder: Path, seed: int, budget: float) -> None:
    """Bisect planted slowdowns, and print the named commits."""
    rng = np.random.default_rng(seed)
    click.echo("| commits | planted | named | stated | change, 95 % | runs | commits measured | minutes |")
    click.echo("|---|---|---|---|---|---|---|---|")
    for commits, change in _SIZES:
        culprit = int(rng.choice([n for n in range(2, commits - 1) if abs(n - commits // 2 - 0.5) > 1]))
        notes = [number for number in range(4, commits, 9) if number not in (culprit, commits // 2)]
        broken = commits // 2
        repository = planted_repository(
            folder / f"{commits}-commits", commits=commits, culprit=culprit, change=change, broken=[broken], notes=notes
        )
        began = time.monotonic()
        done = repository.warpwatch(
            "bisect",
            "time_work",
            repository.commits[0],
            repository.commits[-1],
            "--budget",
            str(budget),
            "--format",
            "json",
        )
        if not done.stdout:
            raise click.ClickException(done.stderr)
        report = json.loads(done.stdout)
        suspects = [repository.commits.index(commit) for commit in report["suspects"]]
        right = "the culprit" if suspects == [culprit] else f"{suspects} of {[culprit]}"
        if culprit in suspects and len(suspects) > 1:
            right = f"{len(suspects)} commits, the culprit among them"
        low, high = report["interval_95"] or (float("nan"), float("nan"))
        measured = sum(commit["runs"] > 0 for commit in report["commits"])
        result = right if report["conclusion"] in ("found", "range") else report["headline"]
        click.echo(
            f"| {commits} | {change:.0%} | {result} "
            f"| {report['confidence'] or 0:.1%} | {low:+.1%} to {high:+.1%} | {report['runs']} | {measured} "
            f"| {(time.monotonic() - began) / 60:.1f} |"
        )


if __name__ == "__main__":
    main()
