"""What is installed: all three rooms with the extension, in one wheel for every Python from 3.11 on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("kernels", "dashboard", "ci")


def test_the_wheel_holds_every_room_and_serves_every_python(tmp_path: Path) -> None:
    not_sources = shutil.ignore_patterns("*.so", "__pycache__")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=not_sources)
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "bdist_wheel"],
        cwd=tmp_path,
        env={**os.environ, "WARPWATCH_CUDA_ARCHS": "none"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith("warpwatch-0.1.0-cp311-abi3-linux")

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "warpwatch/kernels/_C.abi3.so" in names
    assert "warpwatch/__init__.py" not in names  # a namespace: each room is its own package
    for room in ROOMS:
        for source in (ROOT / room).rglob("*"):
            wanted = source.suffix in (".py", ".html", ".mako") or "static" in source.parts
            if source.is_file() and wanted and "__pycache__" not in source.parts:
                assert f"warpwatch/{source.relative_to(ROOT)}" in names
