"""Clocks are locked, and put back however that ends. The card is a fake nvidia-smi; processes and signals are real."""

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
from warpwatch.ci.runner.clock_lock import (
    ClockChoice,
    ClockError,
    choose,
    forgotten_locks,
    locked_clocks,
    reset_clocks,
    run_locked,
)
from warpwatch.ci.runner.host import Host
from warpwatch.ci.runner.installation import clock_under_load_mhz

ON = f"-i {T4['uuid']}"
LOCKS = [f"{ON} --lock-gpu-clocks=1350,1350", f"{ON} --lock-memory-clocks=5001,5001"]
RESETS = [f"{ON} --reset-gpu-clocks", f"{ON} --reset-memory-clocks"]


def _choice(host: Host, **given: float | None) -> ClockChoice:
    chosen = choose(host, host.gpus.cards[0], wanted_mhz=None, under_load_mhz=given.get("kept"))
    assert chosen is not None
    return chosen


def test_the_clock_is_one_that_the_card_knows_and_keeps_under_load(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    ceilings = [{"sm_clock_hz": 1.4e9}, {"sm_clock_hz": 1.0e9}, {"sm_clock_hz": None}]
    file.write_text(json.dumps({"ceilings": ceilings}))
    kept = clock_under_load_mhz(file)
    assert kept == 1000
    chosen = _choice(host, kept=kept)
    assert chosen.sm_mhz == 960  # of 300, 315, ... the highest up to 970
    assert "1000 MHz kept under its heaviest load" in chosen.why
    assert _choice(host).sm_mhz == 1185  # three quarters of 1590 are 1192
    wanted = choose(host, host.gpus.cards[0], wanted_mhz=777, under_load_mhz=kept)
    assert wanted is not None
    assert wanted.sm_mhz == 777
    assert clock_under_load_mhz(tmp_path / "none.json") is None


def test_a_card_that_tells_no_clock_is_left_alone(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(RTX_4090 | {"clocks.max.sm": "[N/A]"})
    state = json.loads((smi.folder / "state.json").read_text())
    (smi.folder / "state.json").write_text(json.dumps(state | {"clocks": []}))
    assert choose(host, host.gpus.cards[0], wanted_mhz=None, under_load_mhz=None) is None


def test_clocks_are_put_back_at_the_end_and_at_an_error(host: Host, smi: FakeNvidiaSmi) -> None:
    chosen = replace(_choice(host), sm_mhz=1350)
    said: list[str] = []
    with locked_clocks(host, [chosen], said.append):
        assert smi.asked() == LOCKS
        assert list(forgotten_locks(host)) == []
    assert smi.asked() == LOCKS + RESETS
    with pytest.raises(RuntimeError, match="measuring failed"), locked_clocks(host, [chosen], said.append):
        raise RuntimeError("measuring failed")
    assert smi.asked() == 2 * (LOCKS + RESETS)
    assert list((host.root / "run/lock").iterdir()) == []


def test_a_card_whose_memory_clock_cannot_be_locked_is_used_all_the_same(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, refuses=("--lock-memory", "--reset-memory"))
    said: list[str] = []
    with locked_clocks(host, [_choice(host)], said.append):
        pass
    assert any("its memory clock stays free" in line for line in said)
    assert any("clocks are free again (the memory's cannot be locked)" in line for line in said)


def test_a_card_that_refuses_the_lock_is_an_error_and_keeps_nothing(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, refuses=("--lock-gpu",))
    with pytest.raises(ClockError, match="does not lock its SM clock"), locked_clocks(host, [_choice(host)], print):
        pytest.fail("nothing is locked")
    assert smi.asked()[-2:] == RESETS
    assert list((host.root / "run/lock").iterdir()) == []


def test_without_root_nothing_is_tried(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    nobody = replace(host, is_root=False)
    with pytest.raises(ClockError, match="wants root"), locked_clocks(nobody, [_choice(nobody)], print):
        pytest.fail("nothing is locked")
    with pytest.raises(ClockError, match="wants root"):
        reset_clocks(nobody, print)
    assert smi.asked() == []


_HOLD = """
import signal, sys, time
from pathlib import Path
from warpwatch.ci.runner.clock_lock import choose, locked_clocks
from warpwatch.ci.runner.host import Host
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
host = Host(folder=Path("."), root=Path(sys.argv[1]), is_root=True)
choice = choose(host, host.gpus.cards[0], wanted_mhz=1350, under_load_mhz=None)
with locked_clocks(host, [choice], lambda line: None):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_puts_clocks_back_and_after_a_kill_they_are_found_and_put_back(
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
    left = list(forgotten_locks(host))
    if how is signal.SIGKILL:
        assert [(lock.uuid, lock.sm_mhz, lock.pid) for lock in left] == [(T4["uuid"], 1350, process.pid)]
        reset_clocks(host, print)
    assert smi.asked() == LOCKS + RESETS
    assert list(forgotten_locks(host)) == []


def test_a_card_that_does_not_take_its_clocks_back_is_found_afterwards(host: Host, smi: FakeNvidiaSmi) -> None:
    said: list[str] = []
    with locked_clocks(host, [_choice(host)], said.append):
        smi.answers(T4, refuses=("--reset-gpu",))
    assert "could not be put back" in said[-1]
    (note,) = (host.root / "run/lock").iterdir()
    note.write_text(note.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))  # this process has ended
    assert [lock.uuid for lock in forgotten_locks(host)] == [T4["uuid"]]
    reset_clocks(host, said.append)
    assert note.exists()
    smi.answers(T4)
    reset_clocks(host, said.append)
    assert not note.exists()


def test_a_lock_that_another_process_holds_is_not_taken_from_it(host: Host, smi: FakeNvidiaSmi) -> None:
    chosen = _choice(host)
    with locked_clocks(host, [chosen], print):
        asked = smi.asked()
        with pytest.raises(ClockError, match="is locked by process"), locked_clocks(host, [chosen], print):
            pytest.fail("it would end with the other's clocks free")
        assert smi.asked() == asked


def test_who_may_not_lock_leaves_the_note_of_a_killed_one(host: Host, smi: FakeNvidiaSmi, tmp_path: Path) -> None:
    note = host.root / "run/lock" / f"warpwatch-clocks-{T4['uuid']}.json"
    note.write_text(json.dumps({"uuid": T4["uuid"], "sm_mhz": 960, "pid": 999999999, "started": "1"}))
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    nobody = replace(host, is_root=False)
    with pytest.raises(ClockError, match="wants root"):
        run_locked(nobody, 1350, ("true",))
    assert [lock.path for lock in forgotten_locks(host)] == [note]


def test_clocks_that_a_service_has_locked_are_locked_again_afterwards(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "systemctl").write_text('#!/bin/sh\necho "systemctl $*" >> "$(dirname "$0")/asked.txt"\n')
    (smi.folder / "systemctl").chmod(0o755)
    with locked_clocks(host, [_choice(host)], print):
        pass
    assert smi.asked()[-4:] == [
        *RESETS,
        "systemctl is-active --quiet warpwatch-clocks.service",
        "systemctl reload warpwatch-clocks.service",
    ]


def test_the_command_runs_another_under_the_lock(smi: FakeNvidiaSmi, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("locking wants root")
    environ = {**os.environ, "PATH": f"{smi.folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    words = [sys.executable, "-m", "warpwatch.ci.cli", "runner", "locked", "--sm-clock", "1350"]
    inner = [sys.executable, "-c", f"import shutil; shutil.copy({str(smi.folder / 'asked.txt')!r}, 'during'); exit(7)"]
    before = time.monotonic()
    done = subprocess.run([*words, *inner], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 7, (done.stderr, time.monotonic() - before)
    assert "SM clock 1350 MHz, as --sm-clock says" in done.stderr
    assert "--lock-gpu-clocks=1350,1350" in (tmp_path / "during").read_text()
    assert "--reset" not in (tmp_path / "during").read_text()
    assert smi.asked()[-2:] == RESETS
