"""The NVIDIA driver: installed, working, new enough, without faults."""

import re
from collections.abc import Iterator

from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

_OLDEST = 580  # "CUDA 13.0 Release Notes", table 2: CUDA 13.x needs a driver of branch 580 or newer
_SOURCE = "nvidia-smi"
_INSTALL = "sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install --gpgpu && sudo reboot"
_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")


def driver(host: Host) -> Iterator[Finding]:
    """The driver: needed if there is a GPU; without a GPU the suite measures the CPU twins."""
    gpus = host.gpus
    if not gpus.is_installed and not host.has_gpu:
        yield good("driver", "nvidia-smi and the PCI bus", "no NVIDIA GPU: this machine measures the CPU twins")
    elif not gpus.is_installed:
        yield wrong(
            "driver",
            "nvidia-smi and the PCI bus",
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
        yield wrong("driver", _SOURCE, gpus.error, why=why, fix=fix)
    for gpu in gpus.devices:
        branch = gpu.driver.partition(".")[0]
        if branch.isdecimal() and int(branch) < _OLDEST:
            yield wrong(
                "driver",
                _SOURCE,
                f"{gpu.name} with driver {gpu.driver}",
                why=f"The kernels are built with CUDA 13, which needs branch {_OLDEST} or newer.",
                fix=_INSTALL,
            )
        else:
            yield good("driver", _SOURCE, f"{gpu.name} ({gpu.uuid}) with driver {gpu.driver}")


def xid(host: Host) -> Iterator[Finding]:
    """Faults that the driver logged since the boot."""
    if not host.gpus.devices:
        return
    source = "journalctl --dmesg --boot: NVRM: Xid"
    log = host.run("journalctl", "--dmesg", "--boot", "--grep", "NVRM: Xid", "--output", "cat", "--no-pager")
    faults = _XID.findall(log.out)
    if faults:
        codes = ", ".join(sorted({code for _, code in faults}, key=int))
        yield note(
            "xid",
            source,
            f"{len(faults)} faults since the boot, Xid {codes}",
            why="A program causes Xid 13, 31 and 43, such as a kernel that reads beyond its memory; the GPU or slot "
            "causes 48, 63, 64, 79, 94 and 95.",
            fix='look the number up in NVIDIA\'s "XID Errors"; for 48, 79 and 95 reseat, cool or replace the GPU',
        )
    elif log.status == 127 or "insufficient permissions" in log.err or "not seeing messages" in log.err:
        yield unknown("xid", source, log.first_line or "this user may not read the kernel's log")
    else:
        yield good("xid", source, "no fault since the boot")
