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
    """The user's queues; the service's lie in /var/lib/warpwatch-push."""
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
                    f"{len(batches)} batches wait, the first for {oldest / _LATE_S:.0f} days",
                    why="The dashboard shows nothing newer than that.",
                    fix="warpwatch push, which says what is in its way",
                )
            else:
                yield good("queue", str(queue), f"{len(batches)} batches wait")
            if refused:
                yield note(
                    "queue",
                    str(queue / "refused"),
                    f"the dashboard rejected files of {len(refused)} batches",
                    why="What is in them is in no history.",
                    fix=f"read {refused[0]}.txt; then warpwatch push --again",
                )


def dashboard(host: Host) -> Iterator[Finding]:
    """Whether the dashboard of WARPWATCH_URL answers."""
    server = host.environ.get("WARPWATCH_URL")
    if not server:
        return
    looked_at = f"{server.rstrip('/')}/healthz"
    try:
        with urllib.request.urlopen(looked_at, timeout=10):
            pass
    except (OSError, ValueError) as error:  # an HTTP status is one of the former, a wrong address of the latter
        yield note(
            "dashboard",
            looked_at,
            f"{type(error).__name__}: {error}"[:200],
            why="Results wait on this machine until it answers.",
            fix="is WARPWATCH_URL its address, does it run, does a proxy or firewall stand between?",
        )
    else:
        yield good("dashboard", looked_at, "answers")
