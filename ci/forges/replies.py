"""Regressions accepted in replies: `/warpwatch accept <glob> [<= 5 %] <why>`, from whoever may write to the repository.

A reply counts for the head whose report stood there when it was written: what is pushed afterwards nobody has accepted.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from warpwatch.dashboard.model.comparison import Acceptance

from ..acceptance.grammar import WANTED, parse_wording
from ..gate.artefact import plain
from .retries import again
from .sticky_comment import Comment, Thread, own_comments

_COMMAND = re.compile(r"^/warpwatch[ \t]+accept\b(?P<said>.*)$", re.MULTILINE)
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)  # what someone only shows


class AskedThread(Thread, Protocol):
    """A conversation of which one can ask who may write."""

    def may_write(self, user: str) -> bool:
        """Whether that user may push."""


def commands(body: str) -> Iterator[str]:
    """What stands behind each `/warpwatch accept` of a comment."""
    for found in _COMMAND.finditer(_CODE.sub("", body.replace("\r\n", "\n"))):
        yield found["said"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """What was said of accepting."""

    accepted: tuple[Acceptance, ...]  # of this head
    expired: tuple[Acceptance, ...]  # by who may, before this head was reported
    refused: tuple[str, ...]  # for each line that does not count a sentence why


def replies_of(thread: AskedThread, key: str, head: str, *, sleep: Callable[[float], None] | None = None) -> Replies:
    """The replies that accept something, as they stand to this head. Raises ForgeError."""
    return again(lambda: _replies(thread, key, head), sleep=sleep)


def _replies(thread: AskedThread, key: str, head: str) -> Replies:
    accepted, expired, refused = [], [], []
    reports = [marker for _, marker in own_comments(thread, key) if marker.head == head]
    allowed: dict[str, bool] = {}
    for comment in thread.comments():
        for line in commands(comment.body):
            who = f"{comment.author} (comment {comment.id})"
            if comment.author not in allowed:
                allowed[comment.author] = thread.may_write(comment.author)
            if not allowed[comment.author]:
                refused.append(f"{who} may not write to the repository")
                continue
            try:
                said = _acceptance(comment, line)
            except ValueError:
                refused.append(f"{who}: wanted /warpwatch accept {WANTED}")
                continue
            if not reports or comment.created < reports[0].since:
                expired.append(said)
                refused.append(f"{who} spoke before {head[:8]} was reported")
            else:
                accepted.append(said)
    return Replies(accepted=tuple(accepted), expired=tuple(expired), refused=tuple(refused))


def accept_file(base: str, head: str, replies: Iterable[Acceptance]) -> str:
    """What `warpwatch gate --accept` reads: it counts for these two commits alone."""
    accepted = [
        {
            "pattern": each.pattern,
            "reason": each.reason,
            "by": each.by,
            "at": each.at.isoformat(),
            "source": each.source,
            "at_most": each.at_most,
        }
        for each in replies
    ]
    return json.dumps({"base": base, "head": head, "accepted": accepted}, ensure_ascii=False, indent=1)


def _acceptance(comment: Comment, line: str) -> Acceptance:
    """Raises ValueError for what says too little."""
    said = parse_wording(line)
    if said.at_most == 0 or len(said.pattern) > 200:
        raise ValueError("accepts nothing")
    return Acceptance(
        pattern=plain(said.pattern, 200),
        reason=plain(said.reason, 1000),
        by=plain(comment.author, 200),
        at=comment.created,
        source=f"comment {comment.id}",
        at_most=said.at_most,
    )
