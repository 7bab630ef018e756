"""The CPU stopwatch's samples. How long anything takes is not asserted."""

import itertools

import pytest
import torch

from perf_suite.samples import RECORDED_SAMPLES, thinned
from perf_suite.timing import cpu
from perf_suite.timing.timing import TimedCall


def test_the_cpu_stopwatch_takes_many_samples_of_many_calls():
    calls = 0

    def run():
        nonlocal calls
        calls += 1
        return torch.ones(1)

    seen = []
    timing = cpu.sample_latency(TimedCall(run=run, after=seen.append), quick=False)
    assert len(timing.samples_s) >= 5
    assert timing.calls_per_sample > 10  # calls of microseconds are grouped
    assert calls >= timing.calls_per_sample * len(timing.samples_s)
    assert len(seen) >= len(timing.samples_s)  # each sample's last output is handed to the gate
    assert all(sample > 0 for sample in timing.samples_s)
    assert (timing.cache, timing.timer, timing.sm_clock_hz) == ("warm", "torch.utils.benchmark, CPU time", None)


def test_the_call_is_given_the_threads_that_are_recorded():
    threads = set()

    def run():
        threads.add(torch.get_num_threads())
        return torch.ones(1)

    cpu.sample_latency(TimedCall(run=run, after=lambda out: None), quick=True)
    assert threads == {cpu.THREADS}


@pytest.mark.parametrize("count", [1, 49, 50, 51, 400, 999])
def test_thinning_keeps_every_nth_sample_and_never_too_many(count):
    values = tuple(map(float, range(count)))
    kept = thinned(values)
    assert len(kept) <= RECORDED_SAMPLES
    assert kept[0] == values[0]
    assert kept[-1] >= values[-1] - (kept[1] - kept[0] if len(kept) > 1 else 0)
    assert len({b - a for a, b in itertools.pairwise(kept)}) <= 1
