"""The first line of a run: the machine and the software that everything after it was measured with."""

import datetime
import os

import torch

from . import context, processor
from .calibration.ceiling_file import measured_ceilings
from .records import RunRecord
from .timing.cpu import THREADS


def describe(run: str, device: str, monitor: context.GpuMonitor | None) -> RunRecord:
    """This process's run, named `run`; the commit and the environment are asv's, if asv started us."""
    gpu = monitor.gpu() if monitor else None
    return RunRecord(
        run=run,
        commit=os.environ.get("ASV_COMMIT", ""),
        environment=os.environ.get("ASV_ENV_NAME", ""),
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        device=device,
        gpu=gpu,
        cpu=processor.describe(threads=THREADS if device == "cpu" else torch.get_num_threads()),
        software=context.software(),
        ceilings=monitor.ceilings() if monitor else None,
        measured_ceilings=measured_ceilings(gpu.uuid) if gpu else None,
    )
