"""One message of a thread, and the back-off of a failed delivery."""

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit


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


# A delivery that failed, and when it is tried again.

_FIRST_MS, _LONGEST_MS = 30_000, 3_600_000
_LONGEST_WAIT_S = 24 * 3600.0


class DeliveryError(Exception):
    """The destination did not take the message; the text says which one and why, without the secrets of its address."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        """`wait_s` is how long the destination asks to be left alone; None where it asks for nothing."""
        super().__init__(message)
        self.wait_s = None if wait_s is None else min(wait_s, _LONGEST_WAIT_S)


def pause_ms(attempts: int, chance: random.Random) -> int:
    """How long to wait after so many attempts: half a minute, twice as long each time, an hour at most.

    Between half and all of that, by chance, so that what failed together does not come back together.
    """
    whole = min(_FIRST_MS * 2 ** min(attempts - 1, 20), _LONGEST_MS)
    return round(whole * chance.uniform(0.5, 1.0))


def host_of(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
