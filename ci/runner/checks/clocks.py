"""GPU clocks: throttling, application clocks, permission to lock, stale locks."""

from collections.abc import Iterator

from ..clock_lock import stale_locks
from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

# NVML's clock event reasons that make a measurement invalid; not idle, power cap or application clocks.
_THROTTLE_BITS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def throttling(host: Host) -> Iterator[Finding]:
    """Throttling by temperature or power supply."""
    for gpu in host.gpus.devices:
        source = f"clocks_event_reasons.active of {gpu.uuid}"
        names = [name for bit, name in _THROTTLE_BITS.items() if gpu.clock_events & bit]
        if names:
            is_power_brake = gpu.clock_events & 0x80
            yield wrong(
                "throttling",
                source,
                ", ".join(names),
                why="The GPU lowers its clock: measurements are invalid now.",
                fix="check the GPU's power cables and the power supply's rating"
                if is_power_brake
                else "cool the GPU: clean the filters, free the air inlet, raise the fan speed",
            )
        else:
            yield good("throttling", source, f"none (event reasons {gpu.clock_events:#x})")


def application_clocks(host: Host) -> Iterator[Finding]:
    """Application clocks (nvidia-smi -ac), which last until the driver is reloaded."""
    for gpu in host.gpus.devices:
        source = f"clocks.applications.graphics of {gpu.uuid}"
        now = gpu.number("clocks.applications.graphics")
        default = gpu.number("clocks.default_applications.graphics")
        if now is None or default is None:
            yield unknown("application clocks", source, "not supported by this GPU")
        elif now != default:
            yield note(
                "application clocks",
                source,
                f"{now:.0f} MHz; default {default:.0f} MHz",
                why="They are lost at the next boot, which shifts results without a commit.",
                fix=f"sudo nvidia-smi -i {gpu.uuid} -rac",
            )
        else:
            yield good("application clocks", source, f"default, {now:.0f} MHz")


def lockable(host: Host) -> Iterator[Finding]:
    """Permission to lock clocks: root only, unless an administrator allowed it."""
    if not host.gpus.devices:
        return
    source = "permission to run nvidia-smi --lock-gpu-clocks"
    if host.privilege is None:
        yield note(
            "clock lock",
            source,
            "this user has neither root nor sudo without a password",
            why="With free clocks, runs of one commit differ by the GPU's temperature and history. The services of "
            "`warpwatch runner setup` lock clocks as root; runs that you start by hand cannot.",
            fix="sudo warpwatch runner setup   (or sudo warpwatch runner locked COMMAND)",
        )
    else:
        yield good("clock lock", source, "as root" if not host.privilege else "by sudo without a password")


def stale_clock_locks(host: Host) -> Iterator[Finding]:
    """Locks of processes that were killed before they could reset the clocks."""
    for lock in stale_locks(host):
        yield wrong(
            "stale clock lock",
            str(lock.path),
            f"{lock.uuid} was locked to {lock.sm_mhz} MHz by process {lock.pid}, which has ended",
            why="All work on this GPU runs at that clock.",
            fix="sudo warpwatch runner reset-clocks",
        )
