"""Retries with exponential back-off, pauses that servers request, and their answers."""

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

if TYPE_CHECKING:
    import requests

_JITTER = 0.5  # at most this share of a pause is added at random

Answer = TypeVar("Answer")


def json_object(response: "requests.Response") -> dict[str, Any]:
    """The JSON object of a server's answer; empty if it is none, such as a proxy's page."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


class UnavailableError(Exception):
    """A server is away or busy: the same request may succeed later."""

    def __init__(self, message: str, wait_s: float | None = None, *, first_s: float = 0.0) -> None:
        """`wait_s` is the pause that the server requests, in seconds; None if it requests none.

        `first_s` is the least first pause, which doubles with further attempts.
        """
        super().__init__(message)
        self.wait_s, self.first_s = wait_s, first_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses after consecutive failures: doubled from `first_s` to `longest_s`, plus up to half as jitter.

    Jitter keeps clients of one server from retrying at the same time (Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015). A longer pause that the server requests counts, up to `longest_requested_s`.
    """

    first_s: float
    longest_s: float
    longest_requested_s: float = math.inf

    def pause_s(self, attempt: int, error: BaseException | None = None) -> float:
        """Seconds to wait after the attempt with this number, counted from 1, which failed with the error."""
        requested_s, first_s = 0.0, self.first_s
        if isinstance(error, UnavailableError):
            requested_s, first_s = min(error.wait_s or 0.0, self.longest_requested_s), max(first_s, error.first_s)
        bound = min(first_s * 2.0 ** min(attempt - 1, 30), self.longest_s)
        return max(bound * random.uniform(1.0, 1.0 + _JITTER), requested_s)


def retry(
    do: Callable[[], Answer],
    backoff: Backoff,
    *,
    on: tuple[type[Exception], ...] = (UnavailableError,),
    attempts: float = math.inf,
    total_s: float = math.inf,
    say: Callable[[str], None] = lambda line: None,
    sleep: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Calls `do` until it succeeds.

    Raises its last error after `attempts`, or if the next pause would end more than `total_s` seconds after the start.
    `say` gets a line before each pause.
    """
    start = clock()

    def pause(state: tenacity.RetryCallState) -> float:
        return backoff.pause_s(state.attempt_number, _error(state))

    def is_over(state: tenacity.RetryCallState) -> bool:
        spent = max(state.idle_for, clock() - start)
        return state.attempt_number >= attempts or spent + state.upcoming_sleep > total_s

    def announce(state: tenacity.RetryCallState) -> None:
        say(f"{_error(state)}; again in {math.ceil(state.upcoming_sleep)} s")

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(on),
        wait=pause,
        stop=is_over,
        before_sleep=announce,
        sleep=sleep or tenacity.nap.sleep,
        reraise=True,
    )
    return retrying(do)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def requested_wait_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds from Retry-After (RFC 9110, 10.2.3: a number or a date), else until an exhausted rate limit resets."""
    retry_after = (headers.get("Retry-After") or "").strip()
    if retry_after.isdecimal():
        return float(retry_after)
    if retry_after:
        try:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now())
        except ValueError:
            pass  # treated as missing
    for prefix in ("X-RateLimit", "RateLimit"):  # GitHub's, GitLab's
        reset = (headers.get(f"{prefix}-Reset") or "").strip()
        if (headers.get(f"{prefix}-Remaining") or "").strip() == "0" and reset.isdecimal():
            return max(0.0, float(reset) - now()) + 1.0  # its clock differs from ours
    return None
