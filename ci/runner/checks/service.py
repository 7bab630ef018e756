"""The services that `warpwatch runner setup` installs: there, enabled, not failed; and their secrets."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..finding import Finding, good, note, unknown, wrong
from ..host import Host
from ..installation import ACTIONS, OLDEST, RELEASES, SECRETS, UNIT_FOLDER, WATCHED_UNITS, is_too_old, version_of

_SETUP = "sudo warpwatch runner setup"


def units(host: Host) -> Iterator[Finding]:
    """Those that are installed, by systemd's word."""
    folder = host.root / UNIT_FOLDER
    installed = [name for name in WATCHED_UNITS if (folder / name).is_file()]
    if not installed:
        yield note(
            "services", str(folder), "none is installed", why="Nothing measures or sends results by itself.", fix=_SETUP
        )
    for name in installed:
        said = host.run("systemctl", "show", name, "--property=ActiveState,UnitFileState,Result")
        if said.status:
            yield unknown("services", f"systemctl show {name}", said.first_line or "systemd does not run here")
            continue
        told = dict(line.partition("=")[::2] for line in said.out.splitlines())
        state, enabled, result = (told.get(key, "") for key in ("ActiveState", "UnitFileState", "Result"))
        if state == "failed" or result not in {"success", ""}:
            yield wrong(
                "services",
                f"systemctl show {name}",
                f"{state}, its last end was {result}",
                why="It waits for somebody: measurements or results stay away.",
                fix=f"journalctl -u {name} -n 50; then sudo systemctl restart {name}",
            )
        elif enabled == "enabled" and state == "inactive":
            yield wrong(
                "services",
                f"systemctl show {name}",
                "inactive, though enabled",
                why="What it requires could not begin, or somebody stopped it: it does not begin again by itself.",
                fix=f"journalctl -b -u 'warpwatch-*' -n 50; then sudo systemctl start {name}",
            )
        elif enabled != "enabled":
            yield note(
                "services",
                f"systemctl show {name}",
                f"{state}, but {enabled or 'not enabled'}",
                why="It does not begin when the machine starts.",
                fix=f"sudo systemctl enable --now {name}",
            )
        else:
            yield good("services", f"systemctl show {name}", f"{state}, {enabled}")


def jobs(host: Host) -> Iterator[Finding]:
    """Whether a job of GitHub's finds what another one left, by the unit's file."""
    unit = host.root / UNIT_FOLDER / ACTIONS
    text = host.read(f"{UNIT_FOLDER}/{ACTIONS}")
    if text is None:
        return
    lines = set(text.splitlines())
    if lines >= {"DynamicUser=yes", "PrivateTmp=yes"} and any(line.startswith("Environment=HOME=") for line in lines):
        yield good("jobs", str(unit), "each job has a user and a home of its own")
    else:
        yield wrong(
            "jobs",
            str(unit),
            "jobs have the user and the home of who measures",
            why="What a pull request's job leaves (.gitconfig, pip's cache, compiled objects) acts on later runs.",
            fix=_SETUP,
        )


def actions_runner(host: Host) -> Iterator[Finding]:
    """The program that takes them, in the folder that the unit's file names."""
    stated = re.search(r"^ActionsRunner=(.+)$", host.read(f"{UNIT_FOLDER}/{ACTIONS}") or "", re.MULTILINE)
    if stated is None:
        return
    folder = Path(stated[1])
    version = version_of(host, folder)
    if version is None:
        yield unknown("GitHub's runner", str(folder), "it does not say its version")
    elif is_too_old(version):
        yield wrong(
            "GitHub's runner",
            str(folder),
            f"version {version}",
            why=f"The workflows need {OLDEST} or newer: a job ends before its first step.",
            fix=f"unpack a newer one there: {RELEASES}",
        )
    else:
        yield good("GitHub's runner", str(folder), f"version {version}")


def credentials(host: Host) -> Iterator[Finding]:
    """Who can read a token can upload, or register runners, in this machine's name."""
    for path in SECRETS:
        there = host.root / path
        if not there.parent.is_dir():
            continue
        try:
            told = there.stat()
        except PermissionError:
            yield good("secrets", str(there), "this user cannot look: neither can what is measured")
            continue
        except FileNotFoundError:
            continue
        if told.st_mode & 0o077:
            yield wrong(
                "secrets",
                str(there),
                f"mode {told.st_mode & 0o777:o}",
                why="What is measured here is anybody's code, and could read it.",
                fix=f"sudo chmod 600 {there}",
            )
        else:
            yield good("secrets", str(there), "readable by its owner alone")
