"""`warpwatch gate`: measures two commits in turns until every series has a verdict."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.analysis.confirmation import CONFIRMING_RUNS
from warpwatch.dashboard.cli.output import OutputFile, database_option, output_option, say, table_width, write
from warpwatch.dashboard.cli.store_access import CannotTellError, open_or_create_store, read_settings
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.policy import record_acceptances
from warpwatch.dashboard.text import comparison_report

from ..asv_checkout import AsvRuns, GateError, asv_checkout, uncommitted_warnings
from ..host_lock import HostLockError, gpu_lock
from ..options import (
    asv_arguments_option,
    asv_project_option,
    folder_option,
    policy_option,
    threshold_option,
)
from ..policy.committed_policy import exit_status, read_committed_policy, read_comparison_policy
from .artefact_builder import BenchmarkSources, gate_artefact, write_artefact
from .gate_loop import Gate, analysis_schedule, run_gate


@click.command()
@click.argument("base")
@click.argument("head")
@folder_option
@asv_project_option
@click.option(
    "--bench",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="As asv's; repeatable. Default: warpwatch.toml's, else all.",
)
@asv_arguments_option
@click.option(
    "--asv-python",
    default=sys.executable,
    envvar="WARPWATCH_ASV_PYTHON",
    metavar="FILE",
    help="Python that runs asv; else WARPWATCH_ASV_PYTHON, else warpwatch's own.",
)
@click.option(
    "--runs",
    "most_runs",
    type=click.IntRange(2, 24),
    help="Most runs of each commit; default: warpwatch.toml's, else 12.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="No run starts that would end later, except the first two of each commit. Default: warpwatch.toml's, else 30.",
)
@click.option(
    "--machines",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of machines that measure this change; they share the family-wise error.",
)
@threshold_option
@policy_option
@click.option("--format", "layout", type=click.Choice(comparison_report.LAYOUTS), default="table", show_default=True)
@output_option
@click.option(
    "--artefact",
    "artefact_file",
    type=OutputFile(),
    help="Also write the file that `warpwatch forge report-gate` reads.",
)
@database_option
def gate(
    base: str,
    head: str,
    folder: Path,
    project: str | None,
    patterns: tuple[str, ...],
    arguments: tuple[str, ...],
    asv_python: str,
    most_runs: int | None,
    budget: float | None,
    machines: int,
    threshold: float | None,
    policy_file: Path | None,
    layout: str,
    output: Path | None,
    artefact_file: Path | None,
    database: str | None,
) -> None:
    """Measure two commits in turns until every series has a verdict.

    BASE and HEAD are hashes, branches or tags of the repository around asv.conf.json. Runs alternate (A B B A), decided
    series are not measured again, and the family-wise error over all series and interim analyses is 1 %. Results are
    stored as any others. The gate waits while another process measures on this GPU. Exit status: 0 unchanged, improved,
    or every regression is accepted or not blocking; 1 regressed, or a benchmark that has a value at BASE fails at HEAD
    (it crashes, its result is wrong, or it is gone), or HEAD's warpwatch.toml is invalid; 2 inconclusive.
    """
    default_threshold = read_settings().threshold
    asv = asv_checkout(folder, project, arguments)  # of its machine: runs here cannot decide series of others
    commits = asv.commit(base), asv.commit(head)
    if commits[0] == commits[1]:
        raise CannotTellError(f"{base} and {head} are the same commit, {commits[0][:8]}")
    for warning in uncommitted_warnings(asv.repository, asv.benchmarks):
        say(warning)
    committed = read_committed_policy(folder, *commits, policy_file)
    settings = committed.policy.gate
    family_error = settings.family_error / machines
    store = open_or_create_store(database)
    policy = read_comparison_policy(
        store,
        asv.project,
        asv.repository,
        *commits,
        committed=committed,
        threshold=threshold,
        default_threshold=default_threshold,
    )
    runs = AsvRuns(
        folder=folder,
        store=store,
        project=asv.project,
        patterns=patterns or settings.bench,
        arguments=arguments,
        python=asv_python,
    )

    def compare(family_error: float) -> Comparison:
        sides = [_recorded(runs, commit) for commit in commits]
        return check(
            store,
            asv.project,
            *sides,
            threshold=policy.threshold,
            limits=policy.limits(store, asv.project),
            policy=committed.name,
            family_error=family_error,
            machine=asv.machine,
            since_ms=began_ms,
        )

    try:
        with gpu_lock(say=say) as lock:
            runs = replace(runs, lock_descriptors=lock.descriptors)
            runs.import_earlier()
            began_ms = time.time_ns() // 1_000_000
            done = run_gate(
                analysis_schedule(most_runs or settings.runs, family_error),
                lambda is_head, series: runs.run(commits[is_head], series),
                compare,
                budget_s=60 * (budget or settings.budget_minutes),
                say=say,
            )
        done = replace(done, comparison=policy.apply(_noted(done)))
        text = comparison_report.as_text(done.comparison, layout, width=table_width(output))
        text += "" if layout == "json" else f"\n{done.cost}"
        write(text, output)  # first, so that the verdict is printed even if something below fails
        record_acceptances(store, asv.project, *commits, policy.accepted, now_ms=time.time_ns() // 1_000_000)
        if artefact_file is not None:
            artefact = gate_artefact(
                store,
                done,
                machine=asv.machine,
                family_error=family_error,
                inconclusive=settings.inconclusive,
                source_of=BenchmarkSources(asv.repository, asv.benchmarks).of,
            )
            write_artefact(artefact, artefact_file)
    except (GateError, HostLockError) as error:
        raise CannotTellError(str(error)) from error
    except KeyboardInterrupt:
        say("Finished runs are stored: the same command continues with them.")
        raise
    finally:
        store.close()
    sys.exit(exit_status(done.comparison))


def _recorded(runs: AsvRuns, commit_hash: str) -> Commit:
    commit = queries.find_commit(runs.store, runs.project, commit_hash)
    if commit is None:
        raise GateError(f"{commit_hash[:8]} has no results: does --bench match a benchmark, and does the commit build?")
    return commit


def _noted(done: Gate) -> Comparison:
    """The comparison, with a note if its changes are not confirmed."""
    changed = done.comparison.count(Verdict.REGRESSED) + done.comparison.count(Verdict.IMPROVED)
    if done.runs >= CONFIRMING_RUNS or not changed:
        return done.comparison
    note = "the changes rest on two runs of each commit; a third run would confirm them"
    return done.comparison.model_copy(update={"notes": (*done.comparison.notes, note)})
