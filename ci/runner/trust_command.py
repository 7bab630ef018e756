"""`warpwatch runner trust`: one commit measured again and again here, and how far its numbers can be trusted."""

import json
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.ci.gate.asv_runs import AsvRuns, GateError
from warpwatch.ci.host_lock import HostLockError, gpu_lock
from warpwatch.ci.runner.trust_report import TrustError, as_json, as_text, measure_again, store_of, trust_report
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name
from warpwatch.dashboard.importers.git_history import resolve
from warpwatch.dashboard.opening import CannotTellError, open_or_create_store, open_store, read_settings


@click.command()
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
              help="Of asv.conf.json; default: here.")  # fmt: skip
@click.option("--commit", "name", default="HEAD", show_default=True, help="What is measured.")
@click.option(
    "--runs", type=click.IntRange(0), default=4, show_default=True, help="0: report what was measured before."
)
@click.option("--bench", "patterns", multiple=True, metavar="REGEX", help="As asv's; default: everything.")
@click.option("--database", metavar="URL", help="Default: .asv/trust.db beside asv's results.")
@click.option("--json", "as_json_", is_flag=True, help="For programs.")
def trust(
    folder: Path, name: str, runs: int, patterns: tuple[str, ...], database: str | None, as_json_: bool
) -> None:  # fmt: skip
    """Measure one commit repeatedly (A/A).

    Reports false alarms, the smallest detectable changes, clocks and throttling. Equal code must compare as equal: what
    is told changed is a false alarm. Exit status: 0 reported, 2 nothing can be told.
    """
    try:
        conf = asv_project(folder / "asv.conf.json")
        commit = resolve(conf.repository, name) if conf.repository else None
        if commit is None:
            raise CannotTellError(f"{folder} is no git repository with a commit {name!r}")
        (folder / ".asv").mkdir(exist_ok=True)
        store = (open_or_create_store if runs else open_store)(database or store_of(folder))
        project = conf.name or project_name(conf.results.resolve())
        series = AsvRuns(folder=folder, store=store, project=project, patterns=patterns)
        if runs:
            with gpu_lock(say=_say) as held:
                measure_again(replace(series, held=held.descriptors), commit, runs, _say)
        report = trust_report(store, project, commit, threshold=read_settings().threshold)
    except (GateError, HostLockError, NoResultsError, TrustError) as error:
        raise CannotTellError(str(error)) from error
    store.close()
    click.echo(json.dumps(as_json(report), indent=1) if as_json_ else as_text(report))


def _say(line: str) -> None:
    click.echo(line, err=True)
