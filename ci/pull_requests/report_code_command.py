"""`warpwatch forge report-code`: comments a build's comparison of compiled code on its pull request."""

from pathlib import Path

import click

from warpwatch.dashboard.cli.store_access import CannotTellError

from ..code.code_comparison import CodeComparison
from ..code.code_report import as_markdown, headline
from ..code.compiled_facts import CodeFileError, read_model
from ..forges.pull_request_address import Address
from ..forges.retries import ForgeError
from ..forges.sticky_comment import put_comment
from .events import Event, event_commit
from .repository import Repository

_KEY = "code"  # of the comment; the gate's comment has another


@click.command("report-code")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def report_code(file: Path) -> None:
    """Comment a comparison by `warpwatch compare --code --format json` on the pull request whose build has ended.

    For a workflow that the end of a build starts (workflow_run): the pull request comes from GitHub, not from the file.
    The comment is created once and changed in place, for the newest commit only. Exit status: 0 reported, or nothing
    to report; 1 GitHub refused; 2 the file is invalid, or of another commit.
    """
    try:
        comparison = read_model(CodeComparison, file, made_by="warpwatch compare --code")
        commit = event_commit(Event.of_workflow(), Repository.of_workflow())
        if commit is None:
            click.echo("the build was not of the newest commit of an open pull request")
            return
        pull = commit.pull_request
        if comparison.head != pull.head:
            raise CannotTellError(f"{file} is of {comparison.head}, but {pull.head} was built")
        thread = Address(repository=None, pull_request=pull.number).github()
        outcome = put_comment(thread, _KEY, pull.head, as_markdown(comparison))
    except CodeFileError as error:
        raise CannotTellError(str(error)) from error
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{outcome.value}: {headline(comparison)}")
