"""Requests to a forge: errors, and retries after rate limits, server errors, lost connections, unreadable answers."""

import json
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..retries import Backoff, UnavailableError, requested_wait_s, retry

_ATTEMPTS = 6
_TOTAL_S = 600.0
_RATE_LIMIT_S = 60.0  # GitHub's least pause after a secondary rate limit without Retry-After
_NO_CONTENT = 204
_BACKOFF = Backoff(first_s=1.0, longest_s=_TOTAL_S)

Answer = TypeVar("Answer")


class ForgeError(Exception):
    """A request to the forge failed; the message gives the reason and the fix."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """`status` is the status code of the forge's answer; None without an answer."""
        super().__init__(message)
        self.status = status


class TransientError(ForgeError, UnavailableError):
    """The forge is unavailable or busy. The request may still have had its effect."""

    def __init__(
        self, message: str, wait_s: float | None = None, *, first_s: float = 0.0, status: int | None = None
    ) -> None:
        """`wait_s` and `first_s` as of UnavailableError, `status` as of ForgeError."""
        UnavailableError.__init__(self, message, wait_s, first_s=first_s)
        self.status = status


def with_retries(
    do: Callable[[], Answer], *, sleep: Callable[[float], None] | None = None, total_s: float = _TOTAL_S
) -> Answer:
    """Calls `do` until it succeeds, at most six times within `total_s` seconds. Raises ForgeError.

    `do` must check first what is left to do: a failed request may have had its effect.
    """
    count = 0

    def attempt() -> Answer:
        nonlocal count
        count += 1
        return do()

    try:
        return retry(attempt, _BACKOFF, attempts=_ATTEMPTS, total_s=total_s, sleep=sleep)
    except TransientError as error:
        attempts = f"{count} attempt{'s' if count > 1 else ''}"
        raise ForgeError(f"gave up after {attempts}, try again later: {error}", error.status) from error


_LIMIT_WORDS = ("rate limit", "abuse detection")


def check_answer(
    forge: str,
    method: str,
    status: int,
    headers: Mapping[str, str],
    text: str,
    *,
    now: Callable[[], float] = time.time,
) -> None:
    """Raises TransientError for an answer after which the same request may succeed later.

    `headers` must ignore the case of names. A 2xx without JSON is a proxy's page or was cut off, except for deletions
    and 204. Source of GitHub's limits: "Rate limits for the REST API" (docs.github.com).
    """
    if 200 <= status < 300:
        if method != "DELETE" and status != _NO_CONTENT and not _is_json(text):
            raise TransientError(f"{forge} answered {status} without JSON", status=status)
        return
    wait = requested_wait_s(headers, now)
    if status == 429 or (status == 403 and (wait is not None or any(word in text.lower() for word in _LIMIT_WORDS))):
        until = f", which ends in {wait:.0f} s" if wait is not None else ""
        first_s = _RATE_LIMIT_S if wait is None else 0.0
        raise TransientError(f"{forge} answered {status}, a rate limit{until}", wait, first_s=first_s, status=status)
    if status >= 500 or status == 408:
        raise TransientError(f"{forge} answered {status}", wait, status=status)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
