"""`warpwatch runner register`: this machine is a GitHub Actions runner for one job, by a just-in-time configuration.

GitHub's REST API, "Create configuration for a just-in-time runner" for a repository or an organization. The token wants
the repository's permission "Administration: write", or the organization's "Self-hosted runners: write". Jobs must never
see it; what it makes is good for one job alone.

With `--wait` nothing that GitHub answers is final: during an incident it answers 401 and 404 too, and a service that
gives up stays off until somebody comes. Only settings with which no request can be made end it.
"""

import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

from ..retries import Backoff, UnavailableError, asked_wait_s, retry
from .setup_steps import write_file

_API = "https://api.github.com"
_VERSION = "2022-11-28"
_TIMEOUT_S = 30
_BACKOFF = Backoff(first_s=15.0, longest_s=300.0, longest_asked_s=300.0)
_DEFAULT_GROUP = 1
_SECONDARY_LIMIT_S = 60.0
_LONGEST_NAME = 64  # characters, of a runner at GitHub
_IS_TAKEN = {409, 422}  # how GitHub answers where a runner has that name already
# What the runner's program reads for --jitconfig, and clears before a job (actions/runner, CommandSettings).
_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"


class RegistrationError(Exception):
    """The settings are invalid; the message gives the reason."""


@click.command()
@click.option("--repository", required=True, metavar="OWNER/NAME", help="Or an organization alone.")
@click.option(
    "--group",
    type=click.IntRange(1),
    default=_DEFAULT_GROUP,
    metavar="NUMBER",
    help="Of an organization's runner group, which says what workflows may use it.",
)
@click.option("--label", "labels", multiple=True, required=True, help="Such as gpu-t4; may be given several times.")
@click.option(
    "--token-file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A GitHub token that may administer the repository (Administration: write).",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Environment file for the runner's service, mode 0600.",
)
@click.option("--api", default=_API, show_default=True, metavar="URL", help="GitHub Enterprise: https://HOST/api/v3.")
@click.option("--name", help="Of the runner, with a random end where it is taken; default: the host's with one.")
@click.option("--wait", is_flag=True, help="Ask again until GitHub gives a configuration.")
def register(
    repository: str,
    group: int,
    labels: tuple[str, ...],
    token_file: Path,
    output: Path,
    api: str,
    name: str | None,
    wait: bool,
) -> None:
    """Register this machine with GitHub for one job.

    Writes the configuration that the runner's program needs.
    """

    names = runner_names(name)

    def ask() -> str:
        # Each time another name: what was asked for last may have been made, and its answer lost.
        return just_in_time(api, repository, token, name=next(names), labels=labels, group=group)

    try:
        token = token_file.read_text().strip()
        configuration = retry(ask, _BACKOFF, say=lambda line: click.echo(line, err=True)) if wait else ask()
        write_file(output, f"{_VARIABLE}={configuration}\n", mode=0o600)
    except (OSError, UnicodeDecodeError, RegistrationError, UnavailableError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"registered at {repository} for one job, with the labels {', '.join(labels)}")


def runner_names(wanted: str | None) -> Iterator[str]:
    """The given name, then names with random ends, based on it or on the host's; 64 characters at most."""
    if wanted is not None:
        yield wanted
    while True:
        end = f"-{secrets.token_hex(4)}"
        yield (wanted or socket.gethostname())[: _LONGEST_NAME - len(end)] + end


def just_in_time(api: str, repository: str, token: str, *, name: str, labels: tuple[str, ...], group: int) -> str:
    """The encoded configuration.

    Raises UnavailableError for any other answer, and RegistrationError for settings that make no request.
    """
    _check(repository, token, name)
    of, right = ("repos", "Administration") if "/" in repository else ("orgs", "Self-hosted runners")
    url = f"{api.rstrip('/')}/{of}/{repository}/actions/runners/generate-jitconfig"
    body: dict[str, Any] = {
        "name": name,
        "runner_group_id": group,
        "labels": ["self-hosted", *labels],
        "work_folder": "_work",
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": _VERSION,
    }
    try:
        answer = requests.post(url, json=body, headers=headers, timeout=_TIMEOUT_S)
    except (MissingSchema, InvalidSchema, InvalidURL) as error:
        raise RegistrationError(f"--api is {api!r}; wanted an address such as {_API} ({error})") from error
    except requests.RequestException as error:
        raise UnavailableError(f"{url} does not answer as GitHub does: {error}") from error
    told = _told(answer)
    configuration = told.get("encoded_jit_config")
    if answer.status_code == 201 and isinstance(configuration, str) and re.fullmatch(r"[\w+/=-]+", configuration):
        return configuration
    reason = str(told.get("message") or "no reason given")
    if answer.status_code == 201:
        raise UnavailableError("GitHub answers 201: no configuration in it")
    if _is_limit(answer.headers, reason):
        wait_s = asked_wait_s(answer.headers)
        first_s = _SECONDARY_LIMIT_S if wait_s is None else 0.0
        raise UnavailableError(f"GitHub answers {answer.status_code}: {reason}", wait_s, first_s=first_s)
    if answer.status_code in {401, 403, 404}:
        raise UnavailableError(
            f"GitHub answers {answer.status_code} ({reason}): the token wants the permission {right}: write for "
            f"{repository}, unless GitHub has an incident"
        )
    taken = f"; the name was {name!r}" if answer.status_code in _IS_TAKEN else ""
    raise UnavailableError(f"GitHub answers {answer.status_code}: {reason}{taken}")


def _check(repository: str, token: str, name: str) -> None:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository):
        raise RegistrationError(f"the repository is {repository!r}; wanted OWNER/NAME, or an organization")
    if not re.fullmatch(r"[!-~]+", token):
        raise RegistrationError("the token's file holds no token: wanted one line, such as github_pat_… of GitHub")
    if not 0 < len(name) <= _LONGEST_NAME:
        raise RegistrationError(f"the name {name!r} has {len(name)} characters; GitHub takes 1 to {_LONGEST_NAME}")


def _told(answer: requests.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:  # a proxy's page
        return {}
    return told if isinstance(told, dict) else {}


def _is_limit(headers: Mapping[str, str], reason: str) -> bool:
    """Whether a primary or a secondary rate limit is exceeded. Both may come with the status 403."""
    return asked_wait_s(headers) is not None or "rate limit" in reason.lower()
