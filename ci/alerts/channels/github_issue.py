"""A GitHub issue for each alert: opened with it, updated by comments, closed when it is resolved.

Hidden marks identify what was written: the alert's thread in the issue, and the message's key in the issue or a
comment. They are searched before anything is created, so that a repeated delivery creates nothing twice.
"""

from typing import Any

from githubkit import GitHub

from ...forges.forge_request import ForgeError, TransientError, with_retries
from ...forges.github import github_errors, open_github
from ...policy.policy_model import Destination
from ..alert_content import DeliveryError, Message

_PATIENCE_S, _TIMEOUT_S = 10.0, 10.0
_DELETED = {404, 410}
_PAGE, _MOST_PAGES = 100, 20  # issues with our label that are searched, the newest first
_MOST_TEXT, _MOST_TITLE = 60_000, 250  # characters; GitHub takes 65,536 and 256


def deliver(message: Message, destination: Destination, token: str, number: str | None) -> str | None:
    """Writes the message, if it is not there yet; returns the issue's number. Raises DeliveryError.

    `number` is the issue's, if known; a deleted issue is replaced. Without an issue a resolution creates none, and
    returns None. Requests are retried for a few seconds only, since the outbox retries later.
    """
    with open_github(token, destination.api, timeout_s=_TIMEOUT_S) as client:
        issues = _Issues(client, destination)

        def write() -> str | None:
            known = int(number) if number else None
            issue = known if known is not None and issues.exists(known) else issues.find(message.thread)
            if issue is None:
                return None if message.action == "resolved" else str(issues.create(message))
            issues.comment(issue, message)
            return str(issue)

        try:
            return with_retries(write, total_s=_PATIENCE_S)
        except ForgeError as error:
            cause = error.__cause__
            raise DeliveryError(
                str(error), (cause.wait_s or cause.first_s) if isinstance(cause, TransientError) else None
            ) from error


class _Issues:
    """Issues of a repository with our label."""

    def __init__(self, client: GitHub, destination: Destination) -> None:
        owner, _, repository = (destination.github or "").partition("/")
        self._api, self._repository = client.rest.issues, (owner, repository)
        self._labels, self._request = destination.labels, f"for {destination.github}"

    def exists(self, number: int) -> bool:
        """Whether the issue exists and was not deleted."""
        try:
            with github_errors(self._request):
                self._api.get(*self._repository, number)
        except ForgeError as error:
            if error.status in _DELETED:
                return False
            raise
        return True

    def find(self, thread: str) -> int | None:
        """The number of the issue with this thread's mark.

        GitHub drops the labels of an issue that a token without push permission creates, without an error. If no issue
        with our label has the mark, the newest of all issues are searched.
        """
        labelled: dict[str, Any] = {"labels": self._labels[0]}
        for filters, pages in ((labelled, _MOST_PAGES), ({}, 1)):
            for page in range(1, pages + 1):
                with github_errors(self._request):
                    listed: list[dict[str, Any]] = self._api.list_for_repo(
                        *self._repository,
                        state="all",
                        sort="created",
                        direction="desc",
                        per_page=_PAGE,
                        page=page,
                        **filters,
                    ).json()
                    for issue in listed:
                        if _thread_mark(thread) in (issue["body"] or ""):
                            return int(issue["number"])
                if len(listed) < _PAGE:
                    break
        return None

    def create(self, message: Message) -> int:
        """Create an issue; returns its number."""
        with github_errors(self._request):
            created = self._api.create(
                *self._repository,
                title=message.title[:_MOST_TITLE],
                body=f"{message.text[:_MOST_TEXT]}\n\n{_thread_mark(message.thread)}\n{_message_mark(message.key)}",
                labels=[*self._labels, *(each for each in message.labels if each not in self._labels)],
            )
            return int(created.json()["number"])

    def comment(self, number: int, message: Message) -> None:
        """Add the message as a comment, unless the issue or a comment has it; update the issue's state and title."""
        with github_errors(self._request):
            issue = self._api.get(*self._repository, number).json()
            mark = _message_mark(message.key)
            if mark not in (issue["body"] or "") and not self._has_comment(number, mark):
                self._api.create_comment(*self._repository, number, body=f"{message.text[:_MOST_TEXT]}\n\n{mark}")
            if message.action == "resolved":
                if issue["state"] != "closed":
                    self._api.update(*self._repository, number, state="closed", state_reason="completed")
            elif message.action == "reopened":
                self._api.update(*self._repository, number, state="open", title=message.title[:_MOST_TITLE])

    def _has_comment(self, number: int, mark: str) -> bool:
        for page in range(1, _MOST_PAGES + 1):
            listed: list[dict[str, Any]] = self._api.list_comments(
                *self._repository, number, per_page=_PAGE, page=page
            ).json()
            if any(mark in (comment["body"] or "") for comment in listed):
                return True
            if len(listed) < _PAGE:
                return False
        return False


def _thread_mark(thread: str) -> str:
    return f"<!-- warpwatch alert {thread} -->"


def _message_mark(key: str) -> str:
    return f"<!-- warpwatch message {key} -->"
