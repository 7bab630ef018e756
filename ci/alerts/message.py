"""Messages: their place in a thread, and their composition."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit

from warpwatch.dashboard.text.markdown import defused

from ..retries import UnavailableError


class Action(StrEnum):
    """What a message reports of its alert."""

    OPENED = "opened"
    UPDATED = "updated"
    RESOLVED = "resolved"
    REOPENED = "reopened"


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
    labels: tuple[str, ...] = field(default=())  # of an issue, in addition to the destination's

    def as_json(self) -> str:
        """For the outbox."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, kept: str) -> Self:
        """From the outbox."""
        return cls(**json.loads(kept))


def thread_of(*facts: object) -> str:
    """A thread's name: 32 hexadecimal digits of a hash of its identity."""
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]


def key_of(thread: str, number: int) -> str:
    """The key of a thread's message."""
    return thread if number == 1 else f"{thread}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a message reports, independent of its place in a thread."""

    event: str  # an alert's kind, or "digest"
    project: str
    title: str
    text: str  # Markdown
    fields: Mapping[str, Any]  # of the payload, in addition to those of every message
    html: str | None = None


def compose(content: Content, *, thread: str, number: int, action: Action) -> Message:
    """The message with this number in its thread."""
    key = key_of(thread, number)
    head = {"schema": 2, "event": content.event, "action": action.value, "key": key, "thread": thread}
    return Message(
        key=key,
        thread=thread,
        action=action.value,
        title=defused(content.title),
        text=content.text,
        html=content.html,
        payload={**head, "title": content.title, "project": content.project, **content.fields},
        labels=(content.event,),
    )


class DeliveryError(UnavailableError):
    """The destination did not take the message; the text says which one and why, without the secrets of its address."""


def host_of(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
