"""The CPU stopwatch's samples. How long anything takes is not asserted."""

import itertools
import json
import statistics
from pathlib import Path

import pytest
import torch

from warpbench.samples import RECORDED_SAMPLES, thinned
from warpbench.timing import cpu
from warpbench.timing.timing import TimedCall

RECORDED = Path(__file__).resolve().parents[2] / "perf_suite" / "results"


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


def test_calls_that_take_twice_as_long_leave_the_recorded_medians_alone():
    """Why a sample is the plain mean of its calls: one call of sixteen at twice the latency lifts it by 6 %."""
    moved, outliers, count = [], 0, 0
    for path in RECORDED.glob("*/*-*.json"):
        results = json.loads(path.read_text())
        column = results["result_columns"].index("samples")
        for name, row in results["results"].items():
            of_benchmark = row[column] if name.endswith("track_latency") and len(row) > column else None
            for samples in of_benchmark or ():
                if samples and len(samples) >= 10:
                    median = statistics.median(samples)
                    kept = [sample for sample in samples if sample <= 1.06 * median]
                    moved.append(abs(statistics.median(kept) / median - 1))
                    outliers, count = outliers + len(samples) - len(kept), count + len(samples)
    assert count > 100_000
    assert outliers < 0.004 * count
    assert sorted(moved)[int(0.99 * len(moved))] < 0.002


@pytest.mark.parametrize("count", [1, 49, 50, 51, 400, 999])
def test_thinning_keeps_every_nth_sample_and_never_too_many(count):
    values = tuple(map(float, range(count)))
    kept = thinned(values)
    assert len(kept) <= RECORDED_SAMPLES
    assert kept[0] == values[0]
    assert kept[-1] >= values[-1] - (kept[1] - kept[0] if len(kept) > 1 else 0)
    assert len({b - a for a, b in itertools.pairwise(kept)}) <= 1
