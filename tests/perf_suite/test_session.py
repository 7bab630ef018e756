"""A session over commits whose kernels misbehave, with real worker processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from perf_suite.catalogue import catalogue_jobs, workloads_of
from warpbench import session
from warpbench.records import Failure, Status, WorkloadRecord, from_line
from warpbench.spool import FOLDER_VARIABLE
from warpbench.watched_worker import Limits, WorkerStartError

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("the CPU rows are measured only where there is no GPU", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]

LIMITS = Limits(start_s=300, job_s=30)  # what is sound needs a second, on a busy machine ten
ABORTS_AND_HANGS = """
import os, time
def rope(x, cos, sin, *, interleaved=False):
    print("about to misbehave", flush=True)
    if interleaved:
        time.sleep(1000)
    os.abort()
"""
BREAKS_THE_MACHINE = """
import os, pathlib
def rope(x, cos, sin, *, interleaved=False):
    pathlib.Path(__file__).parents[2].joinpath("torch.py").write_text("raise ImportError('the GPU is gone')")
    os.abort()
"""
RAISES_AND_LIES = """
from warpbench.lazy import torch
def int4_linear(x, packed, scales, *, group_size=128):
    if x.shape[0] == 1:
        raise RuntimeError("int4_linear: expected another shape")
    return torch.zeros(x.shape[0], packed.shape[0], dtype=x.dtype)
"""


def measured(operator):
    results = session.measure(catalogue_jobs((operator,), quick=True), limits=LIMITS)
    return {(o.measurement.workload, o.measurement.implementation): o for o in results.outcomes}


def test_a_crash_and_a_hang_cost_their_own_combination_only(install, tmp_path, monkeypatch):
    install(ABORTS_AND_HANGS)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "spool"))
    outcomes = measured("rope")

    crashed = outcomes["cpu-fp32-b1-h8-s256-d128", "warpwatch"].measurement
    assert (crashed.status, crashed.failure) == (Status.FAILED, Failure.CRASH)
    assert "signal 6" in crashed.reason
    assert "about to misbehave" in crashed.reason
    hung = outcomes["cpu-fp32-b1-h8-s256-d128-interleaved", "warpwatch"].measurement
    assert (hung.status, hung.failure) == (Status.FAILED, Failure.TIME_LIMIT)
    assert "no answer within 30 s" in hung.reason
    for workload in ("cpu-fp32-b1-h8-s256-d128", "cpu-fp32-b1-h8-s256-d128-interleaved"):
        outcome = outcomes[workload, "eager"]
        assert outcome.measurement.status is Status.OK
        assert outcome.measurement.latency_s > 0
        assert outcome.samples_s

    (written,) = (tmp_path / "spool").iterdir()
    records = [from_line(line) for line in written.read_text().splitlines()]
    rows = {record.workload for record in records if isinstance(record, WorkloadRecord)}
    assert rows == {row.name for row in workloads_of("rope") if row.device == "cpu"}
    assert [r for r in records if r.record == "measurement"] == [o.measurement for o in outcomes.values()]


def test_a_machine_that_breaks_on_the_way_costs_what_was_not_measured_yet(install):
    install(BREAKS_THE_MACHINE)
    first, *rest = (outcome.measurement for outcome in measured("rope").values())
    assert "signal 6" in first.reason
    assert {(m.status, m.failure) for m in rest} == {(Status.FAILED, Failure.CRASH)}
    assert all("the GPU is gone" in m.reason for m in rest)


def test_an_exception_and_a_wrong_result_are_failures_with_their_reason(install):
    install(RAISES_AND_LIES)
    outcomes = measured("int4_linear")
    raised = outcomes["cpu-fp32-k1024-n1024-m1", "warpwatch"].measurement
    assert (raised.status, raised.failure, raised.latency_s) == (Status.FAILED, Failure.ERROR, None)
    assert "int4_linear: expected another shape" in raised.reason
    wrong = outcomes["cpu-fp32-k1024-n1024-m8", "warpwatch"]
    assert (wrong.measurement.status, wrong.measurement.failure) == (Status.FAILED, Failure.WRONG_RESULT)
    assert "relative error 1.00e+00 exceeds 1e-05" in wrong.measurement.reason
    assert wrong.samples_s == ()
    assert outcomes["cpu-fp32-k1024-n1024-m8", "eager"].measurement.status is Status.OK


def test_a_commit_without_the_operator_is_unavailable(install):
    install("")
    outcomes = measured("flash_attention")
    kernels = {key: o.measurement for key, o in outcomes.items() if key[1] == "warpwatch"}
    assert {m.status for m in kernels.values()} == {Status.UNAVAILABLE}
    assert all("no operator flash_attention" in m.reason for m in kernels.values())
    assert outcomes["cpu-fp32-b1-h4-s128-d64-causal", "sdpa"].measurement.backend


def test_kernels_from_outside_the_environment_asv_built_are_not_measured(install, tmp_path, monkeypatch):
    install(RAISES_AND_LIES)
    monkeypatch.setenv("ASV_ENV_DIR", str(tmp_path / "elsewhere"))
    kernel = measured("int4_linear")["cpu-fp32-k1024-n1024-m1", "warpwatch"].measurement
    assert kernel.status is Status.UNAVAILABLE
    assert "not from the environment" in kernel.reason


def test_a_worker_that_cannot_start_says_why(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart is missing')")
    monkeypatch.syspath_prepend(tmp_path)  # of this process alone, as asv does it
    with pytest.raises(WorkerStartError, match="libcudart is missing"):
        measured("rope")


HANGS_AND_IS_LEFT_ALONE = """
import os, pathlib, time
def rope(x, cos, sin, *, interleaved=False):
    pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
    time.sleep(1000)
"""
SESSION = """
import sys
sys.path[:0] = {path!r}
from perf_suite.catalogue import catalogue_jobs
from warpbench import session
session.measure([job for job in catalogue_jobs(("rope",), quick=True) if job.implementation == "warpwatch"])
"""


def test_a_worker_does_not_outlive_a_session_that_is_killed(install, tmp_path):
    install(HANGS_AND_IS_LEFT_ALONE)
    code = SESSION.format(path=[str(tmp_path), str(ROOT)])
    watcher = subprocess.Popen([sys.executable, "-c", code])
    pid_file = tmp_path / "warpwatch" / "kernels" / "pid"
    wait_until(pid_file.exists)
    wait_until(lambda: pid_file.read_text() != "")
    worker = int(pid_file.read_text())
    watcher.kill()
    watcher.wait()
    wait_until(
        lambda: not Path(f"/proc/{worker}").exists() or "State:\tZ" in Path(f"/proc/{worker}/status").read_text()
    )


def wait_until(holds, limit_s=300):
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


CRASHES_BESIDE_A_CHILD = """
import os, time
def rope(x, cos, sin, *, interleaved=False):
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)
    os.abort()
"""


def test_a_crash_is_seen_at_once_although_a_child_of_the_worker_lives_on(install):
    install(CRASHES_BESIDE_A_CHILD)
    jobs = [job for job in catalogue_jobs(("rope",), quick=True) if job.implementation == "warpwatch"]
    outcomes = session.measure(jobs[-1:], limits=Limits(start_s=300, job_s=100)).outcomes
    (crashed,) = [outcome.measurement for outcome in outcomes]
    assert (crashed.status, crashed.failure) == (Status.FAILED, Failure.CRASH), crashed.reason
    assert "signal 6" in crashed.reason
