"""What is sent: one message of a thread, the same for every destination."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`key` is the same at every attempt and for no other message, so that a receiver can drop a repetition."""

    key: str
    title: str
    text: str  # Markdown
    payload: Mapping[str, Any]  # for programs: the webhook's body
    thread: str = ""  # what all messages of an alert have in common
    action: str = "opened"
    html: str | None = None
    labels: tuple[str, ...] = field(default=())  # of an issue, beside the destination's

    def as_json(self) -> str:
        """For the outbox."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, kept: str) -> Self:
        """From the outbox."""
        return cls(**json.loads(kept))


def thread_of(*facts: object) -> str:
    """A thread's name: 32 hex digits of what tells it from every other."""
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]


def key_of(thread: str, number: int) -> str:
    """The key of a thread's message."""
    return thread if number == 1 else f"{thread}-{number}"
