"""The services of `warpwatch runner setup`, their secrets, GitHub's runner program, and the queue of results."""

import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from ...push.queue import default_queue_folder
from ..host import (
    ACTIONS,
    OLDEST,
    RELEASES,
    SECRETS,
    UNIT_FOLDER,
    WATCHED_UNITS,
    Finding,
    Host,
    good,
    is_too_old,
    note,
    unknown,
    version_of,
    wrong,
)

_SETUP = "sudo warpwatch runner setup"


def units(host: Host) -> Iterator[Finding]:
    """State of the installed units in systemd."""
    folder = host.root / UNIT_FOLDER
    installed = [name for name in WATCHED_UNITS if (folder / name).is_file()]
    if not installed:
        yield note(
            "services",
            str(folder),
            "none installed",
            why="Nothing measures and sends results automatically.",
            fix=_SETUP,
        )
    for name in installed:
        answer = host.run("systemctl", "show", name, "--property=ActiveState,UnitFileState,Result")
        if answer.status:
            yield unknown("services", f"systemctl show {name}", answer.first_line or "systemd does not run here")
            continue
        properties = dict(line.partition("=")[::2] for line in answer.out.splitlines())
        state, enabled, result = (properties.get(key, "") for key in ("ActiveState", "UnitFileState", "Result"))
        if state == "failed" or result not in {"success", ""}:
            yield wrong(
                "services",
                f"systemctl show {name}",
                f"{state}, last result {result}",
                why="The service stays off until it is restarted: no measurements, or no results.",
                fix=f"journalctl -u {name} -n 50; then sudo systemctl restart {name}",
            )
        elif enabled == "enabled" and state == "inactive":
            yield wrong(
                "services",
                f"systemctl show {name}",
                "enabled, but inactive",
                why="A unit that it requires failed, or somebody stopped it; it does not restart automatically.",
                fix=f"journalctl -b -u 'warpwatch-*' -n 50; then sudo systemctl start {name}",
            )
        elif enabled != "enabled":
            yield note(
                "services",
                f"systemctl show {name}",
                f"{state}, but {enabled or 'not enabled'}",
                why="The service does not start at boot.",
                fix=f"sudo systemctl enable --now {name}",
            )
        else:
            yield good("services", f"systemctl show {name}", f"{state}, {enabled}")


def jobs(host: Host) -> Iterator[Finding]:
    """Whether jobs of GitHub Actions are isolated from each other, by the unit's file."""
    unit = host.root / UNIT_FOLDER / ACTIONS
    text = host.read(f"{UNIT_FOLDER}/{ACTIONS}")
    if text is None:
        return
    lines = set(text.splitlines())
    if lines >= {"DynamicUser=yes", "PrivateTmp=yes"} and any(line.startswith("Environment=HOME=") for line in lines):
        yield good("jobs", str(unit), "each job has its own user and home")
    else:
        yield wrong(
            "jobs",
            str(unit),
            "jobs share the user and home of the measurements",
            why="Files that a pull request's job leaves (.gitconfig, pip's cache, objects) affect later runs.",
            fix=_SETUP,
        )


def actions_runner(host: Host) -> Iterator[Finding]:
    """Version of GitHub's runner program, in the folder that the unit's file names."""
    setting = re.search(r"^ActionsRunner=(.+)$", host.read(f"{UNIT_FOLDER}/{ACTIONS}") or "", re.MULTILINE)
    if setting is None:
        return
    folder = Path(setting[1])
    version = version_of(host, folder)
    if version is None:
        yield unknown("GitHub's runner", str(folder), "version not reported")
    elif is_too_old(version):
        yield wrong(
            "GitHub's runner",
            str(folder),
            f"version {version}",
            why=f"The workflows need {OLDEST} or newer: jobs fail before their first step.",
            fix=f"unpack a newer version there: {RELEASES}",
        )
    else:
        yield good("GitHub's runner", str(folder), f"version {version}")


def credentials(host: Host) -> Iterator[Finding]:
    """Permissions of the token files: their readers can upload, or register runners."""
    for path in SECRETS:
        file = host.root / path
        if not file.parent.is_dir():
            continue
        try:
            mode = file.stat().st_mode
        except PermissionError:
            yield good("secrets", str(file), "not accessible to this user, nor to measured code")
            continue
        except FileNotFoundError:
            continue
        if mode & 0o077:
            yield wrong(
                "secrets",
                str(file),
                f"mode {mode & 0o777:o}",
                why="Measured code can read the token.",
                fix=f"sudo chmod 600 {file}",
            )
        else:
            yield good("secrets", str(file), "readable only by its owner")


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
