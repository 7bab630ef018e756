"""`warpwatch forge report-gate`: report gate artefacts as comments, check runs and texts."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.dashboard.cli.output import OutputFile, write
from warpwatch.dashboard.cli.store_access import CannotTellError

from ..forges.forge_request import ForgeError, with_retries
from ..forges.pull_request_address import Address, workflow_run_url
from ..forges.replies import replies_of
from ..forges.sticky_comment import PostOutcome, Thread, put_comment
from ..gate.artefact import ArtefactError, GateArtefact, read_artefact
from .comment import GITHUB_MOST, GITLAB_MOST, SUMMARY_MOST, check_run, markdown
from .gate_labels import Links, with_replies

_TEXTS = {
    "comment": lambda artefacts, links: markdown(artefacts, links, GITHUB_MOST),
    "summary": lambda artefacts, links: markdown(artefacts, links, SUMMARY_MOST),
}
_FORGES = ("github", "github-comment", "github-check", "gitlab")
_MOST_MACHINES = 16
_STALE = 3
_BLOCKS = 4


class _RefusedError(click.ClickException):
    """The forge refused a report."""

    exit_code = 1


@click.command()
@click.argument("paths", nargs=-1, metavar="ARTEFACT...", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--to",
    "targets",
    multiple=True,
    type=click.Choice([*_FORGES, *_TEXTS]),
    help="Kind of report; repeatable. github: comment and check run.",
)
@click.option("--repository", metavar="OWNER/NAME", help="Default: GITHUB_REPOSITORY, or CI_PROJECT_PATH.")
@click.option("--pull-request", type=click.IntRange(1), metavar="N", help="Default on GitLab: CI_MERGE_REQUEST_IID.")
@click.option("--head", metavar="HASH", help="Expected commit; artefacts of others are refused.")
@click.option(
    "--author", metavar="LOGIN", help="The token's user, if the token may not read it; default in a workflow: its bot."
)
@click.option("--replies", is_flag=True, help="Apply `/warpwatch accept <glob> <why>` of users with write access.")
@click.option("--dashboard", metavar="URL", help="Address of the dashboard, for links.")
@click.option("--output", type=OutputFile(), help="File for a text; default: standard output.")
@click.option("--fail-if-blocking", is_flag=True, help="Exit with 4 if the gate blocks.")
def report_gate(
    paths: tuple[Path, ...],
    targets: tuple[str, ...],
    repository: str | None,
    pull_request: int | None,
    head: str | None,
    author: str | None,
    replies: bool,
    dashboard: str | None,
    output: Path | None,
    fail_if_blocking: bool,
) -> None:
    """Report artefacts of `warpwatch gate --artefact`, one per machine.

    Reads tokens from GITHUB_TOKEN and GITLAB_TOKEN. Comments and check runs are created once and changed in place.
    Exit status: 0 reported, or already reported; 1 the forge refused, or was unavailable; 2 an artefact that is invalid
    or of another commit, or wrong options; 3 the pull request has a newer head; 4 with --fail-if-blocking: reported and
    blocking.
    """
    artefacts = _read(paths, head)
    texts = [target for target in targets if target in _TEXTS]
    forges = [target for target in targets if target in _FORGES]
    if not targets:
        raise click.UsageError(f"give --to {', --to '.join([*_FORGES, *_TEXTS])}")
    if len(texts) > 1 and output is not None:
        raise click.UsageError(f"--output takes one text, not {', '.join(texts)}")
    address, links = (
        Address(repository=repository, pull_request=pull_request, author=author),
        Links(dashboard=dashboard),
    )
    refused: list[str] = []
    stale = False
    if replies:
        if not forges:
            raise click.UsageError("--replies needs --to github or --to gitlab")
        try:
            artefacts = _with_replies(address, artefacts, forges)
        except ForgeError as error:
            refused.append(f"replies are ignored: {error}")
    for forge in forges:
        try:
            stale |= _report(forge, address, artefacts, links, head)
        except ForgeError as error:
            refused.append(str(error))
    for name in texts:
        _write(name, _TEXTS[name](artefacts, links), output)
    if refused:
        raise _RefusedError("; ".join(dict.fromkeys(refused)))
    if stale:
        raise SystemExit(_STALE)
    if fail_if_blocking and any(each.is_blocking for each in artefacts):
        click.echo("this blocks merging: see the report", err=True)
        raise SystemExit(_BLOCKS)


def _read(paths: Sequence[Path], head: str | None) -> list[GateArtefact]:
    if not 1 <= len(paths) <= _MOST_MACHINES:
        raise click.UsageError(f"give the files of `warpwatch gate --artefact`, {_MOST_MACHINES} at most")
    try:
        artefacts = [read_artefact(path) for path in paths]
    except ArtefactError as error:
        raise CannotTellError(str(error)) from error
    ends = {(each.base.hash, each.head.hash) for each in artefacts}
    if len(ends) > 1:
        raise CannotTellError("the artefacts are of several pairs of commits; report each pair separately")
    if head is not None and artefacts[0].head.hash != head:
        raise CannotTellError(f"the artefact is of {artefacts[0].head.hash}, not of {head}")
    return artefacts


def _with_replies(address: Address, artefacts: list[GateArtefact], forges: Sequence[str]) -> list[GateArtefact]:
    thread = address.gitlab() if forges[0] == "gitlab" else address.github()
    replies = replies_of(thread, artefacts[0].head.hash)
    for sentence in replies.refused:
        click.echo(f"reply ignored: {sentence}", err=True)
    return [with_replies(each, replies.accepted, replies.expired) for each in artefacts]


def _report(forge: str, address: Address, artefacts: list[GateArtefact], links: Links, head: str | None) -> bool:
    """Report to one forge; returns whether the pull request has a newer head."""
    if forge == "gitlab":
        return _comment(address.gitlab(), artefacts, markdown(artefacts, links, GITLAB_MOST))
    if address.pull_request is None and (forge != "github-check" or head is None):
        raise click.UsageError(f"--to {forge} needs --pull-request N (github-check: or --head HASH)")
    thread = address.github()
    newest = head or with_retries(thread.head)
    if newest != artefacts[0].head.hash:
        # The artefact is untrusted: it sets no check run on another commit than the expected one.
        click.echo(
            f"stale: the pull request is at {newest[:8]}, the artefact is of {artefacts[0].head.hash[:8]}", err=True
        )
        return True
    failed: ForgeError | None = None
    if forge != "github-comment":
        try:
            for each in artefacts:
                is_new = thread.put_check_run(replace(check_run(each, links), details_url=workflow_run_url()))
                click.echo(f"check run {'created' if is_new else 'unchanged'}", err=True)
        except ForgeError as error:  # the comment may still succeed
            failed = error
    is_stale = forge != "github-check" and _comment(thread, artefacts, markdown(artefacts, links, GITHUB_MOST))
    if failed is not None:
        raise failed
    return is_stale


def _comment(thread: Thread, artefacts: list[GateArtefact], text: str) -> bool:
    outcome = put_comment(thread, artefacts[0].head.hash, text)
    click.echo(f"comment {outcome.value}", err=True)
    return outcome is PostOutcome.STALE


def _write(name: str, text: str, output: Path | None) -> None:
    summary = os.environ.get("GITHUB_STEP_SUMMARY") if name == "summary" else None
    if output is None and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        write(text, output)
