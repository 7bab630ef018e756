"""The pull request of a workflow's event."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .repository import PullRequest, Repository, RepositoryError

APPROVED_BRANCH = "pull-request/{number}"  # has the commit that a maintainer approved
BUILT = "success"
# Branch of a merge group: "gh-readonly-queue/main/pr-12-" and the commit on which it is based.
_QUEUED = re.compile(r"(?:refs/heads/)?gh-readonly-queue/.+/pr-(?P<number>\d+)-(?P<base>[0-9a-f]{40})")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The event that started a workflow."""

    name: str
    payload: Mapping[str, Any]

    @classmethod
    def of_workflow(cls) -> "Event":
        """The current event. Raises RepositoryError outside of a workflow."""
        name, path = os.environ.get("GITHUB_EVENT_NAME"), os.environ.get("GITHUB_EVENT_PATH")
        if not name or not path:
            raise RepositoryError("GITHUB_EVENT_NAME and GITHUB_EVENT_PATH not set: this runs in a workflow")
        return cls(name=name, payload=json.loads(Path(path).read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewComment:
    """A new comment on a pull request."""

    id: int
    author: str
    pull: int
    body: str


def new_comment(event: Event) -> NewComment | None:
    """The new comment; None if it was edited (possibly by another user) or is not on a pull request."""
    if event.name != "issue_comment" or event.payload["action"] != "created":
        return None
    comment, issue = event.payload["comment"], event.payload["issue"]
    if "pull_request" not in issue:
        return None
    return NewComment(
        id=comment["id"], author=comment["user"]["login"], pull=issue["number"], body=comment["body"] or ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommit:
    """The commit of a pull request that an event names."""

    pull_request: PullRequest
    is_fork: bool
    is_approved: bool  # a maintainer approved this very commit
    is_queued: bool = False  # a merge queue's commit of the pull request
    build: str = BUILT  # conclusion of its build, in GitHub's terms


def event_commit(event: Event, repository: Repository) -> EventCommit | None:
    """The event's commit; None without an open pull request, or if the pull request has a newer commit.

    Raises RepositoryError for an unsupported event.
    """
    if event.name == "workflow_run":
        return _after_build(event.payload["workflow_run"], repository)
    if event.name == "workflow_dispatch":
        return _approved(event.payload["inputs"], repository)
    if event.name == "pull_request":
        return _of(repository.pull_request(event.payload["pull_request"]["number"]), repository)
    if event.name == "merge_group":
        group = event.payload["merge_group"]
        return _queued(group["head_ref"], group["head_sha"], repository)
    raise RepositoryError(
        f"no pull request in a {event.name} event; expected workflow_run, workflow_dispatch, pull_request, merge_group"
    )


def head_of(event: Event) -> str:
    """The commit in the event itself. Raises RepositoryError if there is none."""
    paths = {
        "workflow_run": ("workflow_run", "head_sha"),
        "workflow_dispatch": ("inputs", "sha"),
        "pull_request": ("pull_request", "head", "sha"),
        "merge_group": ("merge_group", "head_sha"),
    }
    value: Any = event.payload
    for key in paths.get(event.name, ("",)):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, str) or not _COMMIT.fullmatch(value):
        raise RepositoryError(f"the {event.name} event has no commit; give --head HASH")
    return value


def _after_build(run: Mapping[str, Any], repository: Repository) -> EventCommit | None:
    source = run["head_repository"]
    if run["event"] == "merge_group":
        return _queued(run["head_branch"], run["head_sha"], repository, build=run["conclusion"])
    if run["event"] != "pull_request" or source is None:
        return None
    owner = source["owner"]["login"]
    pull = repository.pull_request_at(run["head_sha"], owner=owner, branch=run["head_branch"])
    return _of(pull, repository, build=run["conclusion"])


def _queued(branch: str, head: str, repository: Repository, *, build: str = BUILT) -> EventCommit | None:
    match = _QUEUED.fullmatch(branch)
    if match is None:
        return None
    group = PullRequest(
        number=int(match["number"]), head=head, base=match["base"], head_repository=repository.name, is_open=True
    )
    return EventCommit(pull_request=group, is_fork=False, is_approved=False, is_queued=True, build=build)


def _approved(inputs: Mapping[str, str], repository: Repository) -> EventCommit | None:
    if not inputs["pull"].isdecimal():
        raise RepositoryError(f"not a number of a pull request: {inputs['pull']!r}")
    number, commit = int(inputs["pull"]), inputs["sha"]
    if repository.branch(APPROVED_BRANCH.format(number=number)) != commit:
        raise RepositoryError(f"{commit} of #{number} is not approved for testing: reply `/ok to test {commit}`")
    pull = repository.pull_request(number)
    return _of(pull, repository, is_approved=True) if pull.head == commit else None


def _of(
    pull: PullRequest | None, repository: Repository, *, is_approved: bool = False, build: str = BUILT
) -> EventCommit | None:
    if pull is None or not pull.is_open:
        return None
    is_fork = pull.head_repository != repository.name
    return EventCommit(pull_request=pull, is_fork=is_fork, is_approved=is_approved, build=build)
