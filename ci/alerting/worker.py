"""Which process a sender is, so that others can tell whether it still is.

A claim of a process that is known to be gone need not run out: it is known where host, process namespace and number are
ours to look up. Of a process elsewhere nothing is known, and its claim runs out.
"""

import os
import socket
from pathlib import Path


def this_worker() -> str:
    """host|namespace|number|start: a number is given to another process some day, a start is not."""
    number = os.getpid()
    return f"{socket.gethostname()}|{_namespace()}|{number}|{_start(number)}"


def is_gone(worker: str) -> bool:
    """Whether it surely is."""
    parts = worker.split("|")
    if len(parts) != 4 or parts[:2] != [socket.gethostname(), _namespace()] or not parts[3]:
        return False
    return _start(int(parts[2])) != parts[3]


def _namespace() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  (no path: "pid:[4026531836]")
    except OSError:
        return ""


def _start(number: int) -> str:
    """Clock ticks from boot to the process's start; empty where there is no such process, or no /proc."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
