"""The services of `warpwatch runner setup`, their secrets, GitHub's runner program, and the queue of results."""

import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from ...push.queue import default_queue_folder
from ..finding import Finding, Subject
from ..host import Host
from ..service_files import ACTIONS, OLDEST, RELEASES, SECRETS, UNIT_FOLDER, WATCHED_UNITS, is_too_old, version_of

_SETUP = "sudo warpwatch runner setup"


def units(host: Host) -> Iterator[Finding]:
    """State of the installed units in systemd."""
    folder = host.root / UNIT_FOLDER
    installed = [name for name in WATCHED_UNITS if (folder / name).is_file()]
    if not installed:
        yield Subject("services", str(folder)).note(
            "none installed", why="Nothing measures and sends results automatically.", fix=_SETUP
        )
    for name in installed:
        subject = Subject("services", f"systemctl show {name}")
        answer = host.run("systemctl", "show", name, "--property=ActiveState,UnitFileState,Result")
        if answer.status:
            yield subject.unknown(answer.first_line or "systemd does not run here")
            continue
        properties = dict(line.partition("=")[::2] for line in answer.out.splitlines())
        state, enabled, result = (properties.get(key, "") for key in ("ActiveState", "UnitFileState", "Result"))
        if state == "failed" or result not in {"success", ""}:
            yield subject.wrong(
                f"{state}, last result {result}",
                why="The service stays off until it is restarted: no measurements, or no results.",
                fix=f"journalctl -u {name} -n 50; then sudo systemctl restart {name}",
            )
        elif enabled == "enabled" and state == "inactive":
            yield subject.wrong(
                "enabled, but inactive",
                why="A unit that it requires failed, or somebody stopped it; it does not restart automatically.",
                fix=f"journalctl -b -u 'warpwatch-*' -n 50; then sudo systemctl start {name}",
            )
        elif enabled != "enabled":
            yield subject.note(
                f"{state}, but {enabled or 'not enabled'}",
                why="The service does not start at boot.",
                fix=f"sudo systemctl enable --now {name}",
            )
        else:
            yield subject.good(f"{state}, {enabled}")


def jobs(host: Host) -> Iterator[Finding]:
    """Whether jobs of GitHub Actions are isolated from each other, by the unit's file."""
    unit = host.root / UNIT_FOLDER / ACTIONS
    text = host.read(f"{UNIT_FOLDER}/{ACTIONS}")
    if text is None:
        return
    lines = set(text.splitlines())
    subject = Subject("jobs", str(unit))
    if lines >= {"DynamicUser=yes", "PrivateTmp=yes"} and any(line.startswith("Environment=HOME=") for line in lines):
        yield subject.good("each job has its own user and home")
    else:
        yield subject.wrong(
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
    subject = Subject("GitHub's runner", str(folder))
    if version is None:
        yield subject.unknown("version not reported")
    elif is_too_old(version):
        yield subject.wrong(
            f"version {version}",
            why=f"The workflows need {OLDEST} or newer: jobs fail before their first step.",
            fix=f"unpack a newer version there: {RELEASES}",
        )
    else:
        yield subject.good(f"version {version}")


def credentials(host: Host) -> Iterator[Finding]:
    """Permissions of the token files: their readers can upload, or register runners."""
    for path in SECRETS:
        file = host.root / path
        if not file.parent.is_dir():
            continue
        subject = Subject("secrets", str(file))
        try:
            mode = file.stat().st_mode
        except PermissionError:
            yield subject.good("not accessible to this user, nor to measured code")
            continue
        except FileNotFoundError:
            continue
        if mode & 0o077:
            yield subject.wrong(
                f"mode {mode & 0o777:o}", why="Measured code can read the token.", fix=f"sudo chmod 600 {file}"
            )
        else:
            yield subject.good("readable only by its owner")


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
                yield Subject("queue", str(queue)).wrong(
                    f"{len(batches)} batches waiting, the oldest for {oldest / _LATE_S:.0f} days",
                    why="The dashboard shows no newer results.",
                    fix="warpwatch push, which reports the reason",
                )
            else:
                yield Subject("queue", str(queue)).good(f"{len(batches)} batches waiting")
            if refused:
                yield Subject("queue", str(queue / "refused")).note(
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
    subject = Subject("dashboard", source)
    try:
        with urllib.request.urlopen(source, timeout=10):
            pass
    except (OSError, ValueError) as error:  # HTTPError is an OSError; an invalid address raises ValueError
        yield subject.note(
            f"{type(error).__name__}: {error}"[:200],
            why="Results stay on this machine until the dashboard answers.",
            fix="check WARPWATCH_URL, that the dashboard runs, and that no proxy or firewall blocks it",
        )
    else:
        yield subject.good("answers")
