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
from .events import Event, asked
from .repository import Repository

_KEY = "code"  # beside the gate's comment


@click.command("report-code")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def report_code(file: Path) -> None:
    """Comment what `warpwatch compare --code --format json` wrote on the pull request whose build has ended.

    For a workflow that the end of a build starts (workflow_run): the pull request is GitHub's word, not the file's. The
    comment is made once and changed in place; nothing is said of a commit that is no longer the newest. Exit status: 0
    told, or nothing to tell; 1 GitHub refused; 2 the file is none that it writes, or of another commit.
    """
    try:
        told = read_model(CodeComparison, file, made_by="warpwatch compare --code")
        wanted = asked(Event.of_workflow(), Repository.of_workflow())
        if wanted is None:
            click.echo("the build was of no open pull request's newest commit")
            return
        pull = wanted.pull_request
        if told.head != pull.head:
            raise CannotTellError(f"{file} tells of {told.head}, and {pull.head} was built")
        thread = Address(repository=None, pull_request=pull.number).github()
        outcome = put_comment(thread, _KEY, pull.head, as_markdown(told))
    except CodeFileError as error:
        raise CannotTellError(str(error)) from error
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{outcome.value}: {headline(told)}")
