"""In which order outcomes become final: visits, energy and further tries."""

from dataclasses import replace

import pytest

from perf_suite.catalogue import catalogue_jobs
from warpbench.protocol import Outcome, Stage, blank_record
from warpbench.records import Energy, Failure, Status
from warpbench.session import _Ledger, _measures_energy

ALL = [job for job in catalogue_jobs(("flash_attention",)) if job.workload.device == "cuda"]
FIRST = next(job for job in ALL if _measures_energy(job))
SECOND = next(job for job in ALL if job.workload == FIRST.workload and not _measures_energy(job))
PLAIN = next(job for job in ALL if not _measures_energy(job))
JOULES = Energy(per_call_j=(0.1,), window_s=1.0, power_w=300.0, method="NVML")


@pytest.fixture
def ledger():
    done = []
    return _Ledger(ALL, {}, done.append), done


def outcome(job, status=Status.OK, **record):
    number = 1e-6 if status is Status.OK else None
    measured = replace(blank_record("run", job), status=status, latency_s=number, **record)
    return Outcome(measurement=measured, samples_s=(1e-6,) * 5 if number else ())


def statuses(done):
    return [(each.measurement.implementation, each.measurement.status, each.measurement.tries) for each in done]


def test_a_combination_is_final_with_its_last_visit(ledger):
    book, done = ledger
    one = replace(PLAIN, visit=0, visits=2)
    book.enter(one, outcome(PLAIN))
    assert done == []
    book.enter(replace(one, visit=1), outcome(PLAIN))
    assert statuses(done) == [(PLAIN.implementation, Status.OK, 1)]
    assert len(done[0].measurement.visits) == 2


@pytest.mark.parametrize("failing", [0, 1])
def test_a_visit_without_a_number_is_final_for_the_combination(ledger, failing):
    book, done = ledger
    for visit in range(2):
        status = Status.FAILED if visit == failing else Status.OK
        book.enter(replace(PLAIN, visit=visit, visits=2), outcome(PLAIN, status, failure=Failure.ERROR))
    book.close()
    assert statuses(done) == [(PLAIN.implementation, Status.FAILED, 1)]


def test_energy_is_waited_for_and_joins_the_retried_latency(ledger):
    book, done = ledger
    book.enter(FIRST, outcome(FIRST, Status.INVALID, reason="the clock moved"))
    book.enter(SECOND, outcome(SECOND))
    book.enter(replace(FIRST, stage=Stage.ENERGY), outcome(FIRST, energy=JOULES))
    assert FIRST.implementation not in [name for name, *_ in statuses(done)]
    assert book.invalid(3) == [FIRST]
    book.begin_again([FIRST])
    book.enter(FIRST, outcome(FIRST))
    assert statuses(done)[-1] == (FIRST.implementation, Status.OK, 2)
    assert done[-1].measurement.energy == JOULES
    book.close()
    assert len({name for name, *_ in statuses(done)}) == len(done)


def test_three_tries_are_the_most(ledger):
    book, done = ledger
    for tries in (1, 2, 3):
        assert done == []
        book.enter(PLAIN, outcome(PLAIN, Status.INVALID, reason="the clock moved"))
        again = book.invalid(3)
        assert again == ([PLAIN] if tries < 3 else [])
        book.begin_again(again)
    book.close()
    assert statuses(done) == [(PLAIN.implementation, Status.INVALID, 3)]
