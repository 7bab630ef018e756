"""A delivery that failed, and when it is tried again."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

_FIRST_MS, _LONGEST_MS = 30_000, 3_600_000
_LONGEST_WAIT_S = 24 * 3600.0


class DeliveryError(Exception):
    """The destination did not take the message; the text says which one and why, without the secrets of its address."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        """`wait_s` is how long the destination asks to be left alone; None where it asks for nothing."""
        super().__init__(message)
        self.wait_s = wait_s


def pause_ms(attempts: int, chance: random.Random) -> int:
    """How long to wait after so many attempts: half a minute, twice as long each time, an hour at most.

    Between half and all of that, by chance, so that what failed together does not come back together.
    """
    whole = min(_FIRST_MS * 2 ** min(attempts - 1, 20), _LONGEST_MS)
    return round(whole * chance.uniform(0.5, 1.0))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What an answer's Retry-After asks for, seconds or a date (RFC 9110, 10.2.3), a day at most; None without one."""
    stated = headers.get("Retry-After", "").strip()
    try:
        wait_s = float(stated) if stated.replace(".", "", 1).isdecimal() else _seconds_until(stated)
    except (TypeError, ValueError):  # no date, or one without a time zone
        return None
    return min(max(wait_s, 0.0), _LONGEST_WAIT_S)


def _seconds_until(date: str) -> float:
    return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()


def host_of(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
