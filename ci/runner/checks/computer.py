"""The computer around the GPU: clocks of its processor, load, time, room on its disks."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ...push.queue import default_queue_folder
from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

_BUSY_SHARE = 0.5  # of the cores


def governor(host: Host) -> Iterator[Finding]:
    """Which rule sets the processor's clock: it weighs on host overheads, CPU twins and short kernels' launches."""
    looked_at = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    pattern = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    found = Counter(path.read_text().strip() for path in host.root.glob(pattern))
    if not found:
        yield unknown("CPU governor", looked_at, "not told, as in most virtual machines")
    elif set(found) == {"performance"}:
        yield good("CPU governor", looked_at, "performance")
    else:
        said = ", ".join(f"{name} on {count} cores" for name, count in found.most_common())
        yield note(
            "CPU governor",
            looked_at,
            said,
            why="The processor's clock follows the load: host overheads and CPU twins scatter by its ramping up.",
            fix="sudo apt-get install -y linux-tools-common linux-tools-generic && sudo cpupower "
            "frequency-set -g performance",
        )


def load(host: Host) -> Iterator[Finding]:
    """How busy the processor was in the last minute."""
    looked_at, said = "/proc/loadavg", host.read("/proc/loadavg")
    cores = len(os.sched_getaffinity(0))
    if said is None:
        yield unknown("load", looked_at, "not told")
    elif (busy := float(said.split()[0])) > _BUSY_SHARE * cores:
        yield note(
            "load",
            looked_at,
            f"{busy:.1f} of {cores} cores busy in the last minute",
            why="Launches wait for a core, and CPU twins share caches and clocks with whatever runs.",
            fix="see who: ps aux --sort=-%cpu | head",
        )
    else:
        yield good("load", looked_at, f"{busy:.1f} of {cores} cores busy in the last minute")


def time_sync(host: Host) -> Iterator[Finding]:
    """Runs are told apart and ordered by the time at which they began."""
    looked_at = "timedatectl show --property=NTPSynchronized"
    said = host.run("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if said.status or said.out.strip() not in {"yes", "no"}:
        yield unknown("time", looked_at, said.first_line or "not told")
    elif said.out.strip() == "no":
        yield note(
            "time",
            looked_at,
            "not synchronised",
            why="Runs carry wrong times: pauses and re-runs are misread, and a token or certificate may seem expired.",
            fix="sudo timedatectl set-ntp true",
        )
    else:
        yield good("time", looked_at, "synchronised")


# Room on the disks that builds, results and the queue lie on.

_GIB = 2**30
_LEAST, _GOOD = 4 * _GIB, 20 * _GIB  # an environment with PyTorch for CUDA has 6 GB, ten kept wheels 1 GB


def room(host: Host) -> Iterator[Finding]:
    """Each disk once."""
    seen: set[int] = set()
    for path in (host.folder, default_queue_folder(), Path("/tmp")):
        there = next(each for each in (path, *path.parents) if each.exists())
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(there).free
        said = f"{free / _GIB:.0f} GiB free"
        why = "Builds, environments and results that wait for the dashboard want room; without it runs fail."
        fix = f"du -xh --max-depth=2 {there} | sort -h | tail; old builds: rm -r {host.folder / '.asv' / 'env'}"
        if free < _LEAST:
            yield wrong("disk", str(there), said, why=why, fix=fix)
        elif free < _GOOD:
            yield note("disk", str(there), said, why=why, fix=fix)
        else:
            yield good("disk", str(there), said)
