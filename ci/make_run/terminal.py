"""The terminal of `make run`: lines that stay, and below them one that is overwritten."""

import shutil
import sys


class Terminal:
    """Where stdout is no terminal, the overwritten line appears once for each `topic`."""

    def __init__(self) -> None:
        self._shown = ""
        self._topic = ""

    def say(self, line: str) -> None:
        """Print a line that stays."""
        print(("\r\033[K" if self._shown and sys.stdout.isatty() else "") + line, flush=True)
        self._shown = ""

    def show(self, line: str, topic: str) -> None:
        """Put a line in the place of the last one shown."""
        if not sys.stdout.isatty():
            if topic != self._topic:
                print(line, flush=True)
        elif line != self._shown:
            width = shutil.get_terminal_size().columns
            print("\r\033[K" + line[: width - 1], end="", flush=True)
            self._shown = line
        self._topic = topic
