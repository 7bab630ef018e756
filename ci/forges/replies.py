"""Regressions accepted in replies: `/warpwatch accept <glob> [<= 5 %] <why>` by users with write access.

A reply applies to the head whose report it answers, and to no later one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from warpwatch.dashboard.model.comparison import Acceptance

from ..acceptance import SYNTAX, parse_acceptance
from ..gate.artefact import plain
from .forge_request import with_retries
from .sticky_comment import Comment, Thread, own_comments

_COMMAND = re.compile(r"^/warpwatch[ \t]+accept\b(?P<arguments>.*)$", re.MULTILINE)
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)  # code blocks are no commands


class ThreadWithPermissions(Thread, Protocol):
    """A conversation that knows the permissions of users."""

    def may_write(self, user: str) -> bool:
        """Whether the user has write access."""


def commands(body: str) -> Iterator[str]:
    """The arguments of each `/warpwatch accept` in a comment."""
    for match in _COMMAND.finditer(_CODE.sub("", body.replace("\r\n", "\n"))):
        yield match["arguments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    accepted: tuple[Acceptance, ...]  # for this head
    expired: tuple[Acceptance, ...]  # for an earlier head
    refused: tuple[str, ...]  # a sentence for each rejected command


def replies_of(thread: ThreadWithPermissions, head: str) -> Replies:
    """The acceptances in replies to the report of this head. Raises ForgeError."""
    return with_retries(lambda: _replies(thread, head))


def _replies(thread: ThreadWithPermissions, head: str) -> Replies:
    accepted, expired, refused = [], [], []
    reports = [marker for _, marker in own_comments(thread) if marker.head == head]
    allowed: dict[str, bool] = {}
    for comment in thread.comments():
        for line in commands(comment.body):
            reply = f"{comment.author} (comment {comment.id})"
            if comment.author not in allowed:
                allowed[comment.author] = thread.may_write(comment.author)
            if not allowed[comment.author]:
                refused.append(f"{reply} has no write access to the repository")
                continue
            try:
                acceptance = _acceptance(comment, line)
            except ValueError:
                refused.append(f"{reply}: expected /warpwatch accept {SYNTAX}")
                continue
            if not reports or comment.created < reports[0].since:
                expired.append(acceptance)
                refused.append(f"{reply} is older than the report of {head[:8]}")
            else:
                accepted.append(acceptance)
    return Replies(accepted=tuple(accepted), expired=tuple(expired), refused=tuple(refused))


def _acceptance(comment: Comment, line: str) -> Acceptance:
    """The acceptance of a command. Raises ValueError for an incomplete one."""
    parsed = parse_acceptance(line)
    if parsed.at_most == 0 or len(parsed.pattern) > 200:
        raise ValueError("accepts nothing")
    return Acceptance(
        pattern=plain(parsed.pattern, 200),
        reason=plain(parsed.reason, 1000),
        by=plain(comment.author, 200),
        at=comment.created,
        source=f"comment {comment.id}",
        at_most=parsed.at_most,
    )
