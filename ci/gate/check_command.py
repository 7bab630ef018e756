"""`warpwatch check`: two recorded commits judged by the repository's policy."""

import sys
from pathlib import Path

import click

from warpwatch.dashboard.analysis.compare_commits import check as run_check
from warpwatch.dashboard.cli.output import OutputFile, table_width, write
from warpwatch.dashboard.cli.project_choice import choose_project, recorded_commit
from warpwatch.dashboard.cli.store_access import CannotTellError, open_store, read_settings
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.text import comparison_report

from .comparison_policy import exit_status, read_policy_for, read_terms


@click.command()
@click.argument("base")
@click.argument("head")
@click.option("--project", metavar="NAME", help="Needed where the store holds several.")
@click.option("--machine", metavar="NAME", help="Only this machine.")
@click.option("--all-metrics", is_flag=True, help="Judge every metric, not times alone.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Smallest relative change that matters, of every series; default: as warpwatch.toml says, else "
    "WARPWATCH_THRESHOLD, else 0.02.",
)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A warpwatch.toml; default: the one that BASE has.",
)
@click.option(
    "--accept",
    "accept_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Regressions accepted in replies, a JSON file.",
)
@click.option("--format", "layout", type=click.Choice(comparison_report.LAYOUTS), default="table")
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; WARPWATCH_DATABASE.")
def check(
    base: str,
    head: str,
    project: str | None,
    machine: str | None,
    all_metrics: bool,
    threshold: float | None,
    policy_file: Path | None,
    accept_file: Path | None,
    layout: str,
    output: Path | None,
    database: str | None,
) -> None:
    """Compare two recorded commits and say what moved.

    BASE and HEAD are hashes, or branches and tags where the project's repository is known. Exit status: 0 unchanged or
    better, or what got worse was accepted or does not block; 1 regressed, or a benchmark that has a number at BASE
    fails at HEAD, or HEAD's warpwatch.toml cannot be used; 2 inconclusive (also: an unknown commit, or nothing to
    compare).
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
    found = read_policy_for(repository or Path.cwd(), ends[0].hash, ends[1].hash, policy_file)
    terms = read_terms(
        store,
        chosen.name,
        repository,
        ends[0].hash,
        ends[1].hash,
        found=found,
        accept_file=accept_file,
        threshold=threshold,
        default_threshold=settings.threshold,
    )
    judged = run_check(
        store,
        chosen.name,
        *ends,
        threshold=terms.threshold,
        limits=terms.limits(store, chosen.name),
        policy=found.name,
        machine=machine,
        all_metrics=all_metrics,
    )
    result = terms.applied(judged)
    write(comparison_report.as_text(result, layout, width=table_width(output)), output)
    sys.exit(exit_status(result))
