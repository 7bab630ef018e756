"""Lines from another process, each awaited for so long and no longer. No torch here."""

import os
import selectors
import subprocess
import time
from typing import Any

_LOOK_S = 0.1  # how often the writing process is looked at while nothing comes


class SilentError(Exception):
    """No line came in time; the message says within how many seconds."""


class LinesInTime:
    """What `writer` writes to the other end of a pipe.

    The end of the writer is seen by itself: a process that it has forked may hold the pipe open long after.
    """

    def __init__(self, reader: int, writer: subprocess.Popen[Any]) -> None:
        self._reader, self._writer, self._buffer = reader, writer, b""
        self._selector = selectors.DefaultSelector()  # select.select refuses descriptors from 1024 on
        self._selector.register(reader, selectors.EVENT_READ)

    def next(self, limit_s: float) -> str | None:
        """The next line, or None once the writer has ended. Raises SilentError."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            has_ended = self._writer.poll() is not None  # before the pipe is read: what it wrote is in there
            left_s = deadline - time.monotonic()
            if not self._selector.select(0.0 if has_ended else max(0.0, min(left_s, _LOOK_S))):
                if has_ended:
                    return None
                if left_s <= 0:
                    raise SilentError(f"no answer within {limit_s:g} s")
                continue
            piece = os.read(self._reader, 1 << 16)
            if not piece:
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """Give the pipe's end back; once or more often."""
        if self._reader >= 0:
            self._selector.close()
            os.close(self._reader)
            self._reader = -1
