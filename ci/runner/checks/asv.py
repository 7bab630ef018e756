"""asv's configuration, its name for this machine, and the measured ceilings."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from ..finding import Finding, good, note, wrong
from ..host import Host
from ..installation import ceiling_file, cpu_key

_OLD_DAYS = 365


def project(host: Host) -> Iterator[Finding]:
    """asv.conf.json."""
    path = host.folder / "asv.conf.json"
    if path.is_file():
        yield good("asv project", str(path), "found")
    else:
        yield wrong(
            "asv project",
            str(path),
            "missing",
            why="asv.conf.json defines the measured project.",
            fix="run this command in the checkout, or name the checkout with --folder",
        )


def machine(host: Host) -> Iterator[Finding]:
    """asv's name for this machine, under which results are recorded."""
    path = host.home / ".asv-machine.json"
    try:
        names = [name for name in json.loads(path.read_text()) if name != "version"]
    except FileNotFoundError:
        names = []
    except (OSError, ValueError, TypeError) as error:
        yield wrong(
            "asv machine",
            str(path),
            f"cannot be read: {error}",
            why="asv needs the machine's name.",
            fix=f"rm {path} && asv machine --yes",
        )
        return
    hostname = (host.read("/proc/sys/kernel/hostname") or "").strip()
    if not names:
        yield wrong(
            "asv machine",
            str(path),
            "this machine has no name yet",
            why="asv asks for the name at the first run, where nobody can answer.",
            fix="asv machine --yes",
        )
    elif len(names) > 1 and hostname not in names:
        yield wrong(
            "asv machine",
            str(path),
            f"it names {', '.join(names)}, and this host is {hostname}",
            why="asv looks up the entry with the host's name, and there is none.",
            fix="asv machine --yes",
        )
    else:
        yield good("asv machine", str(path), hostname if hostname in names else names[0])


def calibration(host: Host) -> Iterator[Finding]:
    """Ceilings of each GPU, or of the processor if there is no GPU."""
    keys = [gpu.uuid for gpu in host.gpus.devices] or [cpu_key(host.read("/proc/cpuinfo") or "")]
    for key in keys:
        path = ceiling_file(host, key)
        why = "The pages compare latencies with the ceilings measured here, besides the data sheet's peaks."
        fix = f"cd {host.folder} && warpbench calibrate"
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
                    why="Driver updates, dust and aging change a GPU's ceilings.",
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
