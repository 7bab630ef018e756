"""`warpwatch runner register`: registers this machine with GitHub Actions for one job (just-in-time configuration).

GitHub's REST API, "Create configuration for a just-in-time runner" for a repository or an organization. The token needs
the repository's permission "Administration: write", or the organization's "Self-hosted runners: write". Jobs must never
see the token; a configuration is valid for one job only.

With `--wait` no answer of GitHub is final: during an incident it answers 401 and 404 too, and a service that gives up
stays off until an administrator restarts it. Only invalid settings end it.
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

from warpwatch.dashboard.cli.output import say

from ..retries import Backoff, UnavailableError, json_object, requested_wait_s, retry
from .setup_steps import write_file

_API = "https://api.github.com"
_VERSION = "2022-11-28"
_TIMEOUT_S = 30
_BACKOFF = Backoff(first_s=15.0, longest_s=300.0, longest_requested_s=300.0)
_DEFAULT_GROUP = 1
_SECONDARY_LIMIT_S = 60.0
_LONGEST_NAME = 64  # characters of a runner's name at GitHub
_NAME_TAKEN = {409, 422}  # status codes if another runner has the name
# Read by the runner's program for --jitconfig, and cleared before a job (actions/runner, CommandSettings).
_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"


class RegistrationError(Exception):
    """The settings are invalid; the message gives the reason."""


@click.command()
@click.option("--repository", required=True, metavar="OWNER/NAME", help="Repository, or an organization's name.")
@click.option(
    "--group",
    type=click.IntRange(1),
    default=_DEFAULT_GROUP,
    metavar="NUMBER",
    help="Runner group of an organization, which limits the workflows.",
)
@click.option("--label", "labels", multiple=True, required=True, help="Such as gpu-t4; repeatable.")
@click.option(
    "--token-file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a GitHub token that may administer the repository (Administration: write).",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Environment file for the runner's service, mode 0600.",
)
@click.option("--api", default=_API, show_default=True, metavar="URL", help="GitHub Enterprise: https://HOST/api/v3.")
@click.option("--name", help="Name of the runner, with a random suffix if it is taken; default: the host's with one.")
@click.option("--wait", is_flag=True, help="Retry until GitHub returns a configuration.")
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
    """Register this machine with GitHub for one job, and write the runner's configuration."""
    names = runner_names(name)

    def request() -> str:
        # A new name each time: the last request may have created its runner although the answer was lost.
        return just_in_time(api, repository, token, name=next(names), labels=labels, group=group)

    try:
        token = token_file.read_text().strip()
        configuration = retry(request, _BACKOFF, say=say) if wait else request()
        write_file(output, f"{_VARIABLE}={configuration}\n", mode=0o600)
    except (OSError, UnicodeDecodeError, RegistrationError, UnavailableError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"registered at {repository} for one job, with the labels {', '.join(labels)}")


def runner_names(name: str | None) -> Iterator[str]:
    """The given name, then names with random suffixes, based on it or on the host's; 64 characters at most."""
    if name is not None:
        yield name
    while True:
        suffix = f"-{secrets.token_hex(4)}"
        yield (name or socket.gethostname())[: _LONGEST_NAME - len(suffix)] + suffix


def just_in_time(api: str, repository: str, token: str, *, name: str, labels: tuple[str, ...], group: int) -> str:
    """The encoded configuration.

    Raises UnavailableError for any other answer, and RegistrationError for invalid settings.
    """
    _check(repository, token, name)
    scope, permission = ("repos", "Administration") if "/" in repository else ("orgs", "Self-hosted runners")
    url = f"{api.rstrip('/')}/{scope}/{repository}/actions/runners/generate-jitconfig"
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
        raise RegistrationError(f"--api is {api!r}; expected an address such as {_API} ({error})") from error
    except requests.RequestException as error:
        raise UnavailableError(f"{url} does not answer as GitHub does: {error}") from error
    body = json_object(answer)
    configuration = body.get("encoded_jit_config")
    if answer.status_code == 201 and isinstance(configuration, str) and re.fullmatch(r"[\w+/=-]+", configuration):
        return configuration
    reason = str(body.get("message") or "no reason given")
    if answer.status_code == 201:
        raise UnavailableError("GitHub answers 201 without a configuration")
    if _is_limit(answer.headers, reason):
        wait_s = requested_wait_s(answer.headers)
        first_s = _SECONDARY_LIMIT_S if wait_s is None else 0.0
        raise UnavailableError(f"GitHub answers {answer.status_code}: {reason}", wait_s, first_s=first_s)
    if answer.status_code in {401, 403, 404}:
        raise UnavailableError(
            f"GitHub answers {answer.status_code} ({reason}): the token needs the permission {permission}: write for "
            f"{repository}, unless GitHub has an incident"
        )
    taken = f"; the name was {name!r}" if answer.status_code in _NAME_TAKEN else ""
    raise UnavailableError(f"GitHub answers {answer.status_code}: {reason}{taken}")


def _check(repository: str, token: str, name: str) -> None:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository):
        raise RegistrationError(f"the repository is {repository!r}; expected OWNER/NAME, or an organization")
    if not re.fullmatch(r"[!-~]+", token):
        raise RegistrationError("the token's file has no token: expected one line, such as github_pat_…")
    if not 0 < len(name) <= _LONGEST_NAME:
        raise RegistrationError(f"the name {name!r} has {len(name)} characters; GitHub accepts 1 to {_LONGEST_NAME}")


def _is_limit(headers: Mapping[str, str], reason: str) -> bool:
    """Whether a primary or a secondary rate limit is exceeded. Both may come with the status 403."""
    return requested_wait_s(headers) is not None or "rate limit" in reason.lower()
