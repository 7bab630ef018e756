"""`warpwatch runner`: the group of commands for runners."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.dashboard.cli.output import say
from warpwatch.dashboard.cli.store_access import CannotTellError, open_or_create_store, open_store, read_settings
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name
from warpwatch.dashboard.importers.git import resolve

from ..asv_checkout import AsvRuns, GateError, asv_checkout
from ..host_lock import HostLockError, gpu_lock, with_gpu_lock
from ..options import folder_option
from ..policy.policy_file import find_policy, read_usable_policy
from ..policy.policy_model import Policy
from ..push.batch import RunArchiveError, archive_run
from .clock_lock import locked, reset
from .confirmation import Confirmation, day_budget
from .register_command import register
from .setup_command import setup
from .trust_report import TrustError, as_text, measure_again, store_of, trust_report

# `warpwatch runner measure`, which a runner's timer calls.

_SOME_FAILED = 2  # asv's status if a benchmark failed, which it records


@click.command()
@folder_option
@click.option(
    "--commits",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Number of newest commits; those measured here before are skipped.",
)
@click.option("--rerun-newest", is_flag=True, help="Measure the newest again: runs of one commit show the noise.")
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="As asv's; repeatable.")
@click.option("--no-fetch", is_flag=True, help="Do not fetch from the remote.")
@click.option(
    "--confirm",
    is_flag=True,
    help="Compare each commit with the one before, and measure suspicious series of both again at once, in turns; at "
    "most [confirm] minutes_per_day of warpwatch.toml, else 120.",
)
@click.option(
    "--database", metavar="URL", help="Of --confirm: sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE."
)
def measure(
    folder: Path,
    commits: int,
    rerun_newest: bool,
    patterns: tuple[str, ...],
    no_fetch: bool,
    confirm: bool,
    database: str | None,
) -> None:
    """Update the checkout and measure its newest commits.

    Results go to .asv/results; `warpwatch push` sends them, and every run that --confirm adds. Call it with the GPU's
    lock: `warpwatch runner with-gpu-lock warpwatch runner measure`.
    """
    if not no_fetch:
        _git(folder, "fetch", "--quiet")
        _git(folder, "merge", "--quiet", "--ff-only", "@{upstream}")
    newest = _git(folder, "rev-list", "--first-parent", f"--max-count={commits}", "HEAD").split()
    benches = [word for pattern in patterns for word in ("--bench", pattern)]
    if confirm:
        _measure_and_confirm(folder, newest, rerun_newest, patterns, benches, database)
        return
    if rerun_newest:
        _asv(folder, "run", "--record-samples", *benches, f"{newest[0]}^!")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(newest) + "\n")
        file.flush()
        _asv(folder, "run", "--record-samples", "--skip-existing", *benches, f"HASHFILE:{file.name}")


def _measure_and_confirm(
    folder: Path,
    newest: Sequence[str],
    rerun_newest: bool,
    patterns: tuple[str, ...],
    benches: Sequence[str],
    database: str | None,
) -> None:
    """Measures the commits from the oldest on, and confirms suspicions after each."""
    failed = []
    try:
        confirmation = _confirmation(folder, patterns, database)
        confirmation.runs.import_earlier()
        for commit in reversed(newest):
            is_rerun = rerun_newest and commit == newest[0]
            if is_rerun:
                archive_run(confirmation.results, commit)
            before = confirmation.newest_run(commit)
            began = time.monotonic()
            try:
                skipping = () if is_rerun else ("--skip-existing",)
                _asv(folder, "run", "--record-samples", *skipping, *benches, f"{commit}^!")
            except click.ClickException:  # asv has printed why; a later commit may build
                failed.append(commit[:8])
                continue
            measured_s = time.monotonic() - began
            confirmation.runs.import_earlier()
            if confirmation.newest_run(commit) == before and commit != newest[0]:
                continue  # the newest commit's confirmation may have been interrupted
            try:
                confirmation.confirm(commit, measured_s)
            except GateError as error:  # the results are stored; the other commits are measured
                say(f"{commit[:8]}: no further runs: {error}")
        confirmation.runs.store.close()
    except (RunArchiveError, HostLockError, NoResultsError) as error:
        raise CannotTellError(str(error)) from error
    if failed:
        raise click.ClickException(f"asv could not measure {', '.join(failed)}; its output above has the reasons")


def _confirmation(folder: Path, patterns: tuple[str, ...], database: str | None) -> Confirmation:
    asv = asv_checkout(folder)
    return Confirmation(
        runs=AsvRuns(folder=folder, store=open_or_create_store(database), project=asv.project, patterns=patterns),
        repository=asv.repository,
        results=asv.results,
        machine=asv.machine,
        budget=day_budget(_policy(folder).confirm.minutes_per_day),
        say=say,
    )


def _policy(folder: Path) -> Policy:
    """The policy of the checkout; the defaults, with a warning, for invalid tables."""
    path = find_policy(folder)
    policy, fault = read_usable_policy(path) if path is not None else (Policy(), None)
    if fault is not None:
        say(f"warning: {fault}\nThe defaults are used for these tables.")
    return policy


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"git {' '.join(words)} in {folder}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _asv(folder: Path, *words: str) -> None:
    """Runs asv, whose output goes to the terminal or journal."""
    done = subprocess.run([sys.executable, "-m", "asv", *words], cwd=folder)
    if done.returncode not in (0, _SOME_FAILED):
        raise click.ClickException(f"asv {words[0]} ended with {done.returncode}")


# `warpwatch runner trust`: the A/A test.


@click.command()
@folder_option
@click.option("--commit", "name", default="HEAD", show_default=True, help="Commit to measure.")
@click.option("--runs", type=click.IntRange(0), default=4, show_default=True, help="0: only report earlier runs.")
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="As asv's; default: all.")
@click.option("--database", metavar="URL", help="Default: .asv/trust.db.")
def trust(folder: Path, name: str, runs: int, patterns: tuple[str, ...], database: str | None) -> None:
    """Measure one commit repeatedly (A/A test).

    Reports false alarms (equal code reported as changed), the smallest detectable changes, clocks and throttling. Exit
    status: 0 reported, 2 no data for a report.
    """
    try:
        conf = asv_project(folder / "asv.conf.json")
        commit = resolve(conf.repository, name) if conf.repository else None
        if commit is None:
            raise CannotTellError(f"{folder} is no git repository with a commit {name!r}")
        (folder / ".asv").mkdir(exist_ok=True)
        store = (open_or_create_store if runs else open_store)(database or store_of(folder))
        project = conf.name or project_name(conf.results.resolve())
        runner = AsvRuns(folder=folder, store=store, project=project, patterns=patterns)
        if runs:
            with gpu_lock(say=say) as lock:
                measure_again(replace(runner, lock_descriptors=lock.descriptors), commit, runs, say)
        report = trust_report(store, project, commit, threshold=read_settings().threshold)
    except (GateError, HostLockError, NoResultsError, TrustError) as error:
        raise CannotTellError(str(error)) from error
    store.close()
    click.echo(as_text(report))


@click.group()
def runner() -> None:
    """Set this machine up to measure, and measure."""


for _command in (setup, trust, measure, with_gpu_lock, register, locked, reset):
    runner.add_command(_command)
