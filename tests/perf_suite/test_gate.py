"""Kernels that cheat or break, and the gate that gives them no number."""

import pytest
import torch

from perf_suite.catalogue import workload_named
from warpbench import gate
from warpbench.operators import make_inputs

WORKLOAD = workload_named("rope", "cpu-fp32-b1-h8-s256-d128")


@pytest.fixture
def inputs():
    return make_inputs(WORKLOAD, torch.Generator("cpu").manual_seed(1))


@pytest.fixture
def vectors(inputs):
    first = gate.test_vector_of(inputs)
    inputs.x.normal_(generator=torch.Generator().manual_seed(2))
    return (first, gate.test_vector_of(inputs))


def right(inputs):
    return inputs.expected().to(inputs.x.dtype)


def gate_of(run, inputs, vectors):
    return gate.Gate(run, inputs, vectors, WORKLOAD.tolerance)


def check(run, inputs, vectors):
    return gate_of(run, inputs, vectors).check()


def timed(run, inputs, vectors, calls=5):
    """As a stopwatch does it: the gate, some timed calls, the gate again."""
    judge = gate_of(run, inputs, vectors)
    judge.check()
    judge.begin_timing()
    for _ in range(calls):
        judge.after_timed_call(run())
    judge.check_timed()
    judge.check()


def test_a_right_kernel_passes_with_the_error_of_its_rounding(inputs, vectors):
    assert 0 < check(lambda: right(inputs), inputs, vectors) < 1e-7


class _GradientInPlace(torch.autograd.Function):
    """Doubles; the gradient is written over the saved input, as Liger-Kernel's SwiGLU does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, d_out):
        (x,) = ctx.saved_tensors
        return x.copy_(2 * d_out).view(x.shape)


def test_a_gradient_that_is_a_view_of_what_autograd_saved_can_be_judged_again(inputs, vectors):
    leaf = inputs.x.clone().requires_grad_()
    (out,) = torch.autograd.grad(_GradientInPlace.apply(leaf), leaf, torch.ones_like(leaf))
    judge = gate_of(lambda: None, inputs, vectors)
    for vector in vectors:
        judge.load(vector)
        out.data.copy_(right(inputs))  # as the replay of a CUDA graph writes its outputs again
        assert judge.judge(out, vector) < 1e-7


def test_returning_the_input_buffer_is_caught(inputs, vectors):
    with pytest.raises(gate.WrongResultError, match="returned one of its inputs"):
        check(lambda: inputs.x, inputs, vectors)


def test_a_right_result_written_over_the_input_is_caught(inputs, vectors):
    with pytest.raises(gate.WrongResultError, match="returned one of its inputs"):
        check(lambda: inputs.x.copy_(right(inputs)), inputs, vectors)


def test_a_right_result_that_spoils_the_input_is_caught(inputs, vectors):
    def run():
        out = right(inputs)
        inputs.x[0, 0, 0, 0] = 0.0
        return out

    with pytest.raises(gate.WrongResultError, match="wrote over its inputs"):
        check(run, inputs, vectors)


def test_zeros_are_caught(inputs, vectors):
    with pytest.raises(gate.WrongResultError, match=r"relative error 1\.00e\+00"):
        check(lambda: torch.zeros_like(inputs.x), inputs, vectors)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_one_element_that_is_not_finite_is_caught(inputs, vectors, poison):
    def run():
        out = right(inputs)
        out[0, 3, 5, 7] = poison
        return out

    with pytest.raises(gate.WrongResultError, match="1 of 262144 elements"):
        check(run, inputs, vectors)


def test_a_stale_output_is_caught(inputs, vectors):
    kept = []

    def run():
        if not kept:
            kept.append(right(inputs))
        return kept[0].clone()

    with pytest.raises(gate.WrongResultError, match="relative error"):
        check(run, inputs, vectors)


def test_an_output_buffer_left_unwritten_after_the_first_call_is_caught(inputs, vectors):
    kept = []

    def run():
        if not kept:
            kept.append(right(inputs))
        return kept[0]

    with pytest.raises(gate.WrongResultError, match="not finite"):
        check(run, inputs, vectors)


def test_a_wrong_shape_is_caught(inputs, vectors):
    with pytest.raises(gate.WrongResultError, match=r"output is \(1, 8, 256, 64\)"):
        check(lambda: right(inputs)[..., :64], inputs, vectors)


def test_one_wrong_row_is_caught(inputs, vectors):
    def run():
        out = right(inputs)
        out[0, 0, 100] = out[0, 0, 101]
        return out

    with pytest.raises(gate.WrongResultError, match="relative error"):
        check(run, inputs, vectors)


def test_a_right_kernel_is_right_while_it_is_timed_and_afterwards(inputs, vectors):
    timed(lambda: right(inputs), inputs, vectors)


@pytest.mark.parametrize("calls", [1, 2, 50])
def test_a_kernel_that_repeats_its_last_result_once_it_is_timed_is_caught(inputs, vectors, calls):
    answers = []

    def run():
        if len(answers) < len(vectors):
            answers.append(right(inputs))
        return answers[-1].clone()

    with pytest.raises(gate.WrongResultError, match="relative error"):
        timed(run, inputs, vectors, calls)


def test_a_kernel_that_writes_nothing_once_it_is_timed_is_caught(inputs, vectors):
    buffer = torch.empty_like(inputs.x)
    calls = []

    def run():
        calls.append(None)
        return buffer.copy_(right(inputs)) if len(calls) <= len(vectors) else buffer

    with pytest.raises(gate.WrongResultError, match="not finite"):
        timed(run, inputs, vectors)


def test_a_kernel_that_guesses_that_the_vectors_alternate_is_caught(inputs, vectors):
    calls = []
    answers = []

    def run():
        calls.append(None)
        if len(calls) <= len(vectors):
            answers.append(right(inputs))
        return answers[(len(calls) - 1) % 2].clone()

    with pytest.raises(gate.WrongResultError, match="relative error"):
        timed(run, inputs, vectors, calls=101)  # an odd number: the check afterwards is out of step too


def test_a_last_row_left_out_is_caught_where_the_whole_would_pass(inputs, vectors):
    """2047 of 2048 rows right: the whole's error is 2e-2, the row's near 1."""

    def run():
        out = right(inputs)
        out[0, -1, -1] = 0.0
        return out

    loose = gate.Gate(run, inputs, vectors, 0.1)
    with pytest.raises(gate.WrongResultError, match="of its worst row exceeds 4e-01"):
        loose.check()


def test_a_row_of_small_values_may_be_as_wrong_as_an_average_one(inputs, vectors):
    inputs.x[0, 0, 0] = 1e-6
    vector = gate.test_vector_of(inputs)

    def run():
        out = right(inputs)
        out[0, 0, 0] += 1e-7
        return out

    assert gate.Gate(run, inputs, (vector,), WORKLOAD.tolerance).check() < 1e-7


def test_of_several_outputs_each_is_judged_by_itself():
    workload = workload_named("flash_attention_backward", "cpu-fp32-b1-h4-s128-d64-causal")
    inputs = make_inputs(workload, torch.Generator("cpu").manual_seed(1))
    vector = (gate.test_vector_of(inputs),)
    right = tuple(part.float() for part in inputs.expected())
    assert gate.Gate(lambda: tuple(x.clone() for x in right), inputs, vector, workload.tolerance).check() < 1e-7

    def without_dk():
        return right[0].clone(), torch.zeros_like(right[1]), right[2].clone()

    with pytest.raises(gate.WrongResultError, match=r"relative error 1\.00e\+00"):
        gate.Gate(without_dk, inputs, vector, workload.tolerance).check()
    with pytest.raises(gate.WrongResultError, match="its output is 2 tensors, the reference's 3"):
        gate.Gate(lambda: tuple(x.clone() for x in right[:2]), inputs, vector, workload.tolerance).check()


IN_PLACE = workload_named("kv_append", "cpu-fp32-b2-h8-n64-d128-capacity128")


@pytest.fixture
def appending():
    return make_inputs(IN_PLACE, torch.Generator("cpu").manual_seed(1))


@pytest.fixture
def appending_vectors(appending):
    first = gate.test_vector_of(appending)
    for tensor in appending.activations():
        tensor.normal_(generator=torch.Generator().manual_seed(2))
    return (first, gate.test_vector_of(appending))


def append(inputs):
    inputs.caches.copy_(inputs.expected())
    return inputs.caches


def append_timed(run, inputs, vectors, calls=20):
    judge = gate.Gate(run, inputs, vectors, IN_PLACE.tolerance)
    judge.check()
    judge.begin_timing()
    for _ in range(calls):
        judge.after_timed_call(run())
    judge.check_timed()
    judge.check()


def after_the_check(cheat, inputs, vectors):
    """Right for as many calls as the check before timing makes, then the cheat."""
    calls = []

    def run():
        calls.append(None)
        return append(inputs) if len(calls) <= len(vectors) else cheat()

    return run


def test_a_right_append_in_place_passes_timed_and_not(appending, appending_vectors):
    append_timed(lambda: append(appending), appending, appending_vectors)


def test_an_append_into_another_tensor_is_caught(appending, appending_vectors):
    with pytest.raises(gate.WrongResultError, match="another tensor than the one"):
        append_timed(lambda: append(appending).clone(), appending, appending_vectors)


def test_an_append_into_another_tensor_once_it_is_timed_is_caught(appending, appending_vectors):
    run = after_the_check(lambda: appending.expected().float(), appending, appending_vectors)
    with pytest.raises(gate.WrongResultError, match="another tensor than the one"):
        append_timed(run, appending, appending_vectors)


def test_a_part_of_the_caches_in_place_of_all_is_caught(appending, appending_vectors):
    with pytest.raises(gate.WrongResultError, match="its output is"):
        append_timed(lambda: append(appending)[:1], appending, appending_vectors)


@pytest.mark.parametrize("calls", [1, 2, 50])
def test_an_append_that_writes_nothing_once_it_is_timed_is_caught(appending, appending_vectors, calls):
    run = after_the_check(lambda: appending.caches, appending, appending_vectors)
    with pytest.raises(gate.WrongResultError, match="relative error"):
        append_timed(run, appending, appending_vectors, calls)


def test_an_append_that_writes_what_it_wrote_before_is_caught(appending, appending_vectors):
    kept = [vector.expected[0].values.float() for vector in appending_vectors]
    run = after_the_check(lambda: appending.caches.copy_(kept[0]), appending, appending_vectors)
    with pytest.raises(gate.WrongResultError, match="relative error"):
        append_timed(run, appending, appending_vectors)


def test_an_append_that_spoils_one_element_next_to_the_new_rows_is_caught(appending, appending_vectors):
    start = int(appending.positions[1])
    neighbour = start - 1 if start else appending.k.shape[2]

    def run():
        out = append(appending)
        out[1, 1, 3, neighbour, 5] += 1e-3
        return out

    with pytest.raises(gate.WrongResultError, match="relative error"):
        append_timed(run, appending, appending_vectors)


def test_an_append_that_leaves_out_one_row_is_caught(appending, appending_vectors):
    place = int(appending.positions[0])

    def run():
        before = appending.caches[0, 0, 0, place].clone()
        out = append(appending)
        out[0, 0, 0, place] = before
        return out

    with pytest.raises(gate.WrongResultError, match="relative error"):
        append_timed(run, appending, appending_vectors)


def test_an_append_that_spoils_the_new_rows_is_caught(appending, appending_vectors):
    def run():
        out = append(appending)
        appending.k[0, 0, 0, 0] = 0.0
        return out

    with pytest.raises(gate.WrongResultError, match="wrote over its inputs"):
        append_timed(run, appending, appending_vectors)
