"""Retries of requests to a forge: rate limits, server errors, lost connections, and answers that are none."""

import json
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import NoReturn, TypeVar

import tenacity

_ATTEMPTS = 6
_TOTAL_S = 600.0
_RATE_LIMIT_S = 60.0  # what GitHub asks for where a secondary limit names no time
_NO_CONTENT = 204

Answer = TypeVar("Answer")


class ForgeError(Exception):
    """The forge did not carry out a request; the message says what to do."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """`status` is that of the forge's answer, None where there was none."""
        super().__init__(message)
        self.status = status


class TransientError(ForgeError):
    """The forge is away or busy. The request may have been carried out all the same."""

    def __init__(self, message: str, wait_s: float = 0.0, *, first_s: float = 1.0, status: int | None = None) -> None:
        """`wait_s` is what the forge asks for; pauses are no shorter than `first_s`, twice as long each time."""
        super().__init__(message, status)
        self.wait_s, self.first_s = wait_s, first_s

    def pause_s(self, attempt: int) -> float:
        """How long to wait after so many attempts."""
        return max(self.wait_s, self.first_s * 2.0 ** (attempt - 1))


def again(
    do: Callable[[], Answer], *, sleep: Callable[[float], None] | None = None, total_s: float = _TOTAL_S
) -> Answer:
    """Calls `do` until it succeeds, six times within `total_s` seconds at most. Raises ForgeError.

    `do` has to look first whether there is anything left to do: a request that failed may have had its effect.
    """

    def is_over(state: tenacity.RetryCallState) -> bool:
        spent = max(state.idle_for, state.seconds_since_start or 0.0)
        return state.attempt_number >= _ATTEMPTS or spent + state.upcoming_sleep > total_s

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        wait=_pause,
        stop=is_over,
        sleep=sleep or tenacity.nap.sleep,
        retry_error_callback=_give_up,
    )
    return retrying(do)


def _pause(state: tenacity.RetryCallState) -> float:
    return _error_of(state).pause_s(state.attempt_number)


def _give_up(state: tenacity.RetryCallState) -> NoReturn:
    error, count = _error_of(state), state.attempt_number
    attempts = f"{count} attempt{'s' if count > 1 else ''}"
    raise ForgeError(f"gave up after {attempts}, try again later: {error}", error.status) from error


def _error_of(state: tenacity.RetryCallState) -> TransientError:
    error = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(error, TransientError)
    return error


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

    `headers` take names in any case. A 2xx without JSON is a proxy's page or was cut off: a forge answers JSON to all
    but a deletion and where it says that there is no content. GitHub's limits are described in "Rate limits for the
    REST API" (docs.github.com).
    """
    if 200 <= status < 300:
        if method != "DELETE" and status != _NO_CONTENT and not _is_json(text):
            raise TransientError(f"{forge} answered {status} without JSON", status=status)
        return
    wait = asked_wait_s(headers, now)
    if status == 429 or (status == 403 and (wait is not None or _names_a_limit(text))):
        until = f", which ends in {wait:.0f} s" if wait is not None else ""
        raise TransientError(
            f"{forge} answered {status}, a rate limit{until}",
            wait or 0.0,
            status=status,
            first_s=_RATE_LIMIT_S if wait is None else 1.0,
        )
    if status >= 500 or status == 408:
        raise TransientError(f"{forge} answered {status}", wait or 0.0, status=status)


def asked_wait_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds by Retry-After (RFC 9110, 10.2.3: a number or a date), else until a limit that is used up ends."""
    said = (headers.get("Retry-After") or "").strip()
    if said.isdecimal():
        return float(said)
    if said:
        try:
            return max(0.0, parsedate_to_datetime(said).timestamp() - now())
        except ValueError:
            pass  # as if it were missing
    for prefix in ("X-RateLimit", "RateLimit"):  # GitHub's, GitLab's
        reset = (headers.get(f"{prefix}-Reset") or "").strip()
        if (headers.get(f"{prefix}-Remaining") or "").strip() == "0" and reset.isdecimal():
            return max(0.0, float(reset) - now()) + 1.0  # its clock is not ours
    return None


def _names_a_limit(text: str) -> bool:
    return "rate limit" in text.lower() or "abuse detection" in text.lower()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
