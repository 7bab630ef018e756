"""The first line of a run: the machine and the software that everything after it was measured with."""

import datetime
import hashlib
import os
from pathlib import Path

import torch

from . import benchmark_root, context, processor
from .calibration.ceiling_file import cpu_key, measured_ceilings
from .records import RunRecord
from .timing.cpu import THREADS

_SUITE = Path(__file__).resolve().parent


def describe(run: str, device: str, monitor: context.GpuMonitor | None) -> RunRecord:
    """This process's run, named `run`; the commit and the environment are asv's, if asv started us."""
    gpu = monitor.gpu() if monitor else None
    cpu = processor.describe(threads=THREADS if device == "cpu" else torch.get_num_threads())
    return RunRecord(
        run=run,
        commit=os.environ.get("ASV_COMMIT", ""),
        environment=os.environ.get("ASV_ENV_NAME", ""),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        device=device,
        gpu=gpu,
        cpu=cpu,
        software=context.software(),
        ceilings=monitor.ceilings() if monitor else None,
        suite_sha256=_suite_sha256(),
        measured_ceilings=measured_ceilings(gpu.uuid if gpu else cpu_key(cpu)),
    )


def _suite_sha256() -> str:
    """Of warpbench and of the project's benchmark directory: cases, inputs, gate, stopwatches."""
    digest = hashlib.sha256()
    for folder in filter(None, (_SUITE, benchmark_root.in_use())):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
