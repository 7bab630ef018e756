"""State of each GPU: modes, memory errors, power, temperature, other processes."""

from collections.abc import Iterator

from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

_HOT_C = 80  # idle, or between two runs: the cards slow themselves between 83 and 95 °C


def persistence(host: Host) -> Iterator[Finding]:
    """Without it the driver forgets locked clocks as soon as nobody uses the card."""
    for card in host.gpus.cards:
        looked_at, on = f"persistence_mode of {card.uuid}", card.flag("persistence_mode")
        if on is False:
            yield note(
                "persistence",
                looked_at,
                "off",
                why="The driver unloads between two runs: locked clocks are forgotten, and each run begins with a "
                "second of starting up.",
                fix=f"sudo nvidia-smi -i {card.uuid} -pm 1   (until the next start; for good: sudo "
                f"systemctl enable --now "
                "nvidia-persistenced)",
            )
        elif on is None:
            yield unknown("persistence", looked_at, "not told")
        else:
            yield good("persistence", looked_at, "on")


def compute_mode(host: Host) -> Iterator[Finding]:
    """A card may be closed to programs."""
    for card in host.gpus.cards:
        looked_at, mode = f"compute_mode of {card.uuid}", card.told.get("compute_mode", "not told")
        if mode == "Prohibited":
            yield wrong(
                "compute mode",
                looked_at,
                mode,
                why="No program may use the card.",
                fix=f"sudo nvidia-smi -i {card.uuid} -c DEFAULT",
            )
        else:
            yield good("compute mode", looked_at, mode)


def mig(host: Host) -> Iterator[Finding]:
    """A slice shares its card's clock, memory and power with others, and has no counters of its own."""
    for card in host.gpus.cards:
        looked_at = f"mig.mode.current of {card.uuid}"
        if card.flag("mig.mode.current"):
            yield wrong(
                "MIG",
                looked_at,
                "on",
                why="What other slices do moves the numbers, throttling is not told for a slice, and there is no data "
                "sheet for its ceilings.",
                fix=f"sudo nvidia-smi -i {card.uuid} -mig 0",
            )
        else:
            yield good("MIG", looked_at, "off, or not there")


def ecc(host: Host) -> Iterator[Finding]:
    """Errors of the memory that were not corrected; whether ECC is on is the owner's choice, but must not change."""
    for card in host.gpus.cards:
        looked_at = f"ecc.mode.current and uncorrected errors of {card.uuid}"
        errors, on = card.number("ecc.errors.uncorrected.volatile.total"), card.flag("ecc.mode.current")
        if errors:
            yield wrong(
                "ECC",
                looked_at,
                f"{errors:.0f} uncorrected errors since the driver was loaded",
                why="Results may be wrong, and programs that meet such an error are ended.",
                fix="sudo reboot; if they come again, the card's memory is failing: replace it",
            )
        else:
            mode = "on" if on else "off" if on is False else "not there"
            yield good("ECC", looked_at, f"{mode}, no uncorrected error told")


def power_limit(host: Host) -> Iterator[Finding]:
    """A limit below the card's default lowers what it can do, and so every comparison with earlier runs."""
    for card in host.gpus.cards:
        looked_at = f"power.limit of {card.uuid}"
        limit, default = card.number("power.limit"), card.number("power.default_limit")
        if limit is None or default is None:
            yield unknown("power limit", looked_at, "not told")
        elif limit < default - 0.5:
            yield note(
                "power limit",
                looked_at,
                f"{limit:.0f} W, where the card's own is {default:.0f} W",
                why="Heavy kernels run slower than on such a card elsewhere, and than before it was lowered.",
                fix=f"sudo nvidia-smi -i {card.uuid} -pl {default:.0f}",
            )
        else:
            yield good("power limit", looked_at, f"{limit:.0f} W")


def temperature(host: Host) -> Iterator[Finding]:
    """The current temperature."""
    for card in host.gpus.cards:
        looked_at, now = f"temperature.gpu of {card.uuid}", card.number("temperature.gpu")
        if now is None:
            yield unknown("temperature", looked_at, "not told")
        elif now >= _HOT_C:
            yield wrong(
                "temperature",
                looked_at,
                f"{now:.0f} °C before anything is measured",
                why="A few degrees more and the card lowers its clock: what it then measures is invalid. A T4 has no "
                "fan of its own and wants a server's air stream.",
                fix="clean the filters, free the card's inlet, raise the fans (nvidia-settings, or the server's own)",
            )
        else:
            yield good("temperature", looked_at, f"{now:.0f} °C")


def processes(host: Host) -> Iterator[Finding]:
    """Other processes with a compute context on a GPU."""
    for card in host.gpus.cards:
        looked_at = f"--query-compute-apps of {card.uuid}"
        others = [each for each in host.gpus.processes if each.gpu == card.uuid]
        if others:
            named = ", ".join(f"{each.pid} ({each.name})" for each in others)
            yield wrong(
                "processes",
                looked_at,
                f"in use by {named}",
                why="What another process computes meanwhile makes a measurement invalid, and its memory "
                "may be missing.",
                fix=f"end it (kill {others[0].pid}), give it another card, or run it by `warpwatch runner alone`",
            )
        else:
            yield good("processes", looked_at, "nobody computes on it")


def display(host: Host) -> Iterator[Finding]:
    """A desktop draws on the card at moments of its own."""
    for card in host.gpus.cards:
        looked_at = f"display_active of {card.uuid}"
        if card.flag("display_active"):
            yield note(
                "display",
                looked_at,
                "a display is drawn by this card",
                why="The desktop's frames run between the kernels, and raise the scatter of short ones.",
                fix="sudo systemctl set-default multi-user.target && sudo reboot",
            )
        else:
            yield good("display", looked_at, "none")
