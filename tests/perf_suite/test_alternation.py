"""A workload's implementations in turn, and what becomes of their visits."""

import statistics
from dataclasses import replace
from itertools import groupby

import pytest

from perf_suite.catalogue import catalogue_jobs
from warpbench.protocol import Outcome, blank_record, jobs_from_json, jobs_to_json
from warpbench.records import Status, from_line, to_line
from warpbench.visits import alternated, combined

JOBS = [job for job in catalogue_jobs(("flash_attention", "rope")) if job.workload.device == "cuda"]


def test_each_workload_is_gone_through_there_and_back_again():
    for workload, group in groupby(alternated(JOBS), key=lambda job: job.workload.name):
        order = list(group)
        names = [job.implementation for job in order]
        expected = [job.implementation for job in JOBS if job.workload.name == workload]
        assert names == [*expected, *reversed(expected)]
        assert [job.visit for job in order] == [0] * len(expected) + [1] * len(expected)
        assert {job.visits for job in order} == {2}


def test_under_a_steady_drift_all_implementations_are_measured_at_the_same_time_on_average():
    order = alternated([job for job in JOBS if job.workload == JOBS[0].workload])
    times = {
        name: [at for at, job in enumerate(order) if job.implementation == name]
        for name in JOBS[0].workload.implementations
    }
    assert {statistics.fmean(at) for at in times.values()} == {(len(order) - 1) / 2}


def test_one_implementation_alone_and_quick_ones_are_visited_once():
    alone = [job for job in JOBS if job.implementation == "warpwatch"]
    assert alternated(alone) == alone
    quick = [replace(job, quick=True) for job in JOBS]
    assert alternated(quick) == quick


def test_the_worker_receives_all_visits_in_order():
    order = alternated(JOBS)
    assert jobs_from_json(jobs_to_json(order)) == order


def visit(at_s, samples, **record):
    blank = replace(blank_record("run", JOBS[0]), status=Status.OK, at_s=at_s, latency_s=statistics.median(samples))
    return Outcome(measurement=replace(blank, **record), samples_s=tuple(samples), calls_per_sample=8)


def test_a_recorded_sample_is_the_mean_of_both_visits():
    first = visit(
        1.0, [10e-6, 12e-6, 14e-6], sample_count=24, sm_clock_hz=(1.8e9,) * 3, sm_cycles=2e4, relative_error=1e-4
    )
    second = visit(
        5.0,
        [20e-6, 22e-6, 24e-6],
        sample_count=24,
        sm_clock_hz=(1.6e9,) * 3,
        sm_cycles=4e4,
        relative_error=3e-4,
        warm_latency_s=9e-6,
    )
    one = combined([first, replace(second, warm_samples_s=(9e-6,))])
    assert one.samples_s == pytest.approx((15e-6, 17e-6, 19e-6))
    assert one.calls_per_sample == 16
    record = one.measurement
    assert (record.sample_count, record.latency_s, record.sm_cycles) == (48, pytest.approx(17e-6), 3e4)
    assert record.sm_clock_hz == (1.7e9,) * 3
    assert (record.at_s, record.relative_error, record.warm_latency_s) == (1.0, 3e-4, 9e-6)
    assert [(each.at_s, each.latency_s) for each in record.visits] == [(1.0, 12e-6), (5.0, 22e-6)]
    assert one.warm_samples_s == (9e-6,)
    assert from_line(to_line(record)) == record


def test_the_worse_of_two_inaccuracies_stands():
    exact, bad, worse = (
        visit(1.0, [1e-6], inaccuracy=times, reason=times and f"{times}x") for times in (None, 1.5, 2.5)
    )
    assert combined([worse, exact]).measurement.inaccuracy == 2.5
    assert (combined([bad, worse]).measurement.inaccuracy, combined([bad, worse]).measurement.reason) == (2.5, "2.5x")
    assert (combined([exact, exact]).measurement.inaccuracy, combined([exact, exact]).measurement.reason) == (
        None,
        None,
    )


def test_one_visit_is_what_it_is():
    alone = visit(1.0, [1e-6, 2e-6])
    assert combined([alone]) is alone
