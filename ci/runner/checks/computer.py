"""The computer around the card: its processor's clocks, what else keeps it busy, and its time."""

import os
from collections import Counter
from collections.abc import Iterator

from warpwatch.ci.runner.finding import Finding, good, note, unknown
from warpwatch.ci.runner.host import Host

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
