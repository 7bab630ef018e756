"""Asking a forge again: what it refused for now, and what nobody knows whether it did."""

import time
from collections.abc import Callable
from typing import TypeVar

_ATTEMPTS = 6
_LONGEST_WAIT_S = 300.0

Answer = TypeVar("Answer")


class ForgeError(Exception):
    """The forge did not take it and will not; the message says what to do."""


class TransientError(Exception):
    """The forge is away or busy. The request may have been carried out all the same."""

    def __init__(self, said: str, wait_s: float | None = None) -> None:
        """`wait_s` is what the forge asks for, None where it asks for nothing."""
        super().__init__(said)
        self.wait_s = wait_s


def again(do: Callable[[], Answer], *, sleep: Callable[[float], None] = time.sleep) -> Answer:
    """Does it until it is done, waiting 1, 2, 4 … seconds or what the forge asks for. Raises ForgeError.

    `do` looks first whether there is anything left to do: a request that failed may have had its effect.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return do()
        except TransientError as error:
            wait = error.wait_s if error.wait_s is not None else 2.0**attempt
            if attempt == _ATTEMPTS - 1 or wait > _LONGEST_WAIT_S:
                raise ForgeError(f"gave up after {attempt + 1} attempts, try again later: {error}") from error
        sleep(wait)
    raise AssertionError("unreachable")
