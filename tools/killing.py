"""Kill an import, and check that none of its processes survives."""

import os
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

_STUCK_S = 300


def kill_import(process: BaseProcess, *, alone: bool) -> None:
    """Return when it and its children have ended. Raises ChildProcessError if they survive.

    It leads a process group of its own, which is struck as a whole if not `alone`. It may have ended by itself a moment
    ago, and be struck before it has that group.
    """
    group = process.pid or 0
    if not alone:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    process.kill()
    process.join()
    deadline = time.monotonic() + _STUCK_S
    while _lives(group):
        if time.monotonic() > deadline:
            raise ChildProcessError(f"processes of group {group} outlive the import that started them")
        time.sleep(0.01)


def _lives(group: int) -> bool:
    """Whether the group has a running process; zombies have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            state, _parent, its_group = status.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False
