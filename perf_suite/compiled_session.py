"""Read the commit's compiled code once, and write its records. No torch here."""

import datetime
import importlib
import os
import platform
import subprocess
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from . import processor
from .machine_code import KernelCode, find_cuobjdump, read_machine_code
from .records import CompiledRecord, RunRecord
from .spool import Spool
from .watched_kernels import ARCHITECTURES, operator_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCodeResults:
    """The watched kernels by (kernel, architecture), or the piece that is missing here."""

    kernels: dict[tuple[str, str], KernelCode]
    unavailable: str | None = None


def read_compiled_code(benchmark: str) -> CompiledCodeResults:
    """The watched kernels of the installed commit. Raises CalledProcessError if its library cannot be read."""
    library = _library()
    if library is None:
        return CompiledCodeResults(kernels={}, unavailable="this commit has no built kernels here")
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        return CompiledCodeResults(kernels={}, unavailable="cuobjdump comes with Triton or CUDA; neither is here")
    kernels = {
        (code.kernel, code.architecture): code
        for code in read_machine_code(library, cuobjdump)
        if operator_of(code.kernel) and code.architecture in ARCHITECTURES
    }
    _record(benchmark, cuobjdump, kernels)
    return CompiledCodeResults(kernels=kernels)


def _library() -> Path | None:
    try:
        extension = importlib.import_module("warpwatch.kernels.extension")
    except ModuleNotFoundError:
        return None
    path: Path | None = extension.extension_path()
    return path


def _record(benchmark: str, cuobjdump: Path, kernels: dict[tuple[str, str], KernelCode]) -> None:
    run = uuid.uuid4().hex
    spool = Spool(run)
    version = subprocess.run([str(cuobjdump), "--version"], check=True, capture_output=True, text=True).stdout
    spool.append(
        RunRecord(
            run=run,
            commit=os.environ.get("ASV_COMMIT", ""),
            environment=os.environ.get("ASV_ENV_NAME", ""),
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            device="cpu",
            gpu=None,
            cpu=processor.describe(threads=None),
            software={"python": platform.python_version(), "cuobjdump": version.strip().splitlines()[-1]},
            ceilings=None,
        )
    )
    for code in kernels.values():
        operator = operator_of(code.kernel)
        assert operator is not None
        spool.append(CompiledRecord(run=run, benchmark=benchmark, operator=operator, **asdict(code)))
