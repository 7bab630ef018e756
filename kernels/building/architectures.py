"""Target architectures of each CUDA source: the suffix of its file name against the chosen architectures.

`<name>_sm75.cu` is for that GPU only, `<name>_sm80.cu` for Ampere and newer, `<name>_sm90a.cu` for Hopper's own
instructions, a file without suffix for all. `<name>_hbm.cu` is for the chips with HBM (A100, H100, B200), whose shared
memory and TF32 rates RTX cards do not have: there these kernels would spill and never be dispatched. A source that no
chosen architecture needs is skipped.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePath

ALL = "all"
TRACKED = "75;86;89;90a;120"  # the meaning of ALL: the GPUs whose compiled code is tracked
NONE = "none"
FAMILIES = ("sm75", "sm80", "hbm", "sm90a")

# SASS for these comes from one PTX version each, so a source passes the front end four times instead of five. sm_86 and
# sm_89 add no instruction to sm_80 that our sources use. sm_120 needs its own: the front end generates different code
# for the same source there (packed fp32 arithmetic, 32-byte loads).
_VIRTUAL = {"75": "75", "80": "80", "86": "80", "89": "80"}
_WITH_HBM = (80, 90, 100, 103)
# A GPU runs code for an earlier GPU of its major version; ptxas generates the same code from our sources for both.
_RUNS_CODE_OF = {"89": "86"}
# Sources of the sm_80 family whose work Hopper does with kernels of its own. A build for Hopper alone links them too.
NOT_FOR_HOPPER = {"flash_attention_backward_fp32_sm80", "flash_attention_fp32_sm80", "int4_linear_sm80"}
# Those for which ptxas generates the same sm_90a code from sm_80's PTX: one pass of the front end serves both.
HOPPER_AS_SM80 = {"flash_attention_backward_sm80", "flash_attention_packed_sm80", "flash_attention_sm80"}


def parse(text: str | None) -> tuple[str, ...]:
    """Parse WARPWATCH_CUDA_ARCHS, oldest first: "all", "none" or a list like "75;86;89;90a;120".

    None means this machine's GPUs, () without any. Raises ValueError for any other text.
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
                f"expected {ALL!r}, {NONE!r} or a list such as {TRACKED!r}"
            )
    return tuple(sorted(names, key=_number))


def of_this_machine() -> tuple[str, ...]:
    """Architectures of the GPUs that the NVIDIA driver reports; () without a driver, or for GPUs older than 75."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    numbers = {int(line.replace(".", "")) for line in said.split() if re.fullmatch(r"\d+\.\d", line)}
    # Hopper's own instructions need the target "90a".
    return tuple("90a" if number == 90 else str(number) for number in sorted(numbers) if number >= 75)


def family(source: PurePath) -> str | None:
    """The file-name suffix that says which GPUs a CUDA source is for; None means all."""
    suffix = source.stem.rpartition("_")[2]
    return suffix if suffix in FAMILIES else None


def has_family(name: str, architectures: tuple[str, ...]) -> bool:
    """Whether a build for these architectures contains sources of this family."""
    return bool(_codes(name, architectures))


def gencode(source: PurePath, architectures: tuple[str, ...]) -> tuple[str, ...]:
    """nvcc's -gencode flags for one source; empty if no chosen architecture needs it.

    SASS for every architecture of the source's family, plus PTX of the oldest portable one, which other GPUs compile
    when they load it. The "a" targets are not portable and get no PTX.
    """
    codes = _codes(family(source), architectures)
    if source.stem in NOT_FOR_HOPPER and codes.pop("90a", []) and not codes:
        codes = {"80": ["compute_80"]}
    if source.stem in HOPPER_AS_SM80 and "90a" in codes:
        codes.setdefault("80", []).extend(codes.pop("90a"))
    return tuple(f"-gencode=arch=compute_{virtual},code={code}" for virtual, group in codes.items() for code in group)


def _codes(family_name: str | None, architectures: tuple[str, ...]) -> dict[str, list[str]]:
    """Map each PTX target to the code generated from it."""
    codes: dict[str, list[str]] = {}
    members = _members(family_name, architectures)
    for name in members:
        if _RUNS_CODE_OF.get(name) in members:
            continue
        virtual = _VIRTUAL.get(name, name)
        codes.setdefault(virtual, []).append(f"sm_{name}")
    portable = [virtual for virtual in codes if virtual.isdigit()]
    if family_name == "hbm" and any(name.isdigit() and _number(name) >= 80 for name in architectures):
        portable = ["80"]  # a build for RTX cards alone links these too; the other GPUs run them through PTX
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
