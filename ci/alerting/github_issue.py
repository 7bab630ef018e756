"""A GitHub issue for each alert: opened with it, updated by comments, closed when it is resolved.

What was written is found again by hidden marks, the alert's thread in the issue and the message's key in the issue or
in a comment, before anything is created: a sender that died in between leaves no second one.
"""

from typing import Any

from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import GitHubException, RequestFailed

from warpwatch.ci.alerting.failing import DeliveryError
from warpwatch.ci.alerting.message import Message
from warpwatch.ci.policy.alerts import Destination

_TIMEOUT_S = 10.0
_PAGE, _MOST_PAGES = 100, 20  # issues with our label that are looked through, the newest first
_MOST_TEXT, _MOST_TITLE = 60_000, 250  # characters; GitHub takes 65,536 and 256


def deliver(message: Message, destination: Destination, token: str, number: str | None) -> str | None:
    """Writes the message, if it is not there yet; returns the issue's number. Raises DeliveryError.

    `number` is the issue's, if it is known. An end without an issue is none.
    """
    owner, _, repository = (destination.github or "").partition("/")
    try:
        with GitHub(
            TokenAuthStrategy(token), base_url=destination.api, timeout=_TIMEOUT_S, auto_retry=False, http_cache=False,
            follow_redirects=True, user_agent="warpwatch",
        ) as client:  # fmt: skip
            issues = _Issues(client, owner, repository, destination)
            found = int(number) if number else issues.find(message.thread)
            if found is None:
                return None if message.action == "resolved" else str(issues.create(message))
            issues.tell(found, message)
            return str(found)
    except RequestFailed as error:
        said = error.response.status_code
        raise DeliveryError(f"GitHub answered {said} for {destination.github}: {_reason(error)}") from error
    except GitHubException as error:
        raise DeliveryError(f"GitHub, {destination.github}: {type(error).__name__}: {error}") from error


class _Issues:
    """The issues of a repository that carry our label."""

    def __init__(self, client: GitHub, owner: str, repository: str, destination: Destination) -> None:
        self._api = client.rest.issues
        self._owner, self._repository, self._labels = owner, repository, destination.labels

    def find(self, thread: str) -> int | None:
        """The number of the issue with this thread's mark."""
        for page in range(1, _MOST_PAGES + 1):
            listed: list[dict[str, Any]] = self._api.list_for_repo(
                self._owner, self._repository, labels=self._labels[0], state="all", sort="created", direction="desc",
                per_page=_PAGE, page=page,
            ).json()  # fmt: skip
            for issue in listed:
                if _thread_mark(thread) in (issue["body"] or ""):
                    return int(issue["number"])
            if len(listed) < _PAGE:
                break
        return None

    def create(self, message: Message) -> int:
        """A new issue; returns its number."""
        made = self._api.create(
            self._owner, self._repository, title=message.title[:_MOST_TITLE],
            body=f"{message.text[:_MOST_TEXT]}\n\n{_thread_mark(message.thread)}\n{_message_mark(message.key)}",
            labels=[*self._labels, *(each for each in message.labels if each not in self._labels)],
        )  # fmt: skip
        return made.parsed_data.number

    def tell(self, number: int, message: Message) -> None:
        """A comment, if neither the issue nor a comment of it is the message; then the issue's state and title."""
        issue = self._api.get(self._owner, self._repository, number).parsed_data
        mark = _message_mark(message.key)
        if mark not in (issue.body or "") and not self._has_comment(number, mark):
            self._api.create_comment(
                self._owner, self._repository, number, body=f"{message.text[:_MOST_TEXT]}\n\n{mark}"
            )
        if message.action == "resolved":
            if issue.state != "closed":
                self._api.update(
                    self._owner, self._repository, number, state="closed", state_reason="completed"
                )  # fmt: skip
        elif message.action == "reopened":
            self._api.update(self._owner, self._repository, number, state="open", title=message.title[:_MOST_TITLE])

    def _has_comment(self, number: int, mark: str) -> bool:
        for page in range(1, _MOST_PAGES + 1):
            listed: list[dict[str, Any]] = self._api.list_comments(
                self._owner, self._repository, number, per_page=_PAGE, page=page
            ).json()  # fmt: skip
            if any(mark in (comment["body"] or "") for comment in listed):
                return True
            if len(listed) < _PAGE:
                return False
        return False


def _thread_mark(thread: str) -> str:
    return f"<!-- warpwatch alert {thread} -->"


def _message_mark(key: str) -> str:
    return f"<!-- warpwatch message {key} -->"


def _reason(error: RequestFailed) -> str:
    try:
        said = error.response.json()
    except ValueError:
        return "no reason given"
    return str(said.get("message", "no reason given")) if isinstance(said, dict) else "no reason given"
