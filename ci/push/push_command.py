"""`warpwatch push`: sends asv's results to a dashboard."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from warpwatch.dashboard.cli.output import say
from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name

from ..policy.committed_policy import limits_stated_in
from ..policy.policy_file import PolicyError
from ..retries import UnavailableError
from .queue import default_queue_folder, open_queue
from .upload import PushResult, SettingsError, Upload, UploadRefusedError, UploadTooLargeError, check_server
from .upload import push as push_results
from .upload import watch as watch_results


def state_limits(results: Path, upload: Upload, say: Callable[[str], None]) -> None:
    """Sends the thresholds of the policy file above the results. An error is a warning: the next push retries."""
    try:
        stated = limits_stated_in(results)
        if stated is not None:
            upload.state(stated)
    except (PolicyError, OSError, UnavailableError, UploadRefusedError, SettingsError, UploadTooLargeError) as error:
        say(f"warning: the thresholds of the policy file were not sent: {error}")


SET_ASIDE = 3  # exit status of a push with rejected files, as `import`'s


@click.command()
@click.argument("results", type=click.Path(path_type=Path), default=".")
@click.option(
    "--to",
    "server",
    metavar="URL",
    envvar="WARPWATCH_URL",
    required=True,
    help="The dashboard's address; else WARPWATCH_URL.",
)
@click.option("--project", metavar="NAME", help="Default: asv.conf.json's project, else the folder's name.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token (warpwatch token create); default: WARPWATCH_TOKEN.",
)
@click.option("--watch", is_flag=True, help="Keep running and send results as they appear.")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Interval of --watch.",
)
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long to retry while the server is away; the next push sends the rest.",
)
@click.option("--again", is_flag=True, help="Send everything again, rejected files too.")
@click.option(
    "--spool",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="WARPWATCH_SPOOL",
    help="Folder of the queues; else WARPWATCH_SPOOL, else ~/.local/state/warpwatch/push.",
)
def push(
    results: Path,
    server: str,
    project: str | None,
    token_file: Path | None,
    watch: bool,
    every: float,
    patience: float,
    again: bool,
    spool: Path | None,
) -> None:
    """Send results of asv that are new or changed since the last push to a dashboard.

    RESULTS is a folder with asv.conf.json, or a results folder; default: here. Files are queued on disk, and leave the
    queue when the server has confirmed them, so push may be killed and repeated at any time. The thresholds of the
    warpwatch.toml above RESULTS are sent too, as of its newest commit. Exit status: 0 the server has all results, 1
    some are still queued (the next push sends them), 3 the server rejected files, which are stored next to the queue
    with the reasons.
    """
    try:
        folder, name = _results(results, project)
        if not watch and not folder.is_dir():
            raise click.ClickException(f"{folder} does not exist: has asv run yet?")
        upload = Upload(server=check_server(server), project=name, token=_token(token_file))
        if upload.is_unencrypted:
            say(f"warning: {upload.server} has no TLS: the token is readable in transit")
        queue = open_queue(spool or default_queue_folder(), upload.server, name)

        def report(sent: PushResult) -> None:
            _report(sent, name)
            state_limits(folder, upload, say)

        if watch:
            say(f"sending results of {folder} to {upload.url}")
            watch_results(folder, queue, upload, every_s=every, say=say, report=report)
            return
        sent = PushResult()
        try:
            push_results(folder, queue, upload, sent, patience_s=patience, again=again, say=say)
        finally:
            is_reported = bool(sent.accepted or sent.set_aside)
            if is_reported:
                _report(sent, name)
        if not sent.waiting:
            if not is_reported:
                _report(sent, name)
            state_limits(folder, upload, say)
    except (SettingsError, NoResultsError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise click.ClickException(
            f"cannot read the results or write the queue:{where}: {error.strerror}. Nothing is "
            "lost; fix it and push again"
        ) from error
    if sent.waiting:
        raise click.ClickException(
            f"{sent.waiting} batch{'es' if sent.waiting > 1 else ''} not sent; queued in "
            f"{queue.folder}, and the next push sends them"
        )
    if sent.set_aside:
        say(f"rejected files are in {queue.refused}; --again sends them again")
        sys.exit(SET_ASIDE)


def _results(path: Path, project: str | None) -> tuple[Path, str]:
    """The results folder, which may not exist yet, and the project's name."""
    conf = path if path.is_file() else path / "asv.conf.json"
    if not conf.is_file():
        return path, project or project_name(path.resolve())
    asv = asv_project(conf)
    return asv.results, project or asv.name or project_name(asv.results.resolve())


def _token(file: Path | None) -> str:
    if file is not None:
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read the token from {file}: {error}") from error
        source = str(file)
    else:
        text, source = os.environ.get("WARPWATCH_TOKEN", "").strip(), "WARPWATCH_TOKEN"
    if not text:
        raise SettingsError(
            f"no token: {source} is empty. On the dashboard's machine: warpwatch token create "
            "--project NAME --name RUNNER"
        )
    if not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"{source} has no token; expected one line as printed by warpwatch token create")
    return text


def _report(sent: PushResult, project: str) -> None:
    """Prints what the server accepted."""
    for line in sent.set_aside:
        click.echo(f"set aside: {line}", err=True)
    for batch in sent.accepted:
        for line in batch.warnings:
            click.echo(f"warning: {line}", err=True)
    click.echo(
        f"{project}: the dashboard accepted {sent.files} files, {sent.unchanged} of them unchanged, with "
        f"{sent.points} new points; {len(sent.set_aside)} set aside"
    )
