"""One GitHub repository, as far as the workflows ask and tell it things."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from githubkit.exception import GitHubException, RequestFailed

from warpwatch.ci.forges.github import ACTIONS_BOT, GitHubThread, open_github

_MOST_FILES = 300  # GitHub lists no more of a comparison
_NOT_FOUND = 404
_WORKFLOWS = "github-actions"  # the application that a workflow's token is
_NUMBER = re.compile(r"[0-9]{1,20}")


class RepositoryError(Exception):
    """GitHub refused, or is not to be reached; the message says what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """One that is open or was."""

    number: int
    head: str  # full hash
    base: str  # the tip of the branch it wants to go to, full hash
    head_repository: str | None  # "owner/name"; None where that was deleted
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What lies between two commits."""

    merge_base: str
    files: tuple[str, ...] | None  # None: more than GitHub lists


class Repository:
    """Requests with one token. Every method raises RepositoryError."""

    def __init__(self, name: str, token: str, api: str = "https://api.github.com") -> None:
        self.name = name
        self._github = open_github(token, api)

    @classmethod
    def of_workflow(cls) -> "Repository":
        """The one whose workflow runs. Raises RepositoryError outside of one."""
        wanted = ("GITHUB_REPOSITORY", "GITHUB_TOKEN")
        missing = [name for name in wanted if not os.environ.get(name)]
        if missing:
            raise RepositoryError(f"{' and '.join(missing)} not set: this runs in a workflow, with the job's token")
        name, token = (os.environ[each] for each in wanted)
        return cls(name, token, os.environ.get("GITHUB_API_URL") or "https://api.github.com")

    def pull_request(self, number: int) -> PullRequest:
        """By its number."""
        return _pull_request(self._ask("GET", f"pulls/{number}"))

    def pull_request_at(self, head: str, *, owner: str, branch: str) -> PullRequest | None:
        """The open one of a branch whose head this commit is."""
        listed = self._ask("GET", "pulls", params={"state": "open", "head": f"{owner}:{branch}"})
        return next((_pull_request(each) for each in listed if each["head"]["sha"] == head), None)

    def changed(self, base: str, head: str) -> Changed:
        """Of head since it left base."""
        told = self._ask("GET", f"compare/{base}...{head}")
        names = tuple(
            name for each in told["files"] for name in (each["filename"], each.get("previous_filename")) if name
        )
        files = names if len(told["files"]) < _MOST_FILES else None
        return Changed(merge_base=told["merge_base_commit"]["sha"], files=files)

    def file(self, path: str) -> bytes | None:
        """The content of a file of the default branch; None where there is none, or it has more than GitHub's 1 MB."""
        told = self._ask("GET", f"contents/{path}", or_none=True)
        is_content = isinstance(told, Mapping) and told.get("encoding") == "base64"
        return base64.b64decode(told["content"]) if is_content else None

    def thread(self, number: int) -> GitHubThread:
        """The conversation of a pull request, and who may write there."""
        return GitHubThread(self._github, self.name, number, author=ACTIONS_BOT)

    def workflow_run(self, head: str, check: str) -> str | None:
        """The newest run of a workflow that set this check of a commit (forges/github.py writes it); None if none did.

        Only a workflow's own word counts: other applications may call a check the same.
        """
        params = {"check_name": check, "filter": "all", "per_page": "100"}
        told = self._ask("GET", f"commits/{head}/check-runs", params=params)["check_runs"]
        runs = sorted((each["id"], each["external_id"] or "") for each in told if each["app"]["slug"] == _WORKFLOWS)
        found = [run for _, key in runs if _NUMBER.fullmatch(run := key.partition(":")[0])]
        return found[-1] if found else None

    def branch(self, name: str) -> str | None:
        """The commit of a branch, None if there is no such."""
        told = self._ask("GET", f"git/ref/heads/{name}", or_none=True)
        return None if told is None else told["object"]["sha"]

    def set_branch(self, name: str, commit: str) -> None:
        """Made where it is missing, moved where it is elsewhere."""
        if self.branch(name) is None:
            self._ask("POST", "git/refs", json={"ref": f"refs/heads/{name}", "sha": commit})
        else:
            self._ask("PATCH", f"git/refs/heads/{name}", json={"sha": commit, "force": True})

    def default_branch(self) -> str:
        """Its name."""
        return self._ask("GET", "")["default_branch"]

    def start(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> None:
        """A workflow (its file's name) by workflow_dispatch."""
        self._ask("POST", f"actions/workflows/{workflow}/dispatches", json={"ref": ref, "inputs": dict(inputs)})

    def reply(self, number: int, text: str) -> None:
        """A comment on a pull request."""
        self._ask("POST", f"issues/{number}/comments", json={"body": text})

    def react(self, comment: int, reaction: str) -> None:
        """To a comment, as "+1" or "eyes"."""
        self._ask("POST", f"issues/comments/{comment}/reactions", json={"content": reaction})

    def _ask(self, method: str, path: str, *, or_none: bool = False, **arguments: Any) -> Any:
        url = f"/repos/{self.name}/{path}".rstrip("/")
        try:
            response = self._github.request(method, url, **arguments)
        except RequestFailed as error:
            if or_none and error.response.status_code == _NOT_FOUND:
                return None
            said = error.response.text[:300]
            raise RepositoryError(f"{method} {url}: {error.response.status_code} {said}") from error
        except GitHubException as error:
            raise RepositoryError(f"{method} {url}: {error}") from error
        return response.json() if response.text else None


def _pull_request(told: Mapping[str, Any]) -> PullRequest:
    source = told["head"]["repo"]
    return PullRequest(
        number=told["number"],
        head=told["head"]["sha"],
        base=told["base"]["sha"],
        head_repository=source["full_name"] if source else None,
        is_open=told["state"] == "open",
    )
