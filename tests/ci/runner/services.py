"""A runner's services as set-up would install them, and a minimal folder of GitHub's runner."""

import json
from pathlib import Path

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4
from warpwatch.ci.runner.clock_lock import ClockChoice
from warpwatch.ci.runner.nvidia_smi import SmiGpu
from warpwatch.ci.runner.service_steps import Service


def make_service(tmp_path: Path, **given: object) -> Service:
    """Settings with a T4, an RTX 4090 and every option, overridden by `given`."""
    devices = [SmiGpu(uuid=gpu["uuid"], name=gpu["name"], driver="580", fields=gpu) for gpu in (T4, RTX_4090)]
    programs = tmp_path / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("warpwatch", "nvidia-smi", "run.sh"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    folder = tmp_path / "a folder with 100% blanks"
    folder.mkdir(exist_ok=True)
    values: dict[str, object] = {
        "folder": folder,
        "user": "root",
        "group": "root",
        "measuring": programs,
        "serving": programs,
        "calendar": "*-*-* 03:00",
        "labels": ("gpu-rtx4090", "gpu-t4"),
        "ceilings": tmp_path / "the ceilings",
        "nvidia_smi": str(programs / "nvidia-smi"),
        "clocks": tuple(ClockChoice(gpu=gpu, sm_mhz=960, memory_mhz=5001, why="") for gpu in devices),
        "server": "https://perf.example.org",
        "project": "demo",
        "repository": "o/r",
        "actions_runner": programs,
    }
    return Service(**{**values, **given})  # type: ignore[arg-type]


def unpack_actions_runner(folder: Path, version: str | None) -> Path:
    """Writes the files of GitHub's runner that set-up and doctor read."""
    (folder / "bin").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    if version is not None:
        libraries = {f"Runner.Listener/{version}": {"type": "project"}, "Newtonsoft.Json/13.0.3": {"type": "package"}}
        (folder / "bin" / "Runner.Listener.deps.json").write_text(json.dumps({"libraries": libraries}))
    return folder
