"""GPU clocks: throttling, application clocks, permission to lock, forgotten locks."""

from collections.abc import Iterator

from ..clock_lock import forgotten_locks
from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

# Of NVML's clock-event bits those under which the suite takes no number: not idle, a power cap or set clocks.
_HELD_DOWN = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def held_down(host: Host) -> Iterator[Finding]:
    """Throttling by temperature or power supply."""
    for card in host.gpus.cards:
        looked_at = f"clocks_event_reasons.active of {card.uuid}"
        names = [name for bit, name in _HELD_DOWN.items() if card.clock_events & bit]
        if names:
            is_power = 0x80 & card.clock_events
            yield wrong(
                "throttling",
                looked_at,
                ", ".join(names),
                why="The card lowers its clock: every number taken now is invalid.",
                fix="check the card's power cables and the supply's rating"
                if is_power
                else "cool the card: clean the filters, free its inlet, raise the fans",
            )
        else:
            yield good("throttling", looked_at, f"nothing holds the clock down ({card.clock_events:#x})")


def application_clocks(host: Host) -> Iterator[Finding]:
    """Clocks that somebody set with -ac stay until the driver is loaded anew."""
    for card in host.gpus.cards:
        looked_at = f"clocks.applications.graphics of {card.uuid}"
        now = card.number("clocks.applications.graphics")
        default = card.number("clocks.default_applications.graphics")
        if now is None or default is None:
            yield unknown("application clocks", looked_at, "this card has none")
        elif now != default:
            yield note(
                "application clocks",
                looked_at,
                f"{now:.0f} MHz, where the card's own are {default:.0f} MHz",
                why="They are forgotten at the next start, and the numbers shift then with no commit to blame.",
                fix=f"sudo nvidia-smi -i {card.uuid} -rac",
            )
        else:
            yield good("application clocks", looked_at, f"the card's own, {now:.0f} MHz")


def lockable(host: Host) -> Iterator[Finding]:
    """Permission to lock clocks: root only, unless an administrator allowed it."""
    if not host.gpus.cards:
        return
    looked_at = "the right to run nvidia-smi --lock-gpu-clocks"
    if host.privilege is None:
        yield note(
            "clock lock",
            looked_at,
            "this user has neither root nor sudo without a password",
            why="With free clocks two runs of one commit differ by the card's temperature and history. The services of "
            "`warpwatch runner setup` lock them as root by themselves; what you run by hand does not.",
            fix="sudo warpwatch runner setup   (or sudo warpwatch runner locked COMMAND)",
        )
    else:
        yield good("clock lock", looked_at, "as root" if not host.privilege else "by sudo without a password")


def left_locked(host: Host) -> Iterator[Finding]:
    """A lock whose process was killed before it could put the clocks back."""
    for lock in forgotten_locks(host):
        yield wrong(
            "left locked",
            str(lock.path),
            f"{lock.uuid} was locked to {lock.sm_mhz} MHz by process {lock.pid}, which is gone",
            why="Everything on this card goes on at that clock.",
            fix="sudo warpwatch runner reset-clocks",
        )
