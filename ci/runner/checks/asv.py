"""asv's configuration, the name it gives this machine, and the ceilings that were measured here."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from ..finding import Finding, good, note, wrong
from ..host import Host
from ..installation import ceiling_file, cpu_key

_OLD_DAYS = 365


def project(host: Host) -> Iterator[Finding]:
    """asv.conf.json says what is measured."""
    path = host.folder / "asv.conf.json"
    if path.is_file():
        yield good("asv project", str(path), "there")
    else:
        yield wrong(
            "asv project",
            str(path),
            "not there",
            why="asv measures the project of the folder that has it.",
            fix="run this in the checkout, or name it with --folder",
        )


def machine(host: Host) -> Iterator[Finding]:
    """The name under which every result of this machine is recorded."""
    path = host.home / ".asv-machine.json"
    try:
        told = json.loads(path.read_text())
        names = [name for name in told if name != "version"]
    except FileNotFoundError:
        names = []
    except (OSError, ValueError, TypeError) as error:
        yield wrong(
            "asv machine",
            str(path),
            f"cannot be read: {error}",
            why="asv cannot tell which machine this is.",
            fix=f"rm {path} && asv machine --yes",
        )
        return
    here = (host.read("/proc/sys/kernel/hostname") or "").strip()
    if not names:
        yield wrong(
            "asv machine",
            str(path),
            "this machine has no name yet",
            why="asv asks for it at the first run, where nobody answers.",
            fix="asv machine --yes",
        )
    elif len(names) > 1 and here not in names:
        yield wrong(
            "asv machine",
            str(path),
            f"it names {', '.join(names)}, and this host is {here}",
            why="asv takes the entry of the host's name, and knows none.",
            fix="asv machine --yes",
        )
    else:
        yield good("asv machine", str(path), here if here in names else names[0])


def calibration(host: Host) -> Iterator[Finding]:
    """Of each card, or of the processor where there is none."""
    keys = [card.uuid for card in host.gpus.cards] or [cpu_key(host.read("/proc/cpuinfo") or "")]
    for key in keys:
        path = ceiling_file(host, key)
        why = "Runs tell their share of the speed of light by what this card keeps up, beside its data sheet's peaks."
        fix = f"cd {host.folder} && python -m perf_suite calibrate"
        try:
            measured_at = str(json.loads(path.read_text())["measured_at"])
        except FileNotFoundError:
            yield note("calibration", str(path), "never measured", why=why, fix=fix)
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield wrong("calibration", str(path), f"cannot be read: {error!r}", why=why, fix=f"rm {path} && {fix}")
        else:
            days = _days_since(measured_at)
            if days is not None and days > _OLD_DAYS:
                yield note(
                    "calibration",
                    str(path),
                    f"{days} days old",
                    why="Drivers, dust and paste change what a card keeps up.",
                    fix=fix,
                )
            else:
                yield good("calibration", str(path), f"measured {measured_at[:10]}")


def _days_since(moment: str) -> int | None:
    try:
        then = datetime.fromisoformat(re.sub(r"Z$", "+00:00", moment))
    except ValueError:
        return None
    return (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).days
