"""Locking and resetting clocks. The GPU is a fake nvidia-smi; processes and signals are real."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4, FakeNvidiaSmi
from warpwatch.ci.runner.calibration_files import clock_under_load_mhz
from warpwatch.ci.runner.clock_lock import (
    ClockChoice,
    ClockError,
    choose,
    locked_clocks,
    reset_clocks,
    run_locked,
    stale_locks,
)
from warpwatch.ci.runner.host import Host

ON = f"-i {T4['uuid']}"
LOCKS = [f"{ON} --lock-gpu-clocks=1350,1350", f"{ON} --lock-memory-clocks=5001,5001"]
RESETS = [f"{ON} --reset-gpu-clocks", f"{ON} --reset-memory-clocks"]


def _choice(host: Host, *, under_load_mhz: float | None = None) -> ClockChoice:
    chosen = choose(host, host.gpus.devices[0], requested_mhz=None, under_load_mhz=under_load_mhz)
    assert chosen is not None
    return chosen


def test_the_clock_is_supported_and_sustained_under_load(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    ceilings = [{"sm_clock_hz": 1.4e9}, {"sm_clock_hz": 1.0e9}, {"sm_clock_hz": None}]
    file.write_text(json.dumps({"ceilings": ceilings}))
    under_load_mhz = clock_under_load_mhz(file)
    assert under_load_mhz == 1000
    chosen = _choice(host, under_load_mhz=under_load_mhz)
    assert chosen.sm_mhz == 960  # of 300, 315, ... the highest up to 970
    assert "97% of 1000 MHz, its clock under load" in chosen.why
    assert _choice(host).sm_mhz == 1185  # three quarters of 1590 are 1192
    requested = choose(host, host.gpus.devices[0], requested_mhz=777, under_load_mhz=under_load_mhz)
    assert requested is not None
    assert requested.sm_mhz == 777
    assert clock_under_load_mhz(tmp_path / "none.json") is None


def test_a_gpu_that_reports_no_clocks_gets_no_lock(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(RTX_4090 | {"clocks.max.sm": "[N/A]"})
    state = json.loads((smi.folder / "state.json").read_text())
    (smi.folder / "state.json").write_text(json.dumps(state | {"clocks": []}))
    assert choose(host, host.gpus.devices[0], requested_mhz=None, under_load_mhz=None) is None


def test_clocks_are_reset_at_the_end_and_at_an_error(host: Host, smi: FakeNvidiaSmi) -> None:
    chosen = replace(_choice(host), sm_mhz=1350)
    lines: list[str] = []
    with locked_clocks(host, [chosen], lines.append):
        assert smi.calls() == LOCKS
        assert list(stale_locks(host)) == []
    assert smi.calls() == LOCKS + RESETS
    with pytest.raises(RuntimeError, match="measuring failed"), locked_clocks(host, [chosen], lines.append):
        raise RuntimeError("measuring failed")
    assert smi.calls() == 2 * (LOCKS + RESETS)
    assert list((host.root / "run/lock").iterdir()) == []


def test_a_gpu_without_a_memory_clock_lock_is_accepted(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, refuses=("--lock-memory", "--reset-memory"))
    lines: list[str] = []
    with locked_clocks(host, [_choice(host)], lines.append):
        pass
    assert any("is not locked" in line for line in lines)
    assert any("clocks are reset (the memory clock cannot be locked)" in line for line in lines)


def test_a_gpu_that_refuses_the_lock_raises_and_is_reset(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, refuses=("--lock-gpu",))
    with pytest.raises(ClockError, match="cannot lock the SM clock"), locked_clocks(host, [_choice(host)], print):
        pytest.fail("nothing is locked")
    assert smi.calls()[-2:] == RESETS
    assert list((host.root / "run/lock").iterdir()) == []


def test_without_root_no_lock_is_attempted(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    user = replace(host, is_root=False)
    with pytest.raises(ClockError, match="needs root"), locked_clocks(user, [_choice(user)], print):
        pytest.fail("nothing is locked")
    with pytest.raises(ClockError, match="needs root"):
        reset_clocks(user, print)
    assert smi.calls() == []


_HOLD = """
import signal, sys, time
from pathlib import Path
from warpwatch.ci.runner.clock_lock import choose, locked_clocks
from warpwatch.ci.runner.host import Host
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
host = Host(folder=Path("."), root=Path(sys.argv[1]), is_root=True)
choice = choose(host, host.gpus.devices[0], requested_mhz=1350, under_load_mhz=None)
with locked_clocks(host, [choice], lambda line: None):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_resets_clocks_and_after_sigkill_the_stale_lock_is_found_and_reset(
    how: signal.Signals, host: Host, smi: FakeNvidiaSmi
) -> None:
    environ = {**os.environ, "PATH": host.environ["PATH"]}
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(host.root)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "locked\n"
        process.send_signal(how)
        process.wait(timeout=60)
    finally:
        process.kill()
        process.stdout.close()
    left = list(stale_locks(host))
    if how is signal.SIGKILL:
        assert [(lock.uuid, lock.sm_mhz, lock.pid) for lock in left] == [(T4["uuid"], 1350, process.pid)]
        reset_clocks(host, print)
    assert smi.calls() == LOCKS + RESETS
    assert list(stale_locks(host)) == []


def test_a_failed_reset_leaves_a_stale_lock(host: Host, smi: FakeNvidiaSmi) -> None:
    lines: list[str] = []
    with locked_clocks(host, [_choice(host)], lines.append):
        smi.answers(T4, refuses=("--reset-gpu",))
    assert "could not be reset" in lines[-1]
    (record,) = (host.root / "run/lock").iterdir()
    record.write_text(record.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))  # this process has ended
    assert [lock.uuid for lock in stale_locks(host)] == [T4["uuid"]]
    reset_clocks(host, lines.append)
    assert record.exists()
    smi.answers(T4)
    reset_clocks(host, lines.append)
    assert not record.exists()


def test_a_lock_of_another_process_is_respected(host: Host, smi: FakeNvidiaSmi) -> None:
    chosen = _choice(host)
    with locked_clocks(host, [chosen], print):
        calls = smi.calls()
        with pytest.raises(ClockError, match="is locked by process"), locked_clocks(host, [chosen], print):
            pytest.fail("it would reset the other process's clocks")
        assert smi.calls() == calls


def test_without_root_a_stale_lock_stays_recorded(host: Host, smi: FakeNvidiaSmi, tmp_path: Path) -> None:
    record = host.root / "run/lock" / f"warpwatch-clocks-{T4['uuid']}.json"
    record.write_text(json.dumps({"uuid": T4["uuid"], "sm_mhz": 960, "pid": 999999999, "started": "1"}))
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    user = replace(host, is_root=False)
    with pytest.raises(ClockError, match="needs root"):
        run_locked(user, 1350, ("true",))
    assert [lock.path for lock in stale_locks(host)] == [record]


def test_clocks_of_a_service_are_locked_again_afterwards(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "systemctl").write_text('#!/bin/sh\necho "systemctl $*" >> "$(dirname "$0")/calls.txt"\n')
    (smi.folder / "systemctl").chmod(0o755)
    with locked_clocks(host, [_choice(host)], print):
        pass
    assert smi.calls()[-4:] == [
        *RESETS,
        "systemctl is-active --quiet warpwatch-clocks.service",
        "systemctl reload warpwatch-clocks.service",
    ]


def test_the_command_runs_its_argument_at_locked_clocks(smi: FakeNvidiaSmi, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("locking needs root")
    environ = {**os.environ, "PATH": f"{smi.folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    words = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "locked", "--sm-clock", "1350"]
    inner = [sys.executable, "-c", f"import shutil; shutil.copy({str(smi.folder / 'calls.txt')!r}, 'during'); exit(7)"]
    before = time.monotonic()
    done = subprocess.run([*words, *inner], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 7, (done.stderr, time.monotonic() - before)
    assert "SM clock 1350 MHz, as --sm-clock says" in done.stderr
    assert "--lock-gpu-clocks=1350,1350" in (tmp_path / "during").read_text()
    assert "--reset" not in (tmp_path / "during").read_text()
    assert smi.calls()[-2:] == RESETS
