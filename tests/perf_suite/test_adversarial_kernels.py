"""Commits whose kernel cheats, measured as any commit is: each is found out, on the CPU here and on a GPU there."""

import re

import pytest

from perf_suite.catalogue import catalogue_jobs
from warpbench import session
from warpbench.records import Status
from warpbench.watched_worker import Limits

torch = pytest.importorskip("torch")
ON_GPU = torch.cuda.is_available()
LIMITS = Limits(start_s=180, job_s=120)
SHAPE = "cuda-fp16-b1-h32-s2048-d128" if ON_GPU else "cpu-fp32-b1-h8-s256-d128"
OTHER_SHAPE = "cuda-fp16-b1-h32-s2048-d128-interleaved" if ON_GPU else "cpu-fp32-b1-h8-s256-d128-interleaved"

HONEST = """
from warpbench.lazy import torch
def honest(x, cos, sin, interleaved=False):
    x32 = x.float()
    first, second = (x32[..., 0::2], x32[..., 1::2]) if interleaved else x32.chunk(2, dim=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    out = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return out.to(x.dtype)
"""
INPUT_BUFFER = """
def rope(x, cos, sin, *, interleaved=False):
    return x
"""
ZEROS = """
def rope(x, cos, sin, *, interleaved=False):
    return torch.zeros_like(x)
"""
STALE = """
kept = {}
def rope(x, cos, sin, *, interleaved=False):
    key = (x.data_ptr(), tuple(x.shape), interleaved)
    if key not in kept:
        kept[key] = honest(x, cos, sin, interleaved)
    return kept[key].clone()
"""
STALE_ONCE_TRUSTED = """
calls = 0
last = None
def rope(x, cos, sin, *, interleaved=False):
    global calls, last
    calls += 1
    if calls <= 8 or last.shape != x.shape:
        last = honest(x, cos, sin, interleaved)
    return last.clone()
"""
ONE_NAN = """
def rope(x, cos, sin, *, interleaved=False):
    out = honest(x, cos, sin, interleaved)
    out[-1, -1, -1, -1] = float("nan")
    return out
"""
OTHER_STREAM = """
side = torch.cuda.Stream()
def rope(x, cos, sin, *, interleaved=False):
    out = torch.empty_like(x)
    side.wait_stream(torch.cuda.current_stream()) if not torch.cuda.is_current_stream_capturing() else None
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        out.copy_(honest(x, cos, sin, interleaved))
    return out
"""
FAST_OTHER_STREAM = OTHER_STREAM.replace("        torch.cuda._sleep(20_000_000)\n", "")
LEGACY_STREAM_SENSE = """
def rope(x, cos, sin, *, interleaved=False):
    if torch.cuda.current_stream() == torch.cuda.default_stream():
        return honest(x, cos, sin, interleaved)
    return torch.empty_like(x)
"""
ONE_SHAPE_ONLY = """
def rope(x, cos, sin, *, interleaved=False):
    return honest(x, cos, sin)
"""


@pytest.fixture
def measured(install):
    """The kernel's measurements by workload, of a commit with this source."""

    def measured(source):
        install(f"{HONEST}\n{source}")
        jobs = [
            job
            for job in catalogue_jobs(("rope",), quick=True)
            if job.workload.name in (SHAPE, OTHER_SHAPE) and job.implementation == "warpwatch"
        ]
        outcomes = session.measure(jobs, limits=LIMITS).outcomes
        return {outcome.measurement.workload: outcome for outcome in outcomes}

    return measured


def test_an_honest_kernel_is_given_its_number(measured):
    outcomes = measured("rope = honest")
    for outcome in outcomes.values():
        assert outcome.measurement.status is Status.OK, outcome.measurement.reason
        assert outcome.samples_s
    assert set(outcomes) == {SHAPE, OTHER_SHAPE}


everywhere = [
    pytest.param(INPUT_BUFFER, "returned one of its inputs", id="its input buffer"),
    pytest.param(ZEROS, r"relative error 1\.00e\+00", id="zeros"),
    pytest.param(STALE, "relative error", id="the output of the call before"),
    pytest.param(STALE_ONCE_TRUSTED, "relative error", id="stale output once it has been checked"),
    pytest.param(ONE_NAN, "1 of .* elements are not finite", id="NaN in one element"),
]
on_a_gpu = [
    pytest.param(OTHER_STREAM, "finite|relative error", id="work left on another stream"),
    # A race: where the copy is done before anyone looks, capture in a graph is what finds it out.
    pytest.param(FAST_OTHER_STREAM, "finite|relative error|graph cannot", id="quick work left on another stream"),
    pytest.param(LEGACY_STREAM_SENSE, "finite|relative error", id="work on the default stream only"),
]


@pytest.mark.parametrize(("source", "reason"), everywhere)
def test_a_kernel_that_cheats_is_given_no_number(measured, source, reason):
    for outcome in measured(source).values():
        no_number(outcome, reason)


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("source", "reason"), on_a_gpu)
def test_work_that_the_stopwatch_would_not_see_is_found_out(measured, source, reason):
    for outcome in measured(source).values():
        no_number(outcome, reason)


def test_a_kernel_right_at_one_shape_and_wrong_at_the_next_keeps_the_first_number_only(measured):
    outcomes = measured(ONE_SHAPE_ONLY)
    assert outcomes[SHAPE].measurement.status is Status.OK, outcomes[SHAPE].measurement.reason
    no_number(outcomes[OTHER_SHAPE], "relative error")


def no_number(outcome, reason):
    measurement = outcome.measurement
    assert measurement.status is Status.FAILED, measurement
    assert (measurement.latency_s, outcome.samples_s, outcome.warm_samples_s) == (None, (), ())
    assert re.search(reason, measurement.reason), measurement.reason
