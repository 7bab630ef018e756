"""What is installed: all three rooms with the extension, in one wheel for every Python from 3.11 on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("kernels", "dashboard", "ci")

WITHOUT_TORCH = """
import importlib.util, runpy, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find_spec(name, *rest)
sys.argv = ["setup.py", "--quiet", "build_ext", "--inplace"]
runpy.run_path("setup.py", run_name="__main__")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    not_sources = shutil.ignore_patterns("*.so", "__pycache__")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=not_sources)
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path)
    return tmp_path


def run(checkout: Path, *arguments: str) -> None:
    # Not for other architectures than this checkout: its objects are in the store.
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_every_room_and_serves_every_python(checkout: Path) -> None:
    run(checkout, "setup.py", "--quiet", "bdist_wheel")
    (wheel,) = (checkout / "dist").iterdir()
    assert wheel.name.startswith("warpwatch-0.1.0-cp311-abi3-linux")

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"warpwatch/kernels/_C.abi3.so", "warpwatch/kernels/_C.build.json"} <= names
    assert "warpwatch/__init__.py" not in names  # a namespace: each room is its own package
    for source in (path for room in ROOMS for path in (checkout / room).rglob("*")):
        expected = source.suffix in (".py", ".html", ".mako") or "static" in source.parts
        if source.is_file() and expected and "trials" not in source.parts:
            assert f"warpwatch/{source.relative_to(checkout)}" in names
    assert not [name for name in names if "/trials/" in name or "/screenshots/" in name or "/examples/" in name]


def test_a_machine_without_torch_installs_all_but_the_extension(checkout: Path) -> None:
    run(checkout, "-c", WITHOUT_TORCH)
    assert not list(checkout.rglob("*.so"))
