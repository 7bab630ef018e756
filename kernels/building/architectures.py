"""Which machine code each CUDA source is compiled to: its file's suffix against the architectures asked for.

A file `<name>_sm75.cu` is for that GPU alone, `<name>_sm80.cu` for everything from Ampere on, `<name>_sm90a.cu` for
Hopper's own instructions, and a file without suffix for all. `<name>_hbm.cu` is for the chips with HBM (A100,
H100, B200), which have shared memory and TF32 rates that RTX cards have not: these would get kernels that spill and
that nobody takes. A source no chosen architecture wants is left out.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePath

ALL = "all"
TRACKED = "75;86;89;90a;120"  # what ALL stands for: the GPUs whose compiled code is watched
NONE = "none"
FAMILIES = ("sm75", "sm80", "hbm", "sm90a")

# SASS for these is made from one intermediate form each, so that a source passes the front end four times, not five.
# sm_86 and sm_89 add no instruction to sm_80 that our sources use. sm_120 has a form of its own: the front end makes
# other code of the same source there (packed fp32 arithmetic, loads of 32 bytes).
_VIRTUAL = {"75": "75", "80": "80", "86": "80", "89": "80"}
_WITH_HBM = (80, 90, 100, 103)
# A GPU runs what is made for an earlier one of its major version; ptxas makes the same code of our sources for both.
_RUNS_CODE_OF = {"89": "86"}
# Sources of the sm_80 family for whose work Hopper has kernels of its own. A build for Hopper alone links them too.
NOT_FOR_HOPPER = {"flash_attention_backward_fp32_sm80", "flash_attention_fp32_sm80", "int4_linear_sm80"}
# Those of which ptxas makes the same code for sm_90a from the form of sm_80: one pass of the front end for both.
HOPPER_AS_SM80 = {"flash_attention_backward_sm80", "flash_attention_packed_sm80", "flash_attention_sm80"}


def parse(text: str | None) -> tuple[str, ...]:
    """The architectures of WARPWATCH_CUDA_ARCHS, oldest first: "all", "none" or a list like "75;86;89;90a;120".

    Without one, those of this machine's GPUs; empty where it has none. Raises ValueError for what is no such list.
    """
    text = (text or "").strip() or ";".join(of_this_machine()) or NONE
    if text.lower() == NONE:
        return ()
    if text.lower() == ALL:
        text = TRACKED
    names = {name for name in re.split(r"[;,\s]+", text) if name}
    for name in names:
        if not re.fullmatch(r"\d{2,3}[af]?", name) or _number(name) < 75:
            raise ValueError(
                f"WARPWATCH_CUDA_ARCHS={text!r}: {name!r} is no architecture of 75 or newer; "
                f"wanted {ALL!r}, {NONE!r} or a list such as {TRACKED!r}"
            )
    return tuple(sorted(names, key=_number))


def of_this_machine() -> tuple[str, ...]:
    """The architectures of the GPUs that the NVIDIA driver sees; none without a driver, or for GPUs older than 75."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    numbers = {int(line.replace(".", "")) for line in said.split() if re.fullmatch(r"\d+\.\d", line)}
    # Hopper's own instructions are in the form "90a" alone.
    return tuple("90a" if number == 90 else str(number) for number in sorted(numbers) if number >= 75)


def family(source: PurePath) -> str | None:
    """The suffix that says which GPUs a CUDA source is for; None: for all."""
    suffix = source.stem.rpartition("_")[2]
    return suffix if suffix in FAMILIES else None


def has_family(name: str, architectures: tuple[str, ...]) -> bool:
    """Whether sources of this family are part of a build for these architectures."""
    return bool(_codes(name, architectures))


def gencode(source: PurePath, architectures: tuple[str, ...]) -> tuple[str, ...]:
    """nvcc's -gencode flags for one source; empty if no chosen architecture wants it.

    SASS for every architecture of the source's family, and the oldest portable intermediate form beside it as PTX,
    which GPUs not listed here compile when they load it. The "a" forms are not portable and bring no PTX.
    """
    codes = _codes(family(source), architectures)
    if source.stem in NOT_FOR_HOPPER and codes.pop("90a", []) and not codes:
        codes = {"80": ["compute_80"]}
    if source.stem in HOPPER_AS_SM80 and "90a" in codes:
        codes.setdefault("80", []).extend(codes.pop("90a"))
    return tuple(f"-gencode=arch=compute_{virtual},code={code}" for virtual, group in codes.items() for code in group)


def _codes(family_name: str | None, architectures: tuple[str, ...]) -> dict[str, list[str]]:
    """Intermediate form -> what is made from it."""
    codes: dict[str, list[str]] = {}
    members = _members(family_name, architectures)
    for name in members:
        if _RUNS_CODE_OF.get(name) in members:
            continue
        virtual = _VIRTUAL.get(name, name)
        codes.setdefault(virtual, []).append(f"sm_{name}")
    portable = [virtual for virtual in codes if virtual.isdigit()]
    if family_name == "hbm" and any(name.isdigit() and _number(name) >= 80 for name in architectures):
        portable = ["80"]  # a build for RTX cards alone links these too, and runs on the others through PTX
    if portable:
        oldest = min(portable, key=_number)
        codes.setdefault(oldest, []).append(f"compute_{oldest}")
    return codes


def _members(family_name: str | None, architectures: tuple[str, ...]) -> tuple[str, ...]:
    if family_name == "sm75":
        return tuple(name for name in architectures if name == "75")
    if family_name == "sm80":
        return tuple(name for name in architectures if _number(name) >= 80)
    if family_name == "hbm":
        return tuple(name for name in architectures if _number(name) in _WITH_HBM)
    if family_name == "sm90a":
        return tuple(name for name in architectures if name == "90a")
    return architectures


def _number(name: str) -> int:
    return int(name.rstrip("af"))
