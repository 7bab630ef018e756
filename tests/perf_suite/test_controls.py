"""Canaries between the workloads of a run."""

import statistics
from dataclasses import replace

from perf_suite.catalogue import catalogue_jobs
from warpbench.protocol import Outcome, blank_record
from warpbench.records import Status
from warpbench.samples import RECORDED_SAMPLES
from warpbench.visits import interleaved, is_control, merged

JOBS = [job for job in catalogue_jobs(("flash_attention", "int4_linear", "rope")) if job.workload.device == "cuda"]
CONTROLS = [job for job in catalogue_jobs(("control",)) if job.workload.device == "cuda"]


def visit(at_s, latency_s, status=Status.OK, samples=40):
    number = latency_s if status is Status.OK else None
    blank = blank_record("run", CONTROLS[0])
    record = replace(blank, status=status, latency_s=number, at_s=at_s, sample_count=samples, reason="why")
    return Outcome(measurement=record, samples_s=(latency_s,) * samples if number else ())


def test_controls_come_first_last_and_in_between_but_never_within_a_workload():
    order = interleaved(JOBS, CONTROLS)
    assert order[: len(CONTROLS)] == order[-len(CONTROLS) :] == CONTROLS
    assert [job for job in order if not is_control(job)] == JOBS
    visits = sum(map(is_control, order)) // len(CONTROLS)
    assert visits >= len(JOBS) // 32
    for before, control, after in zip(order, order[1:], order[2:], strict=False):
        if is_control(control) and not is_control(before) and not is_control(after):
            assert before.workload != after.workload


def test_nothing_to_measure_needs_no_controls_unless_they_are_requested():
    assert interleaved([], CONTROLS) == CONTROLS
    assert interleaved([], []) == []


def test_visits_become_one_series_and_each_keeps_its_level():
    one = merged([visit(1.0, 10e-6), visit(20.0, 12e-6), visit(40.0, 11e-6)])
    assert [(v.at_s, v.latency_s) for v in one.measurement.visits] == [(1.0, 10e-6), (20.0, 12e-6), (40.0, 11e-6)]
    assert len(one.samples_s) <= RECORDED_SAMPLES
    assert {10e-6, 11e-6, 12e-6} == set(one.samples_s)
    assert one.measurement.latency_s == statistics.median(one.samples_s)
    assert one.measurement.sample_count == 120


def test_a_visit_without_a_number_is_left_out_and_without_any_the_reason_stands():
    one = merged([visit(1.0, 10e-6), visit(2.0, 0.0, Status.INVALID)])
    assert one.measurement.status is Status.OK
    assert len(one.measurement.visits) == 1
    none = merged([visit(1.0, 0.0, Status.INVALID), visit(2.0, 0.0, Status.FAILED)])
    assert (none.measurement.status, none.measurement.reason) == (Status.FAILED, "why")
