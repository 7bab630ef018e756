"""`warpwatch push`: what asv measured here goes to a dashboard, now or when it is there again."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from warpwatch.dashboard.importers.asv_folder import NoResultsError, asv_project, project_name

from ..policy.committed_policy import limits_stated_in
from ..policy.policy_file import PolicyError
from ..retries import UnavailableError
from .queue import default_spool, spool_for
from .sender import Sent
from .sender import push as push_results
from .sender import watch as watch_results
from .upload import RefusedError, SettingsError, TooLargeError, Upload, check_server

# The limits that go with the results, so that the dashboard judges by the project's own rules.


def state_limits(results: Path, upload: Upload, say: Callable[[str], None]) -> None:
    """Sends what the file above the results states. What is in the way is said: the results are in, and the next push
    states it again."""
    try:
        stated = limits_stated_in(results)
        if stated is not None:
            upload.state(stated)
    except (PolicyError, OSError, UnavailableError, RefusedError, SettingsError, TooLargeError) as error:
        say(f"warning: the dashboard is not told by which limits to judge: {error}")


SET_ASIDE = 3  # exit status of a push of which the server left files out, as `import`'s


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
    help="Holds the token (warpwatch token create); default: what WARPWATCH_TOKEN says.",
)
@click.option("--watch", is_flag=True, help="Go on: send results as they come, until this is ended.")
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=120,
    show_default=True,
    metavar="SECONDS",
    help="How long to try while the server is away; what is left waits for the next push.",
)
@click.option("--again", is_flag=True, help="Send everything, also what was sent or set aside before.")
@click.option(
    "--spool",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="WARPWATCH_SPOOL",
    help="Folder of the queues; else WARPWATCH_SPOOL, else ~/.local/state/warpwatch/push.",
)
@click.option("--json", "as_json", is_flag=True, help="Tell for programs what the server took.")
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
    as_json: bool,
) -> None:
    """Send asv's results to a dashboard: what is new or changed since the last push.

    RESULTS is a folder with asv.conf.json, or a results folder; default: here. Files are queued on disk first, and
    leave the queue when the server has said that it took them: this may be killed at any moment, and run as often as
    you like. With them goes what the warpwatch.toml above RESULTS says of the changes that count, as its newest commit
    has it, so that the dashboard judges by it. Exit status: 0 the server has all results, 1 something waits (the next
    push sends it), 3 the server set files aside; they are kept beside the queue with its reasons.
    """
    say = _say_to_stderr
    try:
        folder, name = _results(results, project)
        if not watch and not folder.is_dir():
            raise click.ClickException(f"{folder} does not exist: has asv run yet?")
        upload = Upload(server=check_server(server), project=name, token=_token(token_file))
        if upload.is_in_the_clear:
            say(f"warning: {upload.server} has no TLS: everybody on the way can read the token")
        queue = spool_for(spool or default_spool(), upload.server, name)

        def tell(sent: Sent) -> None:
            _tell(sent, name, as_json)
            state_limits(folder, upload, say)

        if watch:
            say(f"sending what comes to {folder} to {upload.url}")
            watch_results(folder, queue, upload, every_s=every, say=say, tell=tell)
            return
        sent = Sent()
        try:
            push_results(folder, queue, upload, sent, patience_s=patience, again=again, say=say)
        finally:
            is_news = bool(as_json or sent.taken or sent.set_aside)
            if is_news:
                _tell(sent, name, as_json)
        if not sent.waiting:
            if not is_news:
                _tell(sent, name, as_json)
            state_limits(folder, upload, say)
    except (SettingsError, NoResultsError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise click.ClickException(
            f"cannot read the results or write the queue:{where}: {error.strerror}. Nothing is "
            "lost; once that is mended push again"
        ) from error
    if sent.waiting:
        raise click.ClickException(
            f"{sent.waiting} parcel{'s' if sent.waiting > 1 else ''} not sent; kept in "
            f"{queue.folder}, and the next push sends them"
        )
    if sent.set_aside:
        say(f"what was set aside is kept in {queue.refused}; --again sends it once more")
        sys.exit(SET_ASIDE)


def _results(path: Path, project: str | None) -> tuple[Path, str]:
    """The results folder, which need not be there yet, and the project's name."""
    conf = path if path.is_file() else path / "asv.conf.json"
    if not conf.is_file():
        return path, project or project_name(path.resolve())
    told = asv_project(conf)
    return told.results, project or told.name or project_name(told.results.resolve())


def _token(file: Path | None) -> str:
    if file is not None:
        try:
            said = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read the token from {file}: {error}") from error
        source = str(file)
    else:
        said, source = os.environ.get("WARPWATCH_TOKEN", "").strip(), "WARPWATCH_TOKEN"
    if not said:
        raise SettingsError(
            f"no token: {source} is empty. On the dashboard's machine: warpwatch token create "
            "--project NAME --name RUNNER"
        )
    if not said.isascii() or not said.isprintable() or " " in said:
        raise SettingsError(f"what {source} holds is no token; wanted one line as warpwatch token create prints it")
    return said


def _tell(sent: Sent, project: str, as_json: bool) -> None:
    """What the server says that it took."""
    for line in sent.set_aside:
        click.echo(f"set aside: {line}", err=True)
    for taken in sent.taken:
        for line in taken.warnings:
            click.echo(f"warning: {line}", err=True)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "project": project,
                    "files": sent.files,
                    "unchanged": sent.unchanged,
                    "points": sent.points,
                    "set_aside": sent.set_aside,
                    "waiting": sent.waiting,
                    "parcels": [asdict(each) for each in sent.taken],
                }
            )
        )
        return
    click.echo(
        f"{project}: the dashboard took {sent.files} files, {sent.unchanged} of them unchanged, with {sent.points} new "
        f"points; {len(sent.set_aside)} set aside"
    )


def _say_to_stderr(line: str) -> None:
    click.echo(line, err=True)
