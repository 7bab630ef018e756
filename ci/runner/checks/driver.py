"""The NVIDIA driver: whether it is there, talks to the card, is new enough, and has reported faults."""

import re
from collections.abc import Iterator

from ..finding import Finding, good, note, unknown, wrong
from ..host import Host

_OLDEST = 580  # "CUDA 13.0 Release Notes", table 2: CUDA 13.x wants a driver of branch 580 or newer
_LOOKED_AT = "nvidia-smi"
_INSTALL = "sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install --gpgpu && sudo reboot"
_XID = re.compile(r"NVRM: Xid \(([^)]*)\): (\d+)")


def driver(host: Host) -> Iterator[Finding]:
    """A machine without a card measures the CPU twins, which is good; one with a card wants its driver."""
    gpus = host.gpus
    if not gpus.installed and not host.has_card:
        yield good("driver", "nvidia-smi and the PCI bus", "no NVIDIA card: this machine measures the CPU twins")
    elif not gpus.installed:
        yield wrong(
            "driver",
            "nvidia-smi and the PCI bus",
            "an NVIDIA card, but no driver",
            why="Nothing can run on the card; the suite would measure the CPU twins instead.",
            fix=_INSTALL,
        )
    elif gpus.complaint is not None:
        if "version mismatch" in gpus.complaint:
            why, fix = "The driver was updated while its old kernel module is still loaded.", "sudo reboot"
        else:
            why, fix = (
                "The driver does not reach a card: no measurement can begin.",
                f"sudo reboot; if it stays: {_INSTALL}",
            )
        yield wrong("driver", _LOOKED_AT, gpus.complaint, why=why, fix=fix)
    for card in gpus.cards:
        branch = card.driver.partition(".")[0]
        if branch.isdecimal() and int(branch) < _OLDEST:
            yield wrong(
                "driver",
                _LOOKED_AT,
                f"{card.name} with driver {card.driver}",
                why=f"CUDA 13, by which the kernels are built, wants branch {_OLDEST} or newer.",
                fix=_INSTALL,
            )
        else:
            yield good("driver", _LOOKED_AT, f"{card.name} ({card.uuid}) with driver {card.driver}")


def xid(host: Host) -> Iterator[Finding]:
    """Faults that the driver wrote into the kernel's log since the machine started."""
    if not host.gpus.cards:
        return
    looked_at = "journalctl --dmesg --boot: NVRM: Xid"
    said = host.run("journalctl", "--dmesg", "--boot", "--grep", "NVRM: Xid", "--output", "cat", "--no-pager")
    found = _XID.findall(said.out)
    if found:
        codes = ", ".join(sorted({code for _, code in found}, key=int))
        yield note(
            "xid",
            looked_at,
            f"{len(found)} faults since the start, Xid {codes}",
            why="Xid 13, 31 and 43 are a program's fault, such as a kernel that reads beyond its memory; "
            "48, 63, 64, 79, "
            "94 and 95 are the card's or its slot's.",
            fix='look the number up in NVIDIA\'s "XID Errors"; for 48, 79 and 95 reseat, cool or replace the card',
        )
    elif said.status == 127 or "insufficient permissions" in said.err or "not seeing messages" in said.err:
        yield unknown("xid", looked_at, said.first_line or "the kernel's log may not be read by this user")
    else:
        yield good("xid", looked_at, "no fault since the start")
