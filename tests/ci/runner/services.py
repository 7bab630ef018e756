"""A runner's services as set-up would install them, and GitHub's runner as far as it is looked at."""

import json
from pathlib import Path

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4
from warpwatch.ci.runner.clock_lock import ClockChoice
from warpwatch.ci.runner.nvidia_smi import Gpu
from warpwatch.ci.runner.unit_files import Service


def make_service(tmp_path: Path, **given: object) -> Service:
    """With a T4 and an RTX 4090, and all that a service can have, but for what is given."""
    cards = [Gpu(uuid=card["uuid"], name=card["name"], driver="580", told=card) for card in (T4, RTX_4090)]
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
        "clocks": tuple(ClockChoice(card=card, sm_mhz=960, memory_mhz=5001, why="") for card in cards),
        "server": "https://perf.example.org",
        "project": "demo",
        "repository": "o/r",
        "actions_runner": programs,
    }
    return Service(**{**values, **given})  # type: ignore[arg-type]


def unpack_actions_runner(folder: Path, version: str | None) -> Path:
    """As far as it is looked at."""
    (folder / "bin").mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    if version is not None:
        libraries = {f"Runner.Listener/{version}": {"type": "project"}, "Newtonsoft.Json/13.0.3": {"type": "package"}}
        (folder / "bin" / "Runner.Listener.deps.json").write_text(json.dumps({"libraries": libraries}))
    return folder
