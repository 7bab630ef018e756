"""The names of GPU architectures: their compute capability, and which one's machine code a GPU runs."""

import re
from collections.abc import Iterable

ComputeCapability = tuple[int, int]

_NAME = re.compile(r"(?:sm|compute)_(\d+)(\d)([af]?)")


def compute_capability_of(architecture: str) -> ComputeCapability:
    """(9, 0) of "sm_90a". Raises ValueError for what is no architecture."""
    major, minor, _ = _parts(architecture)
    return major, minor


def parse_compute_capability(text: str) -> ComputeCapability:
    """(9, 0) of "9.0", as torch and NVML write it. Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"no compute capability {text!r}; expected one such as '9.0'")
    return int(found.group(1)), int(found.group(2))


def runs_on(architecture: str, gpu: ComputeCapability) -> bool:
    """Whether a GPU runs the machine code of "sm_86": made for its major version and no later minor one.

    "sm_90a" is for 9.0 alone; "sm_100f" is for its family, whose members share a major version. Source: CUDA C++
    Programming Guide 13.0, "Binary Compatibility" and "Family-Specific Features".
    """
    major, minor, suffix = _parts(architecture)
    return gpu == (major, minor) or (suffix != "a" and gpu[0] == major and gpu[1] >= minor)


def architecture_run_by(gpu: ComputeCapability, built: Iterable[str]) -> str | None:
    """Whose machine code the driver takes of those in a binary: the nearest; None where it has to compile PTX."""
    running = [architecture for architecture in built if runs_on(architecture, gpu)]
    # Between "sm_90a" and "sm_90" the one made for this GPU alone.
    return max(running, key=lambda name: (_parts(name)[1], ("", "f", "a").index(_parts(name)[2])), default=None)


def _parts(architecture: str) -> tuple[int, int, str]:
    found = _NAME.fullmatch(architecture)
    if found is None:
        raise ValueError(f"no architecture {architecture!r}; expected one such as 'sm_90a'")
    return int(found.group(1)), int(found.group(2)), found.group(3)
