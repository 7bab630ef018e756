"""UUIDs of the GPUs that CUDA programs of this environment may use."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

_GPU = re.compile(r"GPU (?P<index>\d+): (?P<name>.*) \(UUID: (?P<uuid>GPU-[\w-]+)\)")
_MIG_DEVICE = re.compile(r"\s+MIG .*\(UUID: (?P<uuid>MIG-[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    index: int  # by PCI bus, as in nvidia-smi
    name: str
    uuid: str
    mig_devices: list[str] = field(default_factory=list)  # UUIDs


def visible_gpus(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """UUIDs of the physical GPUs in CUDA_VISIBLE_DEVICES, in order; a MIG device counts as its GPU.

    Empty without a driver. CUDA numbers different models by speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID; a number is
    then ambiguous, and means every GPU.
    """
    environ = os.environ if environ is None else environ
    gpus = _all_gpus(environ)
    selection = environ.get("CUDA_VISIBLE_DEVICES")
    if selection is None:
        return tuple(gpu.uuid for gpu in gpus)
    by_bus = len({gpu.name for gpu in gpus}) < 2 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    visible: list[str] = []
    for word in selection.split(","):
        word = word.strip()
        if word.isdecimal():
            matches = [gpu for gpu in gpus if gpu.index == int(word) or not by_bus]
        else:
            matches = [gpu for gpu in gpus if word and any(u.startswith(word) for u in (gpu.uuid, *gpu.mig_devices))]
        if not matches:
            break  # CUDA ignores all names behind the first unknown one
        visible += [gpu.uuid for gpu in matches]
    return tuple(dict.fromkeys(visible))


def _all_gpus(environ: Mapping[str, str]) -> list[_Gpu]:
    try:
        done = subprocess.run(["nvidia-smi", "-L"], env=environ, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):  # missing, or not executable
        return []
    gpus: list[_Gpu] = []
    for line in done.stdout.splitlines():
        if match := _GPU.match(line):
            gpus.append(_Gpu(index=int(match["index"]), name=match["name"], uuid=match["uuid"]))
        elif (match := _MIG_DEVICE.match(line)) and gpus:
            gpus[-1].mig_devices.append(match["uuid"])
    return gpus
