"""The pull request and the token of a command, from its options and the environment of a CI job."""

import os
import re
from dataclasses import dataclass

from .forge_request import ForgeError
from .github import GitHubThread, open_github
from .gitlab import GitLabThread, open_gitlab

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A repository, and one of its pull requests."""

    repository: str | None
    pull_request: int | None
    author: str | None = None  # our user name, if the token may not read it

    def github(self) -> GitHubThread:
        """The thread by GITHUB_TOKEN, GITHUB_API_URL and, as default, GITHUB_REPOSITORY. Raises ForgeError."""
        client = open_github(_needed("GITHUB_TOKEN"), os.environ.get("GITHUB_API_URL"))
        repository = self._repository("GITHUB_REPOSITORY")
        if repository.count("/") != 1:
            raise ForgeError(f"{repository!r} is not a GitHub repository: expected owner/name")
        return GitHubThread(client, repository, self.pull_request or 0, author=self.author)

    def gitlab(self) -> GitLabThread:
        """The thread by GITLAB_TOKEN, CI_SERVER_URL and, as defaults, the job's variables. Raises ForgeError."""
        client = open_gitlab(_needed("GITLAB_TOKEN"), os.environ.get("CI_SERVER_URL") or "https://gitlab.com")
        number = self.pull_request or int(os.environ.get("CI_MERGE_REQUEST_IID") or 0)
        if not number:
            raise ForgeError("no merge request: give --pull-request N, or set CI_MERGE_REQUEST_IID")
        return GitLabThread(client, self._repository("CI_PROJECT_PATH"), number, author=self.author)

    def _repository(self, variable: str) -> str:
        name = self.repository or os.environ.get(variable) or ""
        if not _REPOSITORY.fullmatch(name) or ".." in name:
            raise ForgeError(f"{name!r} is not a repository: give --repository owner/name, or set {variable}")
        return name


def workflow_run_url(run: str | None = None) -> str | None:
    """The page of a GitHub workflow run, by default this job's; None outside of one."""
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    repository, number = os.environ.get("GITHUB_REPOSITORY"), run or os.environ.get("GITHUB_RUN_ID")
    return f"{server}/{repository}/actions/runs/{number}" if repository and number else None


def _needed(variable: str) -> str:
    token = os.environ.get(variable)
    if not token:
        raise ForgeError(f"{variable} is not set: it needs a token that may write comments")
    return token
