"""`warpwatch gate`: did this change make anything slower? Measured here and now, until that is sure."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.dashboard.analysis.compare_commits import Check, check
from warpwatch.dashboard.cli.output import OutputFile, table_width, write
from warpwatch.dashboard.cli.store_access import CannotTellError, open_or_create_store, read_settings
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name
from warpwatch.dashboard.importers.git import resolve
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.policy import record_acceptances
from warpwatch.dashboard.text import comparison_report

from ..asv_checkout import asv_machine, uncommitted_warnings
from ..host_lock import HostLockError, gpu_lock
from .alpha_spending import looks
from .artefact_builder import BenchmarkSources, gate_artefact, write_artefact
from .asv_runner import AsvRuns, GateError
from .comparison_policy import read_policy_for, read_terms
from .gate_loop import END_REASONS, SETTLES, Gate, run_gate


@click.command()
@click.argument("base")
@click.argument("head")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Of asv.conf.json; default: here.",
)
@click.option("--project", metavar="NAME", help="In the store; default: asv.conf.json's.")
@click.option(
    "--bench",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="As asv's; may be given several times. Default: as warpwatch.toml says, else all.",
)
@click.option("--asv", "arguments", multiple=True, metavar="ARGUMENT", help="A further argument of asv run.")
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
    help="Of each commit, at most; default: as warpwatch.toml says, else 12.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="No runs begin that would end later; the first two of each commit are always made. Default: as "
    "warpwatch.toml says, else 30.",
)
@click.option(
    "--machines",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="That measure this change: together they may err as often as one alone.",
)
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
@click.option("--format", "layout", type=click.Choice(comparison_report.LAYOUTS), default="table", show_default=True)
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
@click.option(
    "--artefact", "artefact_file", type=OutputFile(), help="Also write what `warpwatch forge report-gate` reads there."
)
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
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
    accept_file: Path | None,
    layout: str,
    output: Path | None,
    artefact_file: Path | None,
    database: str | None,
) -> None:
    """Measure two commits beside each other, again and again, until it is sure what moved.

    BASE and HEAD are hashes, branches or tags of the repository around asv.conf.json. Runs alternate (A B B A), what is
    settled is not measured again, and all series of all looks together raise a false alarm with 1 % at most. The
    results go into the store like any others. It waits while another measures on this GPU. Exit status: 0 unchanged or
    better, or what got worse was accepted or does not block; 1 regressed, or a benchmark that has a number at BASE
    fails at HEAD (it crashes, its result is wrong, or it is gone), or HEAD's warpwatch.toml cannot be used; 2 could not
    tell.
    """
    settings = read_settings()
    try:
        asvs = asv_project(folder / "asv.conf.json")
    except NoResultsError as error:
        raise CannotTellError(str(error)) from error
    if asvs.repository is None:
        raise CannotTellError(f"{folder / 'asv.conf.json'} names no git repository on this machine: nothing to build")
    name = project or asvs.name or project_name(asvs.results.resolve())
    repository = asvs.repository
    ends = _hash(repository, base), _hash(repository, head)
    if ends[0] == ends[1]:
        raise CannotTellError(f"{base} and {head} are the same commit, {ends[0][:8]}")
    machine = asv_machine(arguments)  # what others recorded of the same commits no run here can settle
    if machine is None:
        raise CannotTellError("asv does not know this machine yet: `asv machine --yes` tells it")
    for warning in uncommitted_warnings(repository, asvs.benchmarks):
        _say(warning)
    found = read_policy_for(folder, *ends, policy_file)
    stated = found.policy.gate
    family_error = stated.family_error / machines
    store = open_or_create_store(database)
    terms = read_terms(
        store,
        name,
        repository,
        *ends,
        found=found,
        accept_file=accept_file,
        threshold=threshold,
        default_threshold=settings.threshold,
    )
    runs = AsvRuns(
        folder=folder,
        store=store,
        project=name,
        patterns=patterns or stated.bench,
        arguments=arguments,
        python=asv_python,
    )

    def look(error: float) -> Check:
        sides = [_recorded(runs, commit) for commit in ends]
        return check(
            store,
            name,
            *sides,
            threshold=terms.threshold,
            limits=terms.limits(store, name),
            family_error=error,
            machine=machine,
            since_ms=began_ms,
        )

    try:
        with gpu_lock(say=_say) as held:
            runs = replace(runs, held=held.descriptors)
            runs.take_in()
            began_ms = time.time_ns() // 1_000_000
            done = run_gate(
                looks(most_runs or stated.runs, family_error),
                lambda is_head, series: runs.run(ends[is_head], series),
                look,
                budget_s=60 * (budget or stated.budget_minutes),
                say=_say,
            )
        done = replace(done, check=terms.applied(store, _noted(done)))
        text = comparison_report.as_text(done.check, layout, width=table_width(output))
        text += "" if layout == "json" else f"\n{_cost(done)}"
        write(text, output)  # first: whatever fails below, the verdict was printed
        record_acceptances(store, name, *ends, terms.accepted, now_ms=time.time_ns() // 1_000_000)
        if artefact_file is not None:
            told = gate_artefact(
                store,
                done,
                machine=machine,
                family_error=family_error,
                inconclusive=stated.inconclusive,
                source_of=BenchmarkSources(repository, asvs.benchmarks).of,
            )
            write_artefact(told, artefact_file)
    except (GateError, HostLockError) as error:
        raise CannotTellError(str(error)) from error
    except KeyboardInterrupt:
        _say("Finished runs are kept: the same command continues with them.")
        raise
    finally:
        store.close()
    sys.exit(int(done.check.outcome))


def _hash(repository: Path, name: str) -> str:
    found = resolve(repository, name)
    if found is None:
        raise CannotTellError(f"{repository} has no commit {name!r}")
    return found


def _recorded(runs: AsvRuns, commit: str) -> Commit:
    found = queries.find_commit(runs.store, runs.project, commit)
    if found is None:
        raise GateError(f"asv recorded nothing at {commit[:8]}: does --bench name any benchmark, and does it build?")
    return found


def _noted(done: Gate) -> Check:
    """The check, which says where a change is not confirmed."""
    changed = done.check.count(Verdict.REGRESSED) + done.check.count(Verdict.IMPROVED)
    if done.runs >= SETTLES or not changed:
        return done.check
    note = "what changed was measured twice at each commit: a third run would confirm it"
    return replace(done.check, notes=(*done.check.notes, note))


def _say(line: str) -> None:
    click.echo(line, err=True)


def _cost(done: Gate) -> str:
    still_open = f" ({done.check.count(Verdict.INCONCLUSIVE)} series open)" if done.spent else ""
    return f"Up to {done.runs} runs of each commit in {done.seconds / 60:.1f} min; {END_REASONS[done.end]}{still_open}."
