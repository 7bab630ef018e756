"""A delivery that failed, and when it is tried again."""

import random
from urllib.parse import urlsplit

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
