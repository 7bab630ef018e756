"""The one-off benchmark as it is used, with a real worker on the CPU."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from perf_suite.catalogue import BENCHMARKS
from warpbench.one_off.ad_hoc import BadRequestError
from warpbench.one_off.one_off import OneOff
from warpbench.records import Status

from .warpbench_command import run_warpbench

pytestmark = pytest.mark.outside

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("test_bench_on_the_gpu.py does the same on the GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SHAPE = {"batch": 2, "heads": 4, "seq_len": 96, "head_dim": 64}
OPTIONS = ["rope", "--batch", "2", "--heads", "4", "--seq-len", "96", "--head-dim", "64", "--quick"]


def test_five_lines_of_python_measure_a_shape_that_the_catalogue_lacks(tmp_path):
    received = []
    benchmark = OneOff(BENCHMARKS["rope"], quick=True, **SHAPE)
    (result,) = benchmark.run(on_outcome=received.append)
    assert result.workload.name == "cpu-fp32-b2-h4-s96-d64"
    assert tuple(received) == result.outcomes
    by_name = {measurement.implementation: (measurement, figures) for measurement, figures in result}
    measurement, figures = by_name["eager"]
    assert measurement.status is Status.OK
    assert measurement.latency_s > 0
    assert figures.speedup == 1.0
    assert "eager" in result.table()
    (written,) = json.loads(result.export(tmp_path / "out.json").read_text())["results"]
    assert written["workload"]["parameters"]["seq"] == 96


def test_one_implementation_can_be_selected():
    (result,) = OneOff(BENCHMARKS["rope"], quick=True, implementations=["eager"], **SHAPE).run()
    assert [outcome.measurement.implementation for outcome in result.outcomes] == ["eager"]


def test_what_this_machine_lacks_is_reported_after_discovery():
    with pytest.raises(BadRequestError, match="torch sees no GPU here"):
        OneOff(BENCHMARKS["rope"], device="cuda", quick=True, **SHAPE).run()
    with pytest.raises(BadRequestError, match="none of these implementations on cpu; it has warpwatch, eager"):
        OneOff(BENCHMARKS["rope"], implementations=["triton"], quick=True, **SHAPE).run()


def test_a_shape_for_a_gpu_is_not_begun_on_a_cpu():
    with pytest.raises(BadRequestError, match=r"is 550 GFLOP, too much for one CPU thread within 240 s"):
        OneOff(BENCHMARKS["flash_attention"], batch=32, seq_len=1024).run()


def bench(*arguments):
    return run_warpbench("run", *arguments, folder=ROOT)


def test_the_command_prints_a_plain_table_into_a_pipe_and_exports(tmp_path):
    ended = bench(*OPTIONS, "--export", f"{tmp_path}/out.json", "--export", f"{tmp_path}/out.csv")
    assert ended.returncode == 0, ended.stderr
    assert "rope cpu-fp32-b2-h4-s96-d64" in ended.stdout
    assert "vs eager" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == 2
    assert (tmp_path / "out.csv").read_text().count("\n") == 3


def test_a_kernel_that_takes_too_long_is_named_and_makes_the_exit_status_1(install):
    install("import time\ndef rope(*a, **k): time.sleep(1000)\n")
    ended = bench(*OPTIONS, "--limit", "10")
    assert ended.returncode == 1
    assert "warpwatch: failed: no answer within 10 s" in ended.stdout
    assert "eager" in ended.stdout


def test_progress_is_shown_on_a_terminal():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "warpbench", "run", *OPTIONS]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux's way to say that the other end is closed
                break
            if not piece:
                break
            shown += piece
        table = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    assert "━".encode() in shown
    assert b"2/2" in shown
    assert "\x1b" not in table
