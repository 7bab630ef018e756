"""`warpwatch forge conclude-gate`: sets the final check run of a gate's workflow."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from ..forges.forge_request import ForgeError, with_retries
from ..forges.github import GitHubThread
from ..forges.pull_request_address import Address, workflow_run_url
from ..forges.replies import replies_of
from ..gate.artefact import ArtefactError, GateArtefact, read_artefact
from ..policy.policy_file import FILE_NAME, PolicyError, parse_policy
from ..policy.policy_model import Inconclusive, Policy
from ..reports.gate_labels import with_replies
from .events import Event, head_of
from .gate_plan import GateState, measured, not_measured
from .repository import Repository

_NO_REASON = "the workflow failed before it could decide; see its log, and run it again"


@click.command("conclude-gate")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--gpus", required=True, metavar="JSON", help="Labels of the runners that should have measured.")
@click.option(
    "--pull-request",
    type=click.IntRange(1),
    metavar="N",
    help="Pull request whose replies `/warpwatch accept …` count.",
)
@click.option("--head", metavar="HASH", help="The pull request's commit; default: the event's.")
@click.option(
    "--state",
    type=click.Choice([*map(str, GateState), ""]),
    required=True,
    help="State by `plan-gate`; empty or error: it failed.",
)
@click.option("--reason", default="", help="Reason by `plan-gate`.")
@click.option(
    "--run",
    metavar="ID",
    envvar="GITHUB_RUN_ID",
    help="Workflow run of the artefacts; else GITHUB_RUN_ID.",
)
def conclude_gate(
    folder: Path, gpus: str, pull_request: int | None, head: str | None, state: str, reason: str, run: str | None
) -> None:
    """Set the check `warpwatch gate` of a commit, whether it was measured or not.

    FOLDER has a file gate-LABEL.json of each machine that measured. If --gpus is empty, `[gate] inconclusive` of the
    default branch's warpwatch.toml decides. Reads GITHUB_TOKEN and GITHUB_REPOSITORY. Exit status: 0 set, or set
    before; 1 GitHub refused.
    """
    labels = _labels(gpus)
    try:
        commit = head or head_of(Event.of_workflow())
        thread = Address(repository=None, pull_request=pull_request).github()
        if state == GateState.MEASURE:
            artefacts = {name: each for name in labels if (each := _artefact(folder, name))}
            if len(artefacts) < len(labels) and pull_request is not None and _is_superseded(thread, commit):
                check = not_measured(commit, GateState.CANCELLED, "the pull request has a newer commit")
            else:
                inconclusive = _inconclusive(Repository.of_workflow()) if not labels else "neutral"
                check = measured(commit, labels, _with_replies(thread, commit, artefacts), inconclusive)
                check = replace(check, workflow_run=run)
        else:
            check = not_measured(commit, GateState(state or GateState.ERROR), reason or _NO_REASON)
        thread.put_check_run(replace(check, details_url=workflow_run_url(run)))
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{check.conclusion}: {check.title}")


def _is_superseded(thread: GitHubThread, head: str) -> bool:
    """Whether the pull request has a newer head; False if GitHub does not answer."""
    try:
        return with_retries(thread.head) != head
    except ForgeError:
        return False


def _labels(text: str) -> list[str]:
    try:
        labels = json.loads(text)
    except ValueError:
        labels = None
    if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
        raise click.UsageError(f"--gpus {text!r}: expected a JSON list of labels")
    return labels


def _inconclusive(repository: Repository) -> Inconclusive:
    """`[gate] inconclusive` of the default branch, else the default."""
    content = repository.file(FILE_NAME)
    try:
        policy = parse_policy(content, FILE_NAME) if content is not None else Policy()
    except PolicyError as error:
        click.echo(f"the defaults count, as the default branch's policy is invalid: {error}", err=True)
        policy = Policy()
    return policy.gate.inconclusive


def _with_replies(thread: GitHubThread, head: str, artefacts: Mapping[str, GateArtefact]) -> Mapping[str, GateArtefact]:
    """The artefacts with replies applied; without, if the replies cannot be read, so that the check is always set."""
    try:
        replies = replies_of(thread, head)
    except ForgeError as error:
        click.echo(f"replies are ignored: {error}", err=True)
        return artefacts
    for sentence in replies.refused:
        click.echo(f"reply ignored: {sentence}", err=True)
    return {name: with_replies(each, replies.accepted, replies.expired) for name, each in artefacts.items()}


def _artefact(folder: Path, label: str) -> GateArtefact | None:
    """The artefact of a machine; None if it is missing or invalid."""
    path = folder / f"gate-{label}.json"
    if not path.exists():
        return None
    try:
        return read_artefact(path)
    except ArtefactError as error:
        click.echo(str(error), err=True)
        return None
