"""Uploads: queued batches, rejected files, and whether the dashboard answers."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from ...push.queue import default_queue_folder
from ..finding import Finding, good, note, wrong
from ..host import Host

_LATE_S = 86_400


def waiting(host: Host) -> Iterator[Finding]:
    """Batches in the user's queues and in those of the service."""
    for root in (
        Path(host.environ.get("WARPWATCH_SPOOL") or default_queue_folder()),
        host.root / "var/lib/warpwatch-push",
    ):
        try:
            queues = [path.parent for path in root.glob("*/destination.json")]
        except OSError:
            continue
        for queue in queues:
            batches = list((queue / "waiting").glob("*.tar.zst"))
            refused = list((queue / "refused").glob("*.tar.zst"))
            oldest = max((time.time() - path.stat().st_mtime for path in batches), default=0.0)
            if oldest > _LATE_S:
                yield wrong(
                    "queue",
                    str(queue),
                    f"{len(batches)} batches waiting, the oldest for {oldest / _LATE_S:.0f} days",
                    why="The dashboard shows no newer results.",
                    fix="warpwatch push, which reports the reason",
                )
            else:
                yield good("queue", str(queue), f"{len(batches)} batches waiting")
            if refused:
                yield note(
                    "queue",
                    str(queue / "refused"),
                    f"the dashboard rejected files of {len(refused)} batches",
                    why="Their results are not in the history.",
                    fix=f"read {refused[0]}.txt; then warpwatch push --again",
                )


def dashboard(host: Host) -> Iterator[Finding]:
    """Whether the dashboard of WARPWATCH_URL answers."""
    server = host.environ.get("WARPWATCH_URL")
    if not server:
        return
    source = f"{server.rstrip('/')}/healthz"
    try:
        with urllib.request.urlopen(source, timeout=10):
            pass
    except (OSError, ValueError) as error:  # HTTPError is an OSError; an invalid address raises ValueError
        yield note(
            "dashboard",
            source,
            f"{type(error).__name__}: {error}"[:200],
            why="Results stay on this machine until the dashboard answers.",
            fix="check WARPWATCH_URL, that the dashboard runs, and that no proxy or firewall blocks it",
        )
    else:
        yield good("dashboard", source, "answers")
