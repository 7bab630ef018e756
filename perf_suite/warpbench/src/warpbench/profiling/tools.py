"""Where NVIDIA's profilers are installed. No torch here."""

import re
import shutil
from pathlib import Path

_FOLDERS = {
    "ncu": ("usr/local/cuda/bin", "usr/local/cuda-*/bin", "opt/nvidia/nsight-compute/*"),
    "nsys": (
        "usr/local/cuda/bin",
        "usr/local/cuda-*/bin",
        "opt/nvidia/nsight-systems/*/bin",
        "opt/nvidia/nsight-systems/*/target-linux-x64",
        "opt/nvidia/nsight-compute/*/host/target-linux-x64",  # Nsight Compute brings one
    ),
}
_NAMES = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}


class ProfilerError(Exception):
    """No profile can be made here; the message says what to do about it."""


def find_tool(name: str, root: Path = Path("/")) -> Path:
    """`ncu` or `nsys`: the one on PATH, else the newest under CUDA's or its own folder. Raises ProfilerError."""
    found = shutil.which(name)
    if found:
        return Path(found)
    for folder in _FOLDERS[name]:
        for tool in sorted(root.glob(f"{folder}/{name}"), key=_version, reverse=True):
            if tool.is_file():
                return tool
    places = ", ".join(f"/{folder}" for folder in _FOLDERS[name])
    raise ProfilerError(
        f"{_NAMES[name]} ({name}) is neither on PATH nor in {places}; it comes with the CUDA toolkit, or from "
        f"https://developer.nvidia.com/{_NAMES[name].lower().replace(' ', '-')}"
    )


def _version(tool: Path) -> tuple[int, ...]:
    """The numbers in its path, so that 2025.10 is newer than 2025.3."""
    return tuple(map(int, re.findall(r"\d+", str(tool))))
