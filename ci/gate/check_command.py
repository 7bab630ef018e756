"""`warpwatch check`: compares two recorded commits by the repository's policy."""

import sys
from pathlib import Path

import click

from warpwatch.dashboard.analysis.compare_commits import check as run_check
from warpwatch.dashboard.cli.output import database_option, output_option, project_option, table_width, write
from warpwatch.dashboard.cli.store_access import (
    CannotTellError,
    choose_project,
    open_store,
    read_settings,
    recorded_commit,
)
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.text import comparison_report

from ..options import policy_option, threshold_option
from ..policy.committed_policy import exit_status, read_committed_policy, read_comparison_policy


@click.command()
@click.argument("base")
@click.argument("head")
@project_option
@click.option("--machine", metavar="NAME", help="Only this machine.")
@click.option("--all-metrics", is_flag=True, help="Compare every metric, not only times.")
@threshold_option
@policy_option
@click.option("--format", "layout", type=click.Choice(comparison_report.LAYOUTS), default="table")
@output_option
@database_option
def check(
    base: str,
    head: str,
    project: str | None,
    machine: str | None,
    all_metrics: bool,
    threshold: float | None,
    policy_file: Path | None,
    layout: str,
    output: Path | None,
    database: str | None,
) -> None:
    """Compare two recorded commits.

    BASE and HEAD are hashes, or branches and tags if the project's repository is known. Exit status: 0 unchanged,
    improved, or every regression is accepted or not blocking; 1 regressed, or a benchmark that has a value at BASE
    fails at HEAD, or HEAD's warpwatch.toml is invalid; 2 inconclusive, an unknown commit, or nothing to compare.
    """
    settings = read_settings()
    store = open_store(database)
    chosen = choose_project(store, project)
    ends = [recorded_commit(store, chosen, name) for name in (base, head)]
    if ends[0].hash == ends[1].hash:
        raise CannotTellError(f"{base} and {head} are the same commit, {ends[0].hash[:8]}")
    machines = [known.name for known in queries.machines(store, chosen.name)]
    if machine is not None and machine not in machines:
        raise CannotTellError(f"no machine {machine!r} in {chosen.name}; it has: {', '.join(machines) or 'none'}")
    repository = Path(chosen.repository) if chosen.repository and Path(chosen.repository).exists() else None
    committed = read_committed_policy(repository or Path.cwd(), ends[0].hash, ends[1].hash, policy_file)
    policy = read_comparison_policy(
        store,
        chosen.name,
        repository,
        ends[0].hash,
        ends[1].hash,
        committed=committed,
        threshold=threshold,
        default_threshold=settings.threshold,
    )
    comparison = run_check(
        store,
        chosen.name,
        *ends,
        threshold=policy.threshold,
        limits=policy.limits(store, chosen.name),
        policy=committed.name,
        machine=machine,
        all_metrics=all_metrics,
    )
    result = policy.apply(comparison)
    write(comparison_report.as_text(result, layout, width=table_width(output)), output)
    sys.exit(exit_status(result))
