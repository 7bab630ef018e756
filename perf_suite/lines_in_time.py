"""Lines from another process, each awaited for so long and no longer. No torch here."""

import os
import select
import time


class SilentError(Exception):
    """No line came in time; the message says within how many seconds."""


class LinesInTime:
    """What is written to the other end of a pipe."""

    def __init__(self, reader: int) -> None:
        self._reader, self._buffer = reader, b""

    def next(self, limit_s: float) -> str | None:
        """The next line, or None once everybody who could write it is gone. Raises SilentError."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SilentError(f"no answer within {limit_s:g} s")
            piece = os.read(self._reader, 1 << 16)
            if not piece:
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Give the pipe's end back; once or more often."""
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
