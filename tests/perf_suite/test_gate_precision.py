"""How precise a result has to be: ours within the tolerance, a baseline's reported as it is, and zero answers."""

import json
from pathlib import Path

import pytest
import torch

from perf_suite.catalogue import workload_named
from warpbench import gate
from warpbench.measurement import Bench, measure
from warpbench.operators import make_inputs
from warpbench.protocol import Job, blank_record
from warpbench.records import Status
from warpbench.setting import set_up
from warpbench.timing import Stopwatch

RECORDED = Path(__file__).resolve().parents[2] / "perf_suite" / "results"
ROPE = workload_named("rope", "cpu-fp32-b1-h8-s256-d128")
TOLERANCE = 2e-3  # fp16's


class Activations:
    """Inputs of one tensor, whose right answer is the tensor itself."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def activations(self):
        return (self.x,)

    def expected(self):
        return self.x.double()


@pytest.fixture
def inputs():
    return Activations(torch.randn(64, 32, 128, generator=torch.Generator().manual_seed(1)))


@pytest.fixture
def vectors(inputs):
    first = gate.test_vector_of(inputs)
    inputs.x.normal_(generator=torch.Generator().manual_seed(2))
    return (first, gate.test_vector_of(inputs))


def imprecise(inputs, *, row=0.0, whole=0.0):
    """The right answer with a relative error of `row` in one row and of `whole` everywhere."""

    def run():
        out = inputs.x * (1 + whole)
        out[3, 5] = inputs.x[3, 5] * (1 + whole + row)
        return out

    return run


def baseline(run, inputs, vectors):
    return gate.Gate(run, inputs, vectors, TOLERANCE, is_baseline=True)


def ours(run, inputs, vectors):
    return gate.Gate(run, inputs, vectors, TOLERANCE)


@pytest.mark.parametrize("allowances", [1.1, 1.4, 5.6, 20.0])
def test_a_baseline_with_an_imprecise_row_is_accepted_and_says_so(inputs, vectors, allowances):
    judge = baseline(imprecise(inputs, row=allowances * 4 * TOLERANCE), inputs, vectors)
    judge.check()
    assert judge.inaccuracy == pytest.approx(allowances, rel=0.1)


@pytest.mark.parametrize("tolerances", [1.5, 30.0])
def test_a_baseline_that_is_imprecise_as_a_whole_is_accepted_and_says_so(inputs, vectors, tolerances):
    judge = baseline(imprecise(inputs, whole=tolerances * TOLERANCE), inputs, vectors)
    judge.begin_timing()
    judge.after_timed_call(imprecise(inputs, whole=tolerances * TOLERANCE)())
    judge.check_timed()
    assert judge.inaccuracy == pytest.approx(tolerances, rel=0.01)


def test_a_precise_baseline_states_no_inaccuracy(inputs, vectors):
    judge = baseline(imprecise(inputs, row=3 * TOLERANCE), inputs, vectors)
    judge.check()
    assert judge.inaccuracy is None


@pytest.mark.parametrize("error", [{"row": 1.1 * 4 * TOLERANCE}, {"row": 0.2}, {"whole": 1.1 * TOLERANCE}])
def test_our_kernel_is_refused_where_a_baseline_is_inaccurate(inputs, vectors, error):
    with pytest.raises(gate.WrongResultError, match="relative error"):
        ours(imprecise(inputs, **error), inputs, vectors).check()


def swapped_rows(x):
    x[7, [3, 4]] = x[7, [4, 3]]


def tile_left_out(x):
    x[-1, -8:, -64:] = 0


def tile_of_another_place(x):
    x[0, :8, :64] = x[1, 8:16, 64:]


def zeros(x):
    x.zero_()


def one_nan(x):
    x[-1, -1, -1] = torch.nan


def one_infinity(x):
    x[0, 0, 0] = torch.inf


PLANTED = [swapped_rows, tile_left_out, tile_of_another_place, zeros, one_nan, one_infinity]


@pytest.mark.parametrize("of", [ours, baseline])
@pytest.mark.parametrize("planted", PLANTED)
def test_a_wrong_result_of_any_implementation_is_refused(inputs, vectors, of, planted):
    def run():
        out = inputs.x.clone()
        planted(out)
        return out

    with pytest.raises(gate.WrongResultError, match=r"relative error|not finite"):
        of(run, inputs, vectors).check()


@pytest.mark.parametrize("of", [ours, baseline])
def test_stale_output_and_overwritten_input_of_any_implementation_are_refused(inputs, vectors, of):
    kept = []

    def stale():
        kept.append(inputs.x.clone())
        return kept[0].clone()

    with pytest.raises(gate.WrongResultError, match="relative error"):
        of(stale, inputs, vectors).check()

    def overwriting():
        out = inputs.x.clone()
        inputs.x[0, 0, 0] += 1
        return out

    with pytest.raises(gate.WrongResultError, match="wrote over its inputs"):
        of(overwriting, inputs, vectors).check()


def test_every_recorded_refusal_of_a_baseline_was_imprecision_within_its_limit():
    refused = []
    for path in RECORDED.rglob("*.context.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["record"] == "measurement" and "of its worst row exceeds" in (record["reason"] or ""):
                assert record["implementation"] == "eager"
                refused.append(float(record["reason"].split()[2]))
    assert len(refused) >= 12
    assert max(refused) < gate._BASELINE_LIMIT / 3


def measured(implementation, monkeypatch, error):
    """rope on this CPU, its implementation replaced by one with this relative error."""
    setting = set_up(ROPE)
    from warpbench import Prepared, measurement

    def prepare(workload, name, inputs):
        return Prepared(run=lambda: inputs.expected().to(inputs.x.dtype) * (1 + error))

    monkeypatch.setattr(measurement, "prepare", prepare)
    job = Job(benchmark="benchmarks.rope.Rope", workload=ROPE, implementation=implementation, quick=True)
    bench = Bench(stopwatch=Stopwatch(device="cpu", quick=True), monitor=None, stream=None, begun=0.0)
    return measure(bench, setting, job, blank_record("run", job)).measurement


def test_an_inaccurate_baseline_is_recorded_with_its_number_and_its_inaccuracy(monkeypatch):
    record = measured("eager", monkeypatch, 50 * ROPE.tolerance)
    assert record.status is Status.OK
    assert record.latency_s > 0
    assert record.inaccuracy == pytest.approx(50, rel=0.01)
    assert record.reason == "inaccurate: its error is 50x the allowed one"
    precise = measured("eager", monkeypatch, 0.0)
    assert (precise.inaccuracy, precise.reason) == (None, None)


@pytest.mark.parametrize("implementation", ROPE.kernels)
def test_a_kernel_of_ours_as_inaccurate_as_that_is_given_no_number(monkeypatch, implementation):
    with pytest.raises(gate.WrongResultError, match="relative error"):
        measured(implementation, monkeypatch, 50 * ROPE.tolerance)


@pytest.mark.parametrize("of", [ours, baseline])
def test_an_answer_of_zeros_is_met_by_zeros_and_by_nothing_else(of):
    nothing = Activations(torch.zeros(8, 64))
    vector = (gate.test_vector_of(nothing),)
    assert of(lambda: torch.zeros(8, 64), nothing, vector).check() == 0
    assert of(lambda: torch.full((8, 64), 1e-6), nothing, vector).check() == pytest.approx(1e-6)
    for wrong in (torch.ones(8, 64), torch.zeros(8, 64).index_fill(0, torch.tensor([3]), 0.5)):
        with pytest.raises(gate.WrongResultError, match="zero everywhere, its output is not"):
            of(lambda wrong=wrong: wrong.clone(), nothing, vector).check()
    with pytest.raises(gate.WrongResultError, match="64 of 512 elements are not finite"):
        of(lambda: torch.zeros(8, 64).index_fill(0, torch.tensor([3]), torch.nan), nothing, vector).check()


def test_one_output_of_zeros_among_others_is_judged_by_itself():
    row = workload_named("flash_attention_backward", "cpu-fp32-b1-h4-s128-d64-causal")
    inputs = make_inputs(row, torch.Generator("cpu").manual_seed(1))
    inputs.d_out.zero_()
    answers = (gate.test_vector_of(inputs),)
    outputs = [part.float() for part in inputs.expected()]
    assert all(float(part.abs().max()) == 0 for part in outputs)
    assert gate.Gate(lambda: tuple(x.clone() for x in outputs), inputs, answers, row.tolerance).check() == 0
