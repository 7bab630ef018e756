"""`warpwatch runner register`: this machine is a GitHub Actions runner for one job, by a just-in-time configuration.

GitHub's REST API, "Create configuration for a just-in-time runner" for a repository or an organization. The token wants
the repository's permission "Administration: write", or the organization's "Self-hosted runners: write". Jobs must never
see it; what it makes is good for one job alone.
"""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import requests

_API = "https://api.github.com"
_VERSION = "2022-11-28"
_TIMEOUT_S = 30
_FIRST_S, _LONGEST_S = 15.0, 300.0
_DEFAULT_GROUP = 1
# What the runner's program reads for --jitconfig, and clears before a job (actions/runner, CommandSettings).
_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"


class RegistrationError(Exception):
    """GitHub gave no configuration; the message says why."""


class AwayError(RegistrationError):
    """For now: the same again later may do."""


@click.command()
@click.option("--repository", required=True, metavar="OWNER/NAME", help="Or an organization alone.")
@click.option("--group", type=click.IntRange(1), default=_DEFAULT_GROUP, metavar="NUMBER",
              help="Of an organization's runner group, which says what workflows may use it.")  # fmt: skip
@click.option("--label", "labels", multiple=True, required=True, help="Such as gpu-t4; may be given several times.")
@click.option("--token-file", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="A GitHub token that may administer the repository (Administration: write).")  # fmt: skip
@click.option("--output", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="Environment file for the runner's service, mode 0600.")  # fmt: skip
@click.option("--api", default=_API, show_default=True, metavar="URL", help="GitHub Enterprise: https://HOST/api/v3.")
@click.option("--name", metavar="NAME", help="Of the runner; default: the host's and a random end.")
@click.option("--wait", is_flag=True, help="While GitHub is away, ask again until it answers.")
def register(
    repository: str, group: int, labels: tuple[str, ...], token_file: Path, output: Path, api: str, name: str | None,
    wait: bool,
) -> None:  # fmt: skip
    """Have GitHub make a runner of this machine for one job, and write what the runner's program needs."""

    def ask() -> str:
        # Each time another name: what was asked for last may have been made, and its answer lost.
        wanted = name or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        return just_in_time(api, repository, token, name=wanted, labels=labels, group=group)

    try:
        token = token_file.read_text().strip()
        configuration = patiently(ask, lambda line: click.echo(line, err=True)) if wait else ask()
    except (OSError, RegistrationError) as error:
        raise click.ClickException(str(error)) from error
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{_VARIABLE}={configuration}\n")
    click.echo(f"registered at {repository} for one job, with the labels {', '.join(labels)}")


def patiently(
    ask: Callable[[], str], say: Callable[[str], None], *, sleep: Callable[[float], None] = time.sleep
) -> str:
    """What it answers, once it does: asked again after pauses that double to five minutes."""
    pause = _FIRST_S
    while True:
        try:
            return ask()
        except AwayError as error:
            say(f"{error}; again in {pause:.0f} s")
            sleep(pause)
            pause = min(2 * pause, _LONGEST_S)


def just_in_time(api: str, repository: str, token: str, *, name: str, labels: tuple[str, ...], group: int) -> str:
    """The encoded configuration. Raises RegistrationError, AwayError where another time may do."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository):
        raise RegistrationError(f"the repository is {repository!r}; wanted OWNER/NAME, or an organization")
    of, right = ("repos", "Administration") if "/" in repository else ("orgs", "Self-hosted runners")
    url = f"{api.rstrip('/')}/{of}/{repository}/actions/runners/generate-jitconfig"
    body: dict[str, Any] = {
        "name": name,
        "runner_group_id": group,
        "labels": ["self-hosted", *labels],
        "work_folder": "_work",
    }
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json",
               "X-GitHub-Api-Version": _VERSION}  # fmt: skip
    try:
        answer = requests.post(url, json=body, headers=headers, timeout=_TIMEOUT_S)
        told = answer.json() if answer.content else {}
    except (requests.RequestException, ValueError) as error:
        raise AwayError(f"{url} does not answer as GitHub does: {error}") from error
    if answer.status_code >= 500 or answer.status_code == 429 or "Retry-After" in answer.headers:
        raise AwayError(f"GitHub answers {answer.status_code}: {told.get('message', 'no reason given')}")
    if answer.status_code in {401, 403, 404}:
        raise RegistrationError(f"GitHub answers {answer.status_code} ({told.get('message', '')}): the token wants the "
                                f"permission {right}: write for {repository}")  # fmt: skip
    configuration = told.get("encoded_jit_config")
    if answer.status_code != 201 or not isinstance(configuration, str) or not re.fullmatch(r"[\w+/=-]+", configuration):
        raise RegistrationError(f"GitHub answers {answer.status_code}: {told.get('message', 'no configuration in it')}")
    return configuration
