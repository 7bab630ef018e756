"""Driver, and state of each GPU: modes, memory errors, power, temperature, clocks, other processes."""

import re
from collections.abc import Iterator

from ..clock_lock import stale_locks
from ..finding import Finding, Subject
from ..host import Host

_HOT_C = 80  # when idle; GPUs throttle between 83 and 95 °C


def persistence(host: Host) -> Iterator[Finding]:
    """Persistence mode: without it the driver forgets locked clocks when no process uses the GPU."""
    for gpu in host.gpus.devices:
        subject, enabled = Subject("persistence", f"persistence_mode of {gpu.uuid}"), gpu.flag("persistence_mode")
        if enabled is False:
            yield subject.note(
                "off",
                why="The driver unloads between two runs: locked clocks are lost, and each run starts a second later.",
                fix=f"sudo nvidia-smi -i {gpu.uuid} -pm 1   (until the next boot; permanently: sudo systemctl enable "
                "--now nvidia-persistenced)",
            )
        elif enabled is None:
            yield subject.unknown("not reported")
        else:
            yield subject.good("on")


def compute_mode(host: Host) -> Iterator[Finding]:
    """Compute mode: whether programs may use the GPU."""
    for gpu in host.gpus.devices:
        mode = gpu.fields.get("compute_mode", "not reported")
        subject = Subject("compute mode", f"compute_mode of {gpu.uuid}")
        if mode == "Prohibited":
            yield subject.wrong(
                mode, why="No program may use the GPU.", fix=f"sudo nvidia-smi -i {gpu.uuid} -c DEFAULT"
            )
        else:
            yield subject.good(mode)


def mig(host: Host) -> Iterator[Finding]:
    """MIG: a slice shares its GPU's clock and power with other slices, and has no counters of its own."""
    for gpu in host.gpus.devices:
        subject = Subject("MIG", f"mig.mode.current of {gpu.uuid}")
        if gpu.flag("mig.mode.current"):
            yield subject.wrong(
                "on",
                why="Other slices change the results, throttling is not reported for a slice, and no data sheet has "
                "its peaks.",
                fix=f"sudo nvidia-smi -i {gpu.uuid} -mig 0",
            )
        else:
            yield subject.good("off, or not supported")


def ecc(host: Host) -> Iterator[Finding]:
    """Uncorrected memory errors. ECC may be on or off, but changing it changes results."""
    for gpu in host.gpus.devices:
        subject = Subject("ECC", f"ecc.mode.current and uncorrected errors of {gpu.uuid}")
        errors, enabled = gpu.number("ecc.errors.uncorrected.volatile.total"), gpu.flag("ecc.mode.current")
        if errors:
            yield subject.wrong(
                f"{errors:.0f} uncorrected errors since the driver was loaded",
                why="Results may be wrong, and the driver ends programs that meet such an error.",
                fix="sudo reboot; if the errors return, the GPU's memory is failing: replace the GPU",
            )
        else:
            mode = "on" if enabled else "off" if enabled is False else "not supported"
            yield subject.good(f"{mode}, no uncorrected errors")


def power_limit(host: Host) -> Iterator[Finding]:
    """Power limit: one below the default makes heavy kernels slower than in earlier runs."""
    for gpu in host.gpus.devices:
        subject = Subject("power limit", f"power.limit of {gpu.uuid}")
        limit, default = gpu.number("power.limit"), gpu.number("power.default_limit")
        if limit is None or default is None:
            yield subject.unknown("not reported")
        elif limit < default - 0.5:
            yield subject.note(
                f"{limit:.0f} W; default {default:.0f} W",
                why="Heavy kernels run slower than on other GPUs of this model, and than before the limit was lowered.",
                fix=f"sudo nvidia-smi -i {gpu.uuid} -pl {default:.0f}",
            )
        else:
            yield subject.good(f"{limit:.0f} W")


def temperature(host: Host) -> Iterator[Finding]:
    """The current temperature, in °C."""
    for gpu in host.gpus.devices:
        subject, now = Subject("temperature", f"temperature.gpu of {gpu.uuid}"), gpu.number("temperature.gpu")
        if now is None:
            yield subject.unknown("not reported")
        elif now >= _HOT_C:
            yield subject.wrong(
                f"{now:.0f} °C before anything is measured",
                why="A few degrees more and the GPU throttles, which makes measurements invalid. A T4 has no fan and "
                "needs a server's air stream.",
                fix="clean the filters, free the air inlet, raise the fan speed (nvidia-settings, or the server's own)",
            )
        else:
            yield subject.good(f"{now:.0f} °C")


def processes(host: Host) -> Iterator[Finding]:
    """Other processes with a compute context on a GPU."""
    for gpu in host.gpus.devices:
        subject = Subject("processes", f"--query-compute-apps of {gpu.uuid}")
        others = [each for each in host.gpus.processes if each.gpu_uuid == gpu.uuid]
        if others:
            named = ", ".join(f"{each.pid} ({each.name})" for each in others)
            yield subject.wrong(
                f"in use by {named}",
                why="Work of another process makes measurements invalid, and its memory may be missing.",
                fix=f"end it (kill {others[0].pid}), move it to another GPU, or run it by `warpwatch runner "
                "with-gpu-lock`",
            )
        else:
            yield subject.good("no other process")


def display(host: Host) -> Iterator[Finding]:
    """Display: a desktop draws on the GPU at any time."""
    for gpu in host.gpus.devices:
        subject = Subject("display", f"display_active of {gpu.uuid}")
        if gpu.flag("display_active"):
            yield subject.note(
                "a display is connected and active",
                why="The desktop's frames run between kernels and add noise to short ones.",
                fix="sudo systemctl set-default multi-user.target && sudo reboot",
            )
        else:
            yield subject.good("none")


_OLDEST = 580  # "CUDA 13.0 Release Notes", table 2: CUDA 13.x needs a driver of branch 580 or newer
_SOURCE = "nvidia-smi"
_INSTALL = "sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install --gpgpu && sudo reboot"
_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")


def driver(host: Host) -> Iterator[Finding]:
    """The driver: needed if there is a GPU; without a GPU the suite measures the CPU twins."""
    gpus, subject, on_bus = host.gpus, Subject("driver", _SOURCE), Subject("driver", f"{_SOURCE} and the PCI bus")
    if not gpus.is_installed and not host.has_gpu:
        yield on_bus.good("no NVIDIA GPU: this machine measures the CPU twins")
    elif not gpus.is_installed:
        yield on_bus.wrong(
            "an NVIDIA GPU without a driver",
            why="Nothing can run on the GPU; the suite would measure the CPU twins instead.",
            fix=_INSTALL,
        )
    elif gpus.error is not None:
        if "version mismatch" in gpus.error:
            why, fix = "The driver was updated, but its old kernel module is still loaded.", "sudo reboot"
        else:
            why, fix = (
                "The driver cannot reach a GPU: nothing can be measured.",
                f"sudo reboot; if the error remains: {_INSTALL}",
            )
        yield subject.wrong(gpus.error, why=why, fix=fix)
    for gpu in gpus.devices:
        branch = gpu.driver.partition(".")[0]
        if branch.isdecimal() and int(branch) < _OLDEST:
            yield subject.wrong(
                f"{gpu.name} with driver {gpu.driver}",
                why=f"The kernels are built with CUDA 13, which needs branch {_OLDEST} or newer.",
                fix=_INSTALL,
            )
        else:
            yield subject.good(f"{gpu.name} ({gpu.uuid}) with driver {gpu.driver}")


def xid(host: Host) -> Iterator[Finding]:
    """Faults that the driver logged since the boot."""
    if not host.gpus.devices:
        return
    subject = Subject("xid", "journalctl --dmesg --boot: NVRM: Xid")
    log = host.run("journalctl", "--dmesg", "--boot", "--grep", "NVRM: Xid", "--output", "cat", "--no-pager")
    faults = _XID.findall(log.out)
    if faults:
        codes = ", ".join(sorted({code for _, code in faults}, key=int))
        yield subject.note(
            f"{len(faults)} faults since the boot, Xid {codes}",
            why="A program causes Xid 13, 31 and 43, such as a kernel that reads beyond its memory; the GPU or slot "
            "causes 48, 63, 64, 79, 94 and 95.",
            fix='look the number up in NVIDIA\'s "XID Errors"; for 48, 79 and 95 reseat, cool or replace the GPU',
        )
    elif log.status == 127 or "insufficient permissions" in log.err or "not seeing messages" in log.err:
        yield subject.unknown(log.first_line or "this user may not read the kernel's log")
    else:
        yield subject.good("no fault since the boot")


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
        subject = Subject("throttling", f"clocks_event_reasons.active of {gpu.uuid}")
        names = [name for bit, name in _THROTTLE_BITS.items() if gpu.clock_events & bit]
        if names:
            is_power_brake = gpu.clock_events & 0x80
            yield subject.wrong(
                ", ".join(names),
                why="The GPU lowers its clock: measurements are invalid now.",
                fix="check the GPU's power cables and the power supply's rating"
                if is_power_brake
                else "cool the GPU: clean the filters, free the air inlet, raise the fan speed",
            )
        else:
            yield subject.good(f"none (event reasons {gpu.clock_events:#x})")


def application_clocks(host: Host) -> Iterator[Finding]:
    """Application clocks (nvidia-smi -ac), which last until the driver is reloaded."""
    for gpu in host.gpus.devices:
        subject = Subject("application clocks", f"clocks.applications.graphics of {gpu.uuid}")
        now = gpu.number("clocks.applications.graphics")
        default = gpu.number("clocks.default_applications.graphics")
        if now is None or default is None:
            yield subject.unknown("not supported by this GPU")
        elif now != default:
            yield subject.note(
                f"{now:.0f} MHz; default {default:.0f} MHz",
                why="They are lost at the next boot, which shifts results without a commit.",
                fix=f"sudo nvidia-smi -i {gpu.uuid} -rac",
            )
        else:
            yield subject.good(f"default, {now:.0f} MHz")


def lockable(host: Host) -> Iterator[Finding]:
    """Permission to lock clocks: root only, unless an administrator allowed it."""
    if not host.gpus.devices:
        return
    subject = Subject("clock lock", "permission to run nvidia-smi --lock-gpu-clocks")
    if host.privilege is None:
        yield subject.note(
            "this user has neither root nor sudo without a password",
            why="With free clocks, runs of one commit differ by the GPU's temperature and history. The services of "
            "`warpwatch runner setup` lock clocks as root; runs that you start by hand cannot.",
            fix="sudo warpwatch runner setup   (or sudo warpwatch runner locked COMMAND)",
        )
    else:
        yield subject.good("as root" if not host.privilege else "by sudo without a password")


def stale_clock_locks(host: Host) -> Iterator[Finding]:
    """Locks of processes that were killed before they could reset the clocks."""
    for lock in stale_locks(host):
        yield Subject("stale clock lock", str(lock.path)).wrong(
            f"{lock.uuid} was locked to {lock.sm_mhz} MHz by process {lock.pid}, which has ended",
            why="All work on this GPU runs at that clock.",
            fix="sudo warpwatch runner reset-clocks",
        )
