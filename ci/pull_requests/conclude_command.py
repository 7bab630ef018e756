"""`warpwatch forge conclude-gate`: the last word of a gate's workflow, a check run of a name that stays."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from warpwatch.ci.forges.address import Address, workflow_run_url
from warpwatch.ci.forges.github import GitHubThread
from warpwatch.ci.forges.replies import replies_of
from warpwatch.ci.forges.retrying import ForgeError, again
from warpwatch.ci.gate.artefact import ArtefactError, GateArtefact, Inconclusive, read_artefact
from warpwatch.ci.policy.policy import Policy
from warpwatch.ci.policy.reading import FILE_NAME, PolicyError, parse_policy
from warpwatch.ci.pull_requests.conclusion import measured, not_measured
from warpwatch.ci.pull_requests.events import Event, head_of
from warpwatch.ci.pull_requests.plan import State
from warpwatch.ci.pull_requests.repository import Repository
from warpwatch.ci.reports.accepted import with_replies

_KEY = "gate"  # report-gate's own, of the comment that replies answer
_NO_REASON = "the workflow failed before it could decide; its log says why. Run it again"


@click.command("conclude-gate")
@click.argument("found", type=click.Path(file_okay=False, path_type=Path))
@click.option("--gpus", required=True, metavar="JSON", help="Labels of the runners that were to measure.")
@click.option("--pull-request", type=click.IntRange(1), metavar="N",
              help="Whose replies `/warpwatch accept …` count.")  # fmt: skip
@click.option("--head", metavar="HASH", help="The pull request's commit; default: the one that the event is about.")
@click.option("--state", type=click.Choice([*map(str, State), ""]), required=True,
              help="As `plan-gate` said; empty or error: it could not.")  # fmt: skip
@click.option("--reason", default="", help="Likewise.")
@click.option("--run", metavar="ID", envvar="GITHUB_RUN_ID",
              help="The workflow's run whose artefacts these are; else GITHUB_RUN_ID.")  # fmt: skip
def conclude_gate(
    found: Path, gpus: str, pull_request: int | None, head: str | None, state: str, reason: str, run: str | None
) -> None:  # fmt: skip
    """Set the check `warpwatch gate` of a commit, whatever became of it.

    FOUND has a file gate-LABEL.json of each machine that measured. Where --gpus names none, `[gate] inconclusive` of
    the default branch's warpwatch.toml decides. Takes GITHUB_TOKEN and GITHUB_REPOSITORY.
    Exit status: 0 told, or told before; 1 GitHub refused.
    """
    labels = _labels(gpus)
    try:
        commit = head or head_of(Event.of_workflow())
        thread = Address(repository=None, pull_request=pull_request).github()
        if state == State.MEASURE:
            artefacts = {name: each for name in labels if (each := _artefact(found, name))}
            if len(artefacts) < len(labels) and pull_request is not None and _is_superseded(thread, commit):
                told = not_measured(commit, State.CANCELLED, "a newer commit of the pull request is there")
            else:
                inconclusive = _inconclusive(Repository.of_workflow()) if not labels else "neutral"
                told = measured(commit, labels, _with_replies(thread, commit, artefacts), inconclusive)
                told = replace(told, workflow_run=run)
        else:
            told = not_measured(commit, State(state or State.ERROR), reason or _NO_REASON)
        thread.put_check_run(replace(told, details_url=workflow_run_url(run)))
    except ForgeError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{told.conclusion}: {told.title}")


def _is_superseded(thread: GitHubThread, head: str) -> bool:
    """False where GitHub cannot be asked."""
    try:
        return again(thread.head) != head
    except ForgeError:
        return False


def _labels(text: str) -> list[str]:
    try:
        labels = json.loads(text)
    except ValueError:
        labels = None
    if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
        raise click.UsageError(f"--gpus {text!r}: wanted a JSON list of labels")
    return labels


def _inconclusive(repository: Repository) -> Inconclusive:
    """By the policy of the default branch; the defaults where it has none that can be used."""
    content = repository.file(FILE_NAME)
    try:
        policy = parse_policy(content, FILE_NAME) if content is not None else Policy()
    except PolicyError as error:
        click.echo(f"the defaults count, as the default branch's policy cannot be used: {error}", err=True)
        policy = Policy()
    return policy.gate.inconclusive


def _with_replies(
    thread: GitHubThread, head: str, artefacts: Mapping[str, GateArtefact]
) -> Mapping[str, GateArtefact]:  # fmt: skip
    """Without them where they cannot be read: a check that fails is better than one that is awaited for ever."""
    try:
        replies = replies_of(thread, _KEY, head)
    except ForgeError as error:
        click.echo(f"no reply counts: {error}", err=True)
        return artefacts
    for sentence in replies.refused:
        click.echo(f"does not count: {sentence}", err=True)
    return {name: with_replies(each, replies.accepted, replies.expired) for name, each in artefacts.items()}


def _artefact(found: Path, label: str) -> GateArtefact | None:
    """None where the machine left nothing, or nothing that is one."""
    path = found / f"gate-{label}.json"
    if not path.exists():
        return None
    try:
        return read_artefact(path)
    except ArtefactError as error:
        click.echo(str(error), err=True)
        return None
