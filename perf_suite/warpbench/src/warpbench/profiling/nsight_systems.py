"""Nsight Systems: a timeline of some calls in a row, to open in its GUI. No torch here."""

import os
from pathlib import Path

from .watched_call import Call, NotProfiledError, run_under

_OPTIONS = (
    "--trace=cuda,nvtx,cublas,cudnn",
    "--sample=none",
    "--cpuctxsw=none",
    "--capture-range=cudaProfilerApi",
    "--capture-range-end=stop",
    "--force-overwrite=true",
)
TIMELINE, UNCONVERTED = ".nsys-rep", ".qdstrm"


def record_timeline(tool: Path, call: Call, folder: Path) -> Path:
    """Record the calls; the timeline's file.

    nsys writes UNCONVERTED and has its importer make TIMELINE of it; where that does not run, the first is all there
    is, and the GUI imports it. Raises NotProfiledError if this call cannot be recorded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / call.file_stem
    for suffix in (TIMELINE, UNCONVERTED):
        Path(f"{stem}{suffix}").unlink(missing_ok=True)
    ran = run_under([str(tool), "profile", *_OPTIONS, f"--output={stem}"], call, _with_importer(tool))
    ran.answered()
    for suffix in (TIMELINE, UNCONVERTED):
        if Path(f"{stem}{suffix}").exists():
            return Path(f"{stem}{suffix}")
    raise NotProfiledError(f"Nsight Systems wrote no timeline: {ran.last_words()}")


def _with_importer(tool: Path) -> dict[str, str]:
    """PATH with the folder of nsys's importer: the nsys that comes with Nsight Compute does not find it by itself."""
    importers = tool.resolve().parents[1].glob("*/QdstrmImporter")
    return {"PATH": os.pathsep.join([os.environ.get("PATH", ""), *(str(path.parent) for path in importers)])}
