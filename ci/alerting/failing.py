"""A delivery that failed, and when it is tried again."""

import random
from urllib.parse import urlsplit

_FIRST_MS, _LONGEST_MS = 30_000, 3_600_000


class DeliveryError(Exception):
    """The destination did not take the message; the text says which one and why, without the secrets of its address."""

    def __init__(self, said: str, wait_s: float = 0.0) -> None:
        """`wait_s` is how long the destination asks to be left alone."""
        super().__init__(said)
        self.wait_s = wait_s


def pause_ms(attempts: int, chance: random.Random, asked_s: float = 0.0) -> int:
    """How long to wait after so many attempts: half a minute, twice as long each time, an hour at most.

    Between half and all of that, by chance, so that what failed together does not come back together. As long as the
    destination asks for at least, but for an hour at most too: years are a clock that is wrong.
    """
    whole = min(_FIRST_MS * 2 ** min(attempts - 1, 20), _LONGEST_MS)
    return max(round(whole * chance.uniform(0.5, 1.0)), min(round(1000 * asked_s), _LONGEST_MS))


def host_of(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
