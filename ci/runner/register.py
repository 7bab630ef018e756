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
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

from warpwatch.ci.runner.steps import write_file

_API = "https://api.github.com"
_VERSION = "2022-11-28"
_TIMEOUT_S = 30
_FIRST_S, _LONGEST_S = 15.0, 300.0
_DEFAULT_GROUP = 1
_SECONDARY_LIMIT_S = 60.0
_LONGEST_NAME = 64  # characters, of a runner at GitHub
_IS_TAKEN = {409, 422}  # how GitHub answers where a runner has that name already
# What the runner's program reads for --jitconfig, and clears before a job (actions/runner, CommandSettings).
_VARIABLE = "ACTIONS_RUNNER_INPUT_JITCONFIG"


class RegistrationError(Exception):
    """No request can be made with these settings; the message says why."""


class AwayError(RegistrationError):
    """GitHub gave no configuration; a later request may get one."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        """`wait_s` is the least pause that GitHub asks for."""
        super().__init__(message)
        self.wait_s = wait_s


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
@click.option("--name", help="Of the runner, with a random end where it is taken; default: the host's with one.")
@click.option("--wait", is_flag=True, help="Ask again until GitHub gives a configuration.")
def register(
    repository: str, group: int, labels: tuple[str, ...], token_file: Path, output: Path, api: str, name: str | None,
    wait: bool,
) -> None:  # fmt: skip
    """Register this machine with GitHub for one job.

    Writes the configuration that the runner's program needs.
    """

    names = runner_names(name)

    def ask() -> str:
        # Each time another name: what was asked for last may have been made, and its answer lost.
        return just_in_time(api, repository, token, name=next(names), labels=labels, group=group)

    try:
        token = token_file.read_text().strip()
        configuration = patiently(ask, lambda line: click.echo(line, err=True)) if wait else ask()
        write_file(output, f"{_VARIABLE}={configuration}\n", mode=0o600)
    except (OSError, UnicodeDecodeError, RegistrationError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"registered at {repository} for one job, with the labels {', '.join(labels)}")


def runner_names(wanted: str | None) -> Iterator[str]:
    """The name that was asked for, then names that begin like it, or like the host's; all of at most 64 characters."""
    if wanted is not None:
        yield wanted
    while True:
        end = f"-{secrets.token_hex(4)}"
        yield (wanted or socket.gethostname())[: _LONGEST_NAME - len(end)] + end


def patiently(
    ask: Callable[[], str], say: Callable[[str], None], *, sleep: Callable[[float], None] = time.sleep
) -> str:
    """What it answers, once it does: asked again after pauses that double to five minutes, or that GitHub asks for."""
    pause = _FIRST_S
    while True:
        try:
            return ask()
        except AwayError as error:
            wait = min(max(pause, error.wait_s), _LONGEST_S)
            say(f"{error}; again in {wait:.0f} s")
            sleep(wait)
            pause = min(2 * pause, _LONGEST_S)


def just_in_time(api: str, repository: str, token: str, *, name: str, labels: tuple[str, ...], group: int) -> str:
    """The encoded configuration. Raises AwayError for whatever GitHub answers instead, RegistrationError for settings
    with which it cannot be asked."""
    _check(repository, token, name)
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
    except (MissingSchema, InvalidSchema, InvalidURL) as error:
        raise RegistrationError(f"--api is {api!r}; wanted an address such as {_API} ({error})") from error
    except requests.RequestException as error:
        raise AwayError(f"{url} does not answer as GitHub does: {error}") from error
    told = _told(answer)
    configuration = told.get("encoded_jit_config")
    if answer.status_code == 201 and isinstance(configuration, str) and re.fullmatch(r"[\w+/=-]+", configuration):
        return configuration
    reason = str(told.get("message") or "no reason given")
    if answer.status_code == 201:
        raise AwayError("GitHub answers 201: no configuration in it")
    if (wait_s := _limit_s(answer.headers, reason)) is not None:
        raise AwayError(f"GitHub answers {answer.status_code}: {reason}", wait_s)
    if answer.status_code in {401, 403, 404}:
        raise AwayError(
            f"GitHub answers {answer.status_code} ({reason}): the token wants the permission {right}: write for "
            f"{repository}, unless GitHub has an incident"
        )
    taken = f"; the name was {name!r}" if answer.status_code in _IS_TAKEN else ""
    raise AwayError(f"GitHub answers {answer.status_code}: {reason}{taken}")


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


def _limit_s(headers: Mapping[str, str], reason: str) -> float | None:
    """How long GitHub asks to wait, by a primary or a secondary rate limit; None where it does not say that it is one.

    Both may come with the status 403. A secondary limit that names no time lasts a minute at least.
    """
    if headers.get("Retry-After", "").isdecimal():
        return float(headers["Retry-After"])
    if headers.get("X-RateLimit-Remaining") == "0" and headers.get("X-RateLimit-Reset", "").isdecimal():
        return max(float(headers["X-RateLimit-Reset"]) - time.time(), 0.0)
    return _SECONDARY_LIMIT_S if "rate limit" in reason.lower() else None
