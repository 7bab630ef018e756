"""How the canaries' PTX comes from their CUDA: `python -m warpbench.canaries.ptx` writes it anew. No torch here."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SOURCES = tuple(sorted(FOLDER.glob("*.cu")))
_ARCHITECTURE = "compute_75"  # Turing; every later GPU's driver compiles it too
# nvcc states its own release's PTX version, which an older driver refuses even where it knows each instruction.
# 6.5 (CUDA 10.2, driver 440) is the first with mma.m16n8k8.
_PTX_VERSION = "6.5"


def compiled(source: Path, nvcc: str) -> str:
    """The PTX of one source. Raises CalledProcessError, nvcc's own words on standard error."""
    command = [nvcc, "-ptx", f"-arch={_ARCHITECTURE}", "-o", "/dev/stdout", str(source)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.sub(r"^\.version .*$", f".version {_PTX_VERSION}", text, count=1, flags=re.MULTILINE)


def compiler_release(ptx: str) -> str | None:
    """The release of nvcc that a PTX text says it was written by: "13.0, V13.0.88"."""
    found = re.search(r"Cuda compilation tools, release (.*)", ptx)
    return found.group(1).strip() if found else None


def main() -> None:
    """Compile every canary into the file next to it."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        sys.exit("the canaries are compiled with nvcc, and there is none on PATH")
    for source in SOURCES:
        source.with_suffix(".ptx").write_text(compiled(source, nvcc))


if __name__ == "__main__":
    main()
