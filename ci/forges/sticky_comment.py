"""One comment on a pull request, identified by a hidden marker and its author, and changed in place.

Forges have no conditional writes, so each attempt reads the comments before and after it writes. A report of an older
head is not written; if the head moves meanwhile, the newer report is restored.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from .forge_request import with_retries

_MARKER = re.compile(r"<!-- warpwatch:gate head=([0-9a-f]{40,64}) since=(\S{1,40}) -->")
_NEWER = (
    "### warpwatch: the pull request has a newer commit\n\nIts report follows its measurement; see also its checks."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    id: int
    author: str
    body: str
    created: datetime


class Thread(Protocol):
    """The conversation of one pull request. Its methods raise TransientError and ForgeError."""

    author: str  # our user name

    def head(self) -> str:
        """The full hash of the pull request's newest commit."""

    def comments(self) -> Iterable[Comment]:
        """All comments, oldest first."""

    def create(self, body: str) -> Comment:
        """Adds a comment."""

    def update(self, comment: int, body: str) -> None:
        """Changes a comment."""

    def delete(self, comment: int) -> None:
        """Deletes a comment, if it still exists."""


class PostOutcome(StrEnum):
    """The result of writing a report."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    STALE = "stale"  # the pull request has another head by now


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The hidden first line of a comment: the reported head, and the time of its first report."""

    head: str
    since: datetime

    def __str__(self) -> str:
        return f"<!-- warpwatch:gate head={self.head} since={self.since.isoformat(timespec='seconds')} -->"


def marker_of(body: str) -> Marker | None:
    """The marker of a comment; None without one."""
    match = _MARKER.fullmatch(body.partition("\n")[0].strip())
    if match is None:
        return None
    try:
        since = datetime.fromisoformat(match[2])
    except ValueError:
        return None
    return Marker(head=match[1], since=since) if since.tzinfo is not None else None


def put_comment(thread: Thread, head: str, text: str, *, sleep: Callable[[float], None] | None = None) -> PostOutcome:
    """Writes the report of `head` into our comment."""
    return with_retries(lambda: _put(thread, head, text), sleep=sleep)


def own_comments(thread: Thread) -> list[tuple[Comment, Marker]]:
    """Our reports, oldest first. Anyone can write a marker, so the author is checked."""
    own = []
    for comment in thread.comments():
        if comment.author == thread.author and (marker := marker_of(comment.body)) is not None:
            own.append((comment, marker))
    return sorted(own, key=lambda pair: pair[0].id)


def _put(thread: Thread, head: str, text: str) -> PostOutcome:
    if thread.head() != head:
        return PostOutcome.STALE
    own = own_comments(thread)
    outcome = PostOutcome.UNCHANGED
    if not own:
        created = thread.create(_body(head, text, None))
        thread.author = created.author  # the forge's value; this author may have older comments
        outcome = PostOutcome.CREATED
        marker = marker_of(created.body)
        own = own_comments(thread) or ([(created, marker)] if marker is not None else [])
    (first, marker), *others = own
    body = _body(head, text, marker)
    if _plain(first.body) != _plain(body):
        thread.update(first.id, body)
        outcome = PostOutcome.UPDATED if outcome is PostOutcome.UNCHANGED else outcome
    for other, _ in others:  # of jobs at the same time; each keeps the oldest
        thread.delete(other.id)
    return _settled(thread, head, first, marker, outcome)


def _settled(thread: Thread, head: str, first: Comment, before: Marker, outcome: PostOutcome) -> PostOutcome:
    """The outcome; if the head moved meanwhile, an overwritten report is restored."""
    newest = thread.head()
    if newest == head:
        return outcome
    if before.head == newest:
        thread.update(first.id, first.body)
    else:
        thread.update(first.id, _body(head, f"{_NEWER}\n\n{newest}", before))
    return PostOutcome.STALE


def _body(head: str, text: str, before: Marker | None) -> str:
    since = before.since if before is not None and before.head == head else datetime.now(UTC)
    return f"{Marker(head=head, since=since)}\n{text}"


def _plain(body: str) -> str:
    """The text as forges store it: normalized line ends, no trailing space."""
    return body.replace("\r\n", "\n").rstrip()
