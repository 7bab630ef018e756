"""Steady latency: a graph over copies of the inputs, watched by the same gate; what is recorded where there is none."""

import functools
from types import SimpleNamespace

import pytest
import torch

from perf_suite.catalogue import catalogue_jobs, workload_named
from warpbench import gate, measurement, session
from warpbench.context import Conditions
from warpbench.launches import NotCapturableError
from warpbench.measurement import Bench, measure
from warpbench.protocol import Job, blank_record, outcome_from_line, outcome_to_line
from warpbench.records import Status
from warpbench.setting import set_up
from warpbench.timing import Stopwatch, replays

ROPE = workload_named("rope", "cpu-fp32-b1-h8-s256-d128")
COPIES = 4
ON_GPU = torch.cuda.is_available()


class Inputs:
    """One tensor, whose right answer is twice the tensor."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def activations(self):
        return (self.x,)

    def expected(self):
        return 2 * self.x.double()


@pytest.fixture
def copies():
    """Copies of the inputs, and a gate for each."""
    generator = torch.Generator().manual_seed(1)
    inputs = Inputs(torch.randn(8, 64, generator=generator))
    first = gate.test_vector_of(inputs)
    inputs.x.normal_(generator=generator)
    vectors = (first, gate.test_vector_of(inputs))
    every = [inputs, *(Inputs(inputs.x.clone()) for _ in range(COPIES - 1))]
    return every, [gate.Gate(lambda: None, one, vectors, 1e-6) for one in every]


def test_a_rotation_of_right_calls_passes(copies):
    inputs, gates = copies
    gate.check_rotated_replay(gates, lambda: [2 * one.x for one in inputs])


@pytest.mark.parametrize("wrong", range(COPIES))
def test_one_copy_that_is_wrong_is_found(copies, wrong):
    inputs, gates = copies

    def replay():
        return [(3 if index == wrong else 2) * one.x for index, one in enumerate(inputs)]

    with pytest.raises(gate.WrongResultError, match="replayed with its copies from a CUDA graph relative error"):
        gate.check_rotated_replay(gates, replay)


def test_the_answer_of_the_copy_before_is_found(copies):
    inputs, gates = copies
    with pytest.raises(gate.WrongResultError, match="relative error"):
        gate.check_rotated_replay(gates, lambda: [2 * inputs[index - 1].x for index in range(COPIES)])


def test_one_copys_answer_for_all_is_found(copies):
    inputs, gates = copies
    with pytest.raises(gate.WrongResultError, match="relative error"):
        gate.check_rotated_replay(gates, lambda: [2 * inputs[0].x for _ in inputs])


def test_outputs_that_a_replay_leaves_as_they_were_are_found(copies):
    inputs, gates = copies
    kept = [2 * one.x for one in inputs]
    with pytest.raises(gate.WrongResultError, match=r"relative error|not finite"):
        gate.check_rotated_replay(gates, lambda: kept)


def test_a_replay_that_writes_over_an_input_is_found(copies):
    inputs, gates = copies
    with pytest.raises(gate.WrongResultError, match="wrote over its inputs"):
        gate.check_rotated_replay(gates, lambda: [2 * one.x.add_(1) - 2 for one in inputs])


@pytest.mark.parametrize("latency_s", [1e-6, 5e-6, 40e-6, 1e-3, 20e-3])
@pytest.mark.parametrize("copies", [1, 2, 8])
def test_a_replay_is_whole_rounds_of_a_millisecond_or_one_round(latency_s, copies):
    calls = copies * replays.rounds(latency_s, copies)
    assert calls % copies == 0
    assert calls <= replays._MOST_CALLS
    assert calls == copies or calls * latency_s <= 2e-3
    count = replays.samples(calls * latency_s, quick=False)
    assert replays._FEWEST <= count <= replays._SAMPLES
    assert count == replays._FEWEST or count * calls * latency_s <= 0.11
    assert replays.samples(calls * latency_s, quick=True) < replays._FEWEST


def job_of(metrics=("steady_latency",), **more):
    return Job(benchmark="benchmarks.rope.Rope", workload=ROPE, implementation="eager", metrics=metrics, **more)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [((), None), (("steady_latency",), "not available: a CPU has no CUDA graphs")],
)
def test_on_a_cpu_requested_steady_latency_is_reported_as_unavailable(metrics, reason):
    bench = Bench(stopwatch=Stopwatch(device="cpu", quick=True), monitor=None, stream=None, begun=0.0)
    job = job_of(metrics, quick=True)
    outcome = measure(bench, set_up(ROPE), job, blank_record("run", job))
    assert outcome.measurement.status is Status.OK
    assert (outcome.measurement.steady_latency_s, outcome.steady_samples_s) == (None, ())
    assert (outcome.measurement.steady_reason or "").startswith(reason or "")
    assert (outcome.measurement.steady_reason is None) == (reason is None)


class Monitor:
    """A GPU's monitor that reads these conditions in turn."""

    sees_processes = False

    def __init__(self, *conditions) -> None:
        self._conditions = list(conditions)

    def conditions(self):
        return self._conditions.pop(0)


def steady_of(monkeypatch, *conditions, visit=0, visits=1, fails=None):
    def sampled(calls, latency_s, *, quick, check):
        if fails:
            raise fails
        return (1e-6, 2e-6)

    monkeypatch.setattr(measurement, "sample_steady_latency", sampled)
    job = job_of(visit=visit, visits=visits)
    return measurement._steady(
        SimpleNamespace(monitor=Monitor(*conditions)), SimpleNamespace(workload=job.workload), job, [], [], 1e-6
    )


CALM, HOT = Conditions(clock_event_reasons=0), Conditions(clock_event_reasons=0x40)


def test_what_cannot_be_captured_is_recorded_as_not_captured(monkeypatch):
    found = steady_of(monkeypatch, CALM, CALM, fails=NotCapturableError("a CUDA graph cannot capture it: it waits"))
    assert found.reason == "not captured: a CUDA graph cannot capture it: it waits"
    assert found.samples_s == ()


def test_a_throttled_steady_latency_is_no_number(monkeypatch):
    assert steady_of(monkeypatch, CALM, CALM).samples_s == (1e-6, 2e-6)
    throttled = steady_of(monkeypatch, CALM, HOT)
    assert throttled.samples_s == ()
    assert throttled.reason == "invalid: the GPU throttled: hardware thermal slowdown"


def test_it_is_measured_on_the_last_visit_alone(monkeypatch):
    assert steady_of(monkeypatch, CALM, CALM, visit=0, visits=2) == measurement._Steady()
    assert steady_of(monkeypatch, CALM, CALM, visit=1, visits=2).samples_s


def test_its_samples_travel_from_the_worker():
    job = job_of()
    record = blank_record("run", job)
    outcome = measurement.Outcome(measurement=record, steady_samples_s=(1e-6, 2e-6))
    assert outcome_from_line(outcome_to_line(outcome)) == outcome


@pytest.fixture(scope="module")
def measured():
    """rope on this GPU, all metrics."""
    return session.measure(catalogue_jobs(("rope",), quick=True)).outcomes


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
def test_every_right_implementation_has_a_steady_latency_on_a_gpu(measured):
    ok = [outcome for outcome in measured if outcome.measurement.status is Status.OK]
    assert ok
    for outcome in ok:
        record = outcome.measurement
        assert record.steady_latency_s is not None, record.steady_reason
        assert record.steady_latency_s > 0
        assert record.steady_copies >= 1
        assert len(outcome.steady_samples_s) == replays._QUICK_SAMPLES


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
def test_a_graph_over_copies_replays_each_with_its_own_inputs():
    workload = workload_named("vector_add", "cuda-fp32-n1048576")
    setting = set_up(workload)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        runs = [functools.partial(torch.add, *one.activations()) for one in setting.copies]
        gates = [
            gate.Gate(run, one, setting.vectors, workload.tolerance)
            for run, one in zip(runs, setting.copies, strict=True)
        ]
        calls = [replays.TimedCall(run=run, after=lambda out: None) for run in runs]
        check = functools.partial(gate.check_rotated_replay, gates)
        samples = replays.sample_steady_latency(calls, 10e-6, quick=False, check=check)
        assert len(samples) == replays._SAMPLES
        assert all(1e-7 < sample < 1e-3 for sample in samples)
        waits = [replays.TimedCall(run=lambda: torch.ones(1, device="cuda") * runs[0]().max().item(), after=print)]
        with pytest.raises(NotCapturableError):
            replays.sample_steady_latency(waits, 10e-6, quick=True, check=lambda replay: None)
    torch.cuda.synchronize()
