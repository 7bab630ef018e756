"""One measurement at a time on a GPU: real processes, real locks, and an nvidia-smi that prints what one printed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpwatch.ci.host_lock import GpuBusyError, HostLockError, gpu_lock, visible_gpus

_HOLD = """
import subprocess, sys
from pathlib import Path
from warpwatch.ci.host_lock import gpu_lock
with gpu_lock(["GPU-1"], folder=Path(sys.argv[1])) as held:
    if len(sys.argv) > 2:
        child = subprocess.Popen(["sleep", "600"], pass_fds=held.descriptors)
        print(child.pid, flush=True)
    else:
        print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen, str]]:
    """A process that holds GPU-1, and what it said."""
    words = [sys.executable, "-c", _HOLD, str(tmp_path), *getattr(request, "param", [])]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


def test_two_processes_never_measure_at_once_and_the_waiting_one_names_the_holder(
    holder: tuple[subprocess.Popen, str], tmp_path: Path
) -> None:
    process, _ = holder
    with (
        pytest.raises(GpuBusyError, match=f"GPU-1 is in use by process {process.pid} of "),
        gpu_lock(["GPU-1"], wait_s=0, folder=tmp_path),
    ):
        pass
    with gpu_lock(["GPU-2"], wait_s=0, folder=tmp_path) as other:
        assert other.names == ("GPU-2",)


def test_passwords_of_the_holders_command_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says stands in the log of another's job."""
    database = "postgresql://watch:s3cr3t@db.example.org/history"
    monkeypatch.setattr(sys, "argv", ["warpwatch", "gate", "a", "b", "--database", database])
    with (
        gpu_lock(["GPU-1"], folder=tmp_path),
        pytest.raises(GpuBusyError) as busy,
        gpu_lock(["GPU-1"], wait_s=0, folder=tmp_path),
    ):
        pass
    assert "--database postgresql://…@db.example.org/history" in str(busy.value)
    assert "s3cr3t" not in (tmp_path / "warpwatch-GPU-1.lock").read_text()


@pytest.mark.parametrize(
    "noted",
    [
        {"pid": 7, "user": "eve\x1b[2J", "command": "asv\x1b]0;owned\x07\u202e run\r\n$ ", "since": "\x9b31m"},
        {"pid": "\x1b[2J", "user": "eve", "command": "asv", "since": "now"},
        {"pid": 7, "user": ["\x1b"], "command": {"\x1b": 1}, "since": None},
        ["\x1b"],
        "[" * 4000,
    ],
)
def test_control_characters_of_another_users_holder_are_replaced(
    noted: object, holder: tuple[subprocess.Popen, str], tmp_path: Path
) -> None:
    """Anybody may write into the lock's file."""
    text = noted if isinstance(noted, str) else json.dumps(noted)
    (tmp_path / "warpwatch-GPU-1.lock").write_text(text)
    lines: list[str] = []
    with pytest.raises(GpuBusyError) as busy, gpu_lock(["GPU-1"], wait_s=0.1, folder=tmp_path, say=lines.append):
        pass
    for line in (*lines, str(busy.value)):
        assert line.isprintable(), line
        assert "GPU-1" in line


def test_one_that_waits_goes_on_when_the_other_ends(holder: tuple[subprocess.Popen, str], tmp_path: Path) -> None:
    process, _ = holder
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        process.communicate()  # closes its standard input: it lets go by itself

    with gpu_lock(["GPU-1"], wait_s=60, say=hear, folder=tmp_path):
        assert lines[0].startswith("waiting for GPU-1, which is in use by process")


def test_a_killed_process_holds_nothing(holder: tuple[subprocess.Popen, str], tmp_path: Path) -> None:
    process, _ = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    with gpu_lock(["GPU-1"], wait_s=0, folder=tmp_path) as held:
        assert held.names == ("GPU-1",)


@pytest.mark.parametrize("holder", [["with-child"]], indirect=True)
def test_a_measuring_child_holds_the_lock_of_its_killed_parent(
    holder: tuple[subprocess.Popen, str], tmp_path: Path
) -> None:
    process, child = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(GpuBusyError), gpu_lock(["GPU-1"], wait_s=0, folder=tmp_path):
        pass
    os.kill(int(child), signal.SIGKILL)
    with gpu_lock(["GPU-1"], wait_s=60, folder=tmp_path):
        pass


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(HostLockError, match=r"none/warpwatch-GPU-1.lock: No such file .*WARPWATCH_LOCK_FOLDER"),
        gpu_lock(["GPU-1"], folder=tmp_path / "none"),
    ):
        pass


def test_alone_runs_a_command_while_nothing_else_measures(holder: tuple[subprocess.Popen, str], tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "warpwatch.ci.cli",
        "runner",
        "with-gpu-lock",
        "--wait",
        "0",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]
    smi = _nvidia_smi(tmp_path / "bin", "GPU 0: NVIDIA H200 (UUID: GPU-1)\n")
    environment = os.environ | smi | {"WARPWATCH_LOCK_FOLDER": str(tmp_path)}
    busy = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (busy.returncode, "GPU-1 is in use by process" in busy.stderr) == (75, True)
    holder[0].communicate()
    assert subprocess.run(words, env=environment).returncode == 3


_TWO = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa-1)
  MIG 1g.18gb     Device  0: (UUID: MIG-cccc-1)
GPU 1: {other} (UUID: GPU-bbbb-2)
"""


@pytest.mark.parametrize(
    ("other", "environ", "wanted"),
    [
        ("NVIDIA H200", {}, ("GPU-aaaa-1", "GPU-bbbb-2")),
        ("NVIDIA H200", {"CUDA_VISIBLE_DEVICES": ""}, ()),
        ("NVIDIA H200", {"CUDA_VISIBLE_DEVICES": "1"}, ("GPU-bbbb-2",)),
        ("NVIDIA H200", {"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ("GPU-bbbb-2",)),
        ("NVIDIA H200", {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, ("GPU-bbbb-2",)),
        ("NVIDIA H200", {"CUDA_VISIBLE_DEVICES": "MIG-cccc-1"}, ("GPU-aaaa-1",)),
        ("Tesla T4", {"CUDA_VISIBLE_DEVICES": "1"}, ("GPU-aaaa-1", "GPU-bbbb-2")),
        ("Tesla T4", {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ("GPU-bbbb-2",)),
    ],
)
def test_the_cards_are_those_that_cuda_would_use(
    other: str, environ: dict[str, str], wanted: tuple[str, ...], tmp_path: Path
) -> None:
    assert visible_gpus(_nvidia_smi(tmp_path, _TWO.format(other=other)) | environ) == wanted


def test_without_a_driver_the_machine_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with gpu_lock(folder=tmp_path) as held:
        assert held.names == ("machine",)
    assert (tmp_path / "warpwatch-machine.lock").exists()


def _nvidia_smi(folder: Path, text: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    script = folder / "nvidia-smi"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    script.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
