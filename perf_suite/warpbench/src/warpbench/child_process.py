"""How warpbench starts a Python process of its own. No torch here."""

import ctypes
import os
import runpy
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import benchmark_root

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


_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_INSTALLED_IN = Path(__file__).resolve().parent.parent


def compiling_alone() -> dict[str, str]:
    """The environment of a process that may meet torch.compile, which otherwise starts a compiler on every core.

    Those would run at the same time as what is timed, or eight times over where several processes compile ahead.
    """
    return {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def python_running(module: str, *, under_another_program: bool = False) -> list[str]:
    """The command that runs `module` with the packages and the benchmark directory that this process finds.

    It ends with the thread that starts it: the main one, or one that waits for it. This process has to start it itself,
    unless it runs `under_another_program` such as a profiler, with which it ends then.
    asv puts ASV_PYTHONPATH on sys.path alone, so sys.path itself is handed on. -P keeps the working directory off
    it, where a folder may be called like an installed package.
    """
    places = [*filter(None, sys.path), str(_INSTALLED_IN)]
    parent = None if under_another_program else os.getpid()
    code = f"import sys; sys.path[:] = {places!r}; "
    code += f"from warpbench.child_process import become; become({module!r}, {parent!r})"
    return [sys.executable, "-P", "-c", code]


def become(module: str, parent: int | None) -> None:
    """Run `module` as the main one, in a process that ends with the one that started it."""
    # It must not outlive its parent: in a hung kernel it would hold the GPU forever.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:  # no signal comes from a parent that ended before this one asked
        sys.exit("the process that started this one has ended")
    benchmark_root.use_inherited()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
