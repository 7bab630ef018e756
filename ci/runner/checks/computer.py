"""The computer around the GPU: CPU governor, load, time, disk space."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ...push.queue import default_queue_folder
from ..finding import Finding, Subject
from ..host import Host

_BUSY_SHARE = 0.5  # of the cores


def governor(host: Host) -> Iterator[Finding]:
    """The CPU frequency governor, which affects host overheads, CPU twins and launches of short kernels."""
    subject = Subject("CPU governor", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    pattern = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
    governors = Counter(path.read_text().strip() for path in host.root.glob(pattern))
    if not governors:
        yield subject.unknown("not reported, as in most virtual machines")
    elif set(governors) == {"performance"}:
        yield subject.good("performance")
    else:
        yield subject.note(
            ", ".join(f"{name} on {count} cores" for name, count in governors.most_common()),
            why="The CPU clock follows the load, which adds noise to host overheads and CPU twins.",
            fix="sudo apt-get install -y linux-tools-common linux-tools-generic && sudo cpupower "
            "frequency-set -g performance",
        )


def load(host: Host) -> Iterator[Finding]:
    """CPU load of the last minute."""
    subject, averages = Subject("load", "/proc/loadavg"), host.read("/proc/loadavg")
    cores = len(os.sched_getaffinity(0))
    if averages is None:
        yield subject.unknown("not reported")
    elif (busy := float(averages.split()[0])) > _BUSY_SHARE * cores:
        yield subject.note(
            f"{busy:.1f} of {cores} cores busy in the last minute",
            why="Launches wait for a core, and CPU twins share caches and clocks with other programs.",
            fix="find the programs: ps aux --sort=-%cpu | head",
        )
    else:
        yield subject.good(f"{busy:.1f} of {cores} cores busy in the last minute")


def time_sync(host: Host) -> Iterator[Finding]:
    """Time synchronisation: runs are identified and ordered by their start time."""
    subject = Subject("time", "timedatectl show --property=NTPSynchronized")
    answer = host.run("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if answer.status or answer.out.strip() not in {"yes", "no"}:
        yield subject.unknown(answer.first_line or "not reported")
    elif answer.out.strip() == "no":
        yield subject.note(
            "not synchronised",
            why="Wrong times hide re-runs and missing data, and a token or certificate may seem expired.",
            fix="sudo timedatectl set-ntp true",
        )
    else:
        yield subject.good("synchronised")


# Space on the disks of builds, results and the queue.

_GIB = 2**30
_LEAST, _GOOD = 4 * _GIB, 20 * _GIB  # an environment with PyTorch for CUDA takes 6 GB, ten cached wheels 1 GB


def disk_space(host: Host) -> Iterator[Finding]:
    """Free space of each disk in use."""
    seen: set[int] = set()
    for path in (host.folder, default_queue_folder(), Path("/tmp")):
        folder = next(each for each in (path, *path.parents) if each.exists())
        device = folder.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(folder).free
        observed = f"{free / _GIB:.0f} GiB free"
        why = "Builds, environments and queued results need space; without it runs fail."
        fix = f"du -xh --max-depth=2 {folder} | sort -h | tail; old builds: rm -r {host.folder / '.asv' / 'env'}"
        subject = Subject("disk", str(folder))
        if free < _LEAST:
            yield subject.wrong(observed, why=why, fix=fix)
        elif free < _GOOD:
            yield subject.note(observed, why=why, fix=fix)
        else:
            yield subject.good(observed)
