"""Invalid measurements are tried again at the session's end, with real workers whose kernel says when it is invalid."""

import pytest

from perf_suite.catalogue import catalogue_jobs
from warpbench import session
from warpbench.records import MeasurementRecord, Status, from_line
from warpbench.spool import FOLDER_VARIABLE
from warpbench.watched_worker import Limits, WatchedWorker, WorkerStartError

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("the CPU rows are measured only where there is no GPU", allow_module_level=True)

LIMITS = Limits(start_s=300, job_s=60)
SHAPE = "cpu-fp32-b1-h8-s256-d128"
# A line for each process in which it was called; TimingError is what a stopwatch raises of unfair conditions.
INVALID_AT_FIRST = """
import os, pathlib
from warpbench.lazy import torch
from warpbench.timing.timing import TimingError
processes = pathlib.Path(__file__).with_name("processes")
def rope(x, cos, sin, *, interleaved=False):
    seen = processes.read_text().split() if processes.exists() else []
    if str(os.getpid()) not in seen:
        seen.append(str(os.getpid()))
        processes.write_text(" ".join(seen))
    if len(seen) <= {invalid}:
        raise TimingError("the clock moved")
    if {wrong}:
        return torch.zeros_like(x)
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
"""


@pytest.fixture
def measured(install, monkeypatch, tmp_path):
    """rope's outcomes on this CPU by implementation, its kernel invalid in so many processes; and the rests taken."""

    def measured(invalid, *, wrong=False, quick=True):
        install(INVALID_AT_FIRST.format(invalid=invalid, wrong=wrong))
        rests = []
        monkeypatch.setattr(session, "_REST_S", 0.01)
        monkeypatch.setattr(session.time, "sleep", rests.append)
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "spool"))
        jobs = [
            job
            for job in catalogue_jobs(("rope",), quick=quick)
            if job.workload.name == SHAPE and job.implementation in ("warpwatch", "eager")
        ]
        outcomes = session.measure(jobs, limits=LIMITS).outcomes
        (written,) = (tmp_path / "spool").iterdir()
        records = [from_line(line) for line in written.read_text().splitlines()]
        kept = [r for r in records if isinstance(r, MeasurementRecord)]
        assert kept == [outcome.measurement for outcome in outcomes]
        return {outcome.measurement.implementation: outcome for outcome in outcomes}, rests.count(0.01)

    return measured


@pytest.mark.parametrize("invalid", [0, 2])
def test_a_valid_measurement_is_reached_within_three_tries(measured, invalid):
    outcomes, rests = measured(invalid)
    ours = outcomes["warpwatch"].measurement
    assert (ours.status, ours.tries, rests) == (Status.OK, invalid + 1, invalid), ours.reason
    assert ours.latency_s > 0
    assert outcomes["warpwatch"].samples_s
    assert (outcomes["eager"].measurement.status, outcomes["eager"].measurement.tries) == (Status.OK, 1)


def test_what_is_invalid_three_times_is_recorded_as_invalid_once(measured):
    outcomes, rests = measured(99)
    ours = outcomes["warpwatch"].measurement
    assert (ours.status, ours.reason, ours.tries, rests) == (Status.INVALID, "the clock moved", 3, 2)
    assert outcomes["warpwatch"].samples_s == ()


def test_the_last_status_stands_whatever_it_is(measured):
    outcomes, rests = measured(1, wrong=True)
    ours = outcomes["warpwatch"].measurement
    assert (ours.status, ours.tries, rests) == (Status.FAILED, 2, 1)


def test_a_full_session_measures_kernel_and_baseline_in_turn_and_visits_the_canaries_again_before_a_retry(measured):
    outcomes, _ = measured(1, quick=False)
    eager, ours = outcomes["eager"].measurement, outcomes["warpwatch"].measurement
    assert (eager.status, eager.tries, len(eager.visits)) == (Status.OK, 1, 2)
    assert (ours.status, ours.tries) == (Status.OK, 2)
    assert ours.visits == (), "alone at the end: one visit with all samples"
    assert outcomes["canary"].measurement.status is Status.OK
    assert len(outcomes["canary"].measurement.visits) == 4
    assert outcomes["canary"].measurement.visits[2].at_s > eager.visits[1].at_s


def test_a_worker_that_cannot_start_again_leaves_the_invalid_status_as_it_is(measured, monkeypatch):
    def restart(self):
        raise WorkerStartError("the GPU is gone")

    monkeypatch.setattr(WatchedWorker, "restart", restart)
    outcomes, _ = measured(1)
    ours = outcomes["warpwatch"].measurement
    assert (ours.status, ours.reason, ours.tries) == (Status.INVALID, "the clock moved", 1)
    assert outcomes["eager"].measurement.status is Status.OK
