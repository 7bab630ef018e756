"""The API of one GitHub repository, as far as the workflows use it."""

import base64
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..forges.forge_request import ForgeError, with_retries
from ..forges.github import ACTIONS_BOT, GitHubThread, github_errors, open_github

_MOST_FILES = 300  # GitHub's limit per comparison
_NOT_FOUND = 404
_WORKFLOWS = "github-actions"  # the application of workflow tokens
_NUMBER = re.compile(r"[0-9]{1,20}")

Read = TypeVar("Read")


class RepositoryError(ForgeError):
    """A workflow's environment or event is invalid; the message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    number: int
    head: str  # full hash
    base: str  # the tip of the target branch, full hash
    head_repository: str | None  # "owner/name"; None if deleted
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The changed files between two commits."""

    merge_base: str
    files: tuple[str, ...] | None  # None: more than GitHub lists


class Repository:
    """Requests with one token, with retries. Every method raises ForgeError."""

    def __init__(self, name: str, token: str, api: str = "https://api.github.com") -> None:
        self.name = name
        self._github = open_github(token, api)

    @classmethod
    def of_workflow(cls) -> "Repository":
        """The repository of this workflow. Raises RepositoryError outside of one."""
        variables = ("GITHUB_REPOSITORY", "GITHUB_TOKEN")
        missing = [name for name in variables if not os.environ.get(name)]
        if missing:
            raise RepositoryError(f"{' and '.join(missing)} not set: this runs in a workflow, with the job's token")
        name, token = (os.environ[variable] for variable in variables)
        return cls(name, token, os.environ.get("GITHUB_API_URL") or "https://api.github.com")

    def pull_request(self, number: int) -> PullRequest:
        return self._get(_pull_request, f"pulls/{number}")

    def pull_request_at(self, head: str, *, owner: str, branch: str) -> PullRequest | None:
        """The open pull request of a branch with this head commit."""

        def of_head(listed: Any) -> PullRequest | None:
            return next((_pull_request(each) for each in listed if each["head"]["sha"] == head), None)

        return self._get(of_head, "pulls", state="open", head=f"{owner}:{branch}")

    def changed(self, base: str, head: str) -> Changed:
        """The changes of head since its merge base with base."""
        return self._get(_changed, f"compare/{base}...{head}")

    def file(self, path: str) -> bytes | None:
        """The content of a file of the default branch; None if it is missing, or larger than GitHub's limit of 1 MB."""

        def content(answer: Any) -> bytes | None:
            is_content = isinstance(answer, Mapping) and answer.get("encoding") == "base64"
            return base64.b64decode(answer["content"]) if is_content else None

        try:
            return self._get(content, f"contents/{path}")
        except ForgeError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def thread(self, number: int) -> GitHubThread:
        """The conversation of a pull request."""
        return GitHubThread(self._github, self.name, number, author=ACTIONS_BOT)

    def workflow_run(self, head: str, check: str) -> str | None:
        """The newest workflow run that set this check of a commit (forges/github.py writes it); None if none did.

        Only checks by workflows count: other applications may use the same name.
        """

        def newest(answer: Any) -> str | None:
            # The schema allows check runs without an application.
            ours = [each for each in answer["check_runs"] if (each["app"] or {}).get("slug") == _WORKFLOWS]
            runs = sorted((each["id"], (each["external_id"] or "").partition(":")[0]) for each in ours)
            numbers = [run for _, run in runs if _NUMBER.fullmatch(run)]
            return numbers[-1] if numbers else None

        return self._get(newest, f"commits/{head}/check-runs", check_name=check, filter="all", per_page="100")

    def branch(self, name: str) -> str | None:
        """The commit of a branch; None if it does not exist."""
        return with_retries(lambda: self._branch(name))

    def _branch(self, name: str) -> str | None:
        try:
            return self._read(lambda answer: str(answer["object"]["sha"]), f"git/ref/heads/{name}")
        except ForgeError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def branches(self, prefix: str) -> list[str]:
        def names(answer: Any) -> list[str]:
            return [each["ref"].removeprefix("refs/heads/") for each in answer]

        return self._get(names, f"git/matching-refs/heads/{prefix}")

    def set_branch(self, name: str, commit: str) -> None:
        """Creates or moves a branch."""

        def put() -> None:
            current = self._branch(name)
            if current is None:
                self._write("POST", "git/refs", {"ref": f"refs/heads/{name}", "sha": commit})
            elif current != commit:
                self._write("PATCH", f"git/refs/heads/{name}", {"sha": commit, "force": True})

        with_retries(put)

    def delete_branch(self, name: str) -> None:
        """Deletes a branch, if it still exists."""

        def delete() -> None:
            if self._branch(name) is not None:
                self._write("DELETE", f"git/refs/heads/{name}")

        with_retries(delete)

    def default_branch(self) -> str:
        return self._get(lambda answer: str(answer["default_branch"]), "")

    def start(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> None:
        """Starts a workflow (its file's name) by workflow_dispatch.

        If GitHub's answer is lost, the workflow may start twice: gate.yml then cancels the first run.
        """
        body = {"ref": ref, "inputs": dict(inputs)}
        with_retries(lambda: self._write("POST", f"actions/workflows/{workflow}/dispatches", body))

    def answer(self, number: int, comment: int, text: str) -> None:
        """Answers a comment on a pull request once, also when called repeatedly."""
        thread, marker = self.thread(number), f"<!-- warpwatch:answer {comment} -->"

        def put() -> None:
            if not any(each.author == thread.author and marker in each.body for each in thread.comments()):
                thread.create(f"{text}\n\n{marker}")

        with_retries(put)

    def react(self, comment: int, reaction: str) -> None:
        """Adds a reaction such as "+1" or "eyes" to a comment."""
        with_retries(lambda: self._write("POST", f"issues/comments/{comment}/reactions", {"content": reaction}))

    def _get(self, read: Callable[[Any], Read], path: str, **params: str) -> Read:
        return with_retries(lambda: self._read(read, path, **params))

    def _read(self, read: Callable[[Any], Read], path: str, **params: str) -> Read:
        """The result of `read` for an unchecked answer. Raises ForgeError for an unexpected one."""
        url = self._url(path)
        with github_errors(f"(GET {url})"):
            return read(self._github.request("GET", url, params=params).json())

    def _write(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        url = self._url(path)
        with github_errors(f"({method} {url})"):
            self._github.request(method, url, json=body)

    def _url(self, path: str) -> str:
        return f"/repos/{self.name}/{path}" if path else f"/repos/{self.name}"


def _changed(answer: Any) -> Changed:
    files = answer["files"]
    names = tuple(name for each in files for name in (each["filename"], each.get("previous_filename")) if name)
    return Changed(merge_base=answer["merge_base_commit"]["sha"], files=names if len(files) < _MOST_FILES else None)


def _pull_request(answer: Mapping[str, Any]) -> PullRequest:
    source = answer["head"]["repo"]
    return PullRequest(
        number=answer["number"],
        head=answer["head"]["sha"],
        base=answer["base"]["sha"],
        head_repository=source["full_name"] if source else None,
        is_open=answer["state"] == "open",
    )
