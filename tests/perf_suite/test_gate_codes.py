"""Appends that write codes: the gate judges what they stand for, their scales, and all that they must leave alone."""

import pytest
import torch

from perf_suite.benchmarks.int4_kv_append import Int4KvAppend
from perf_suite.benchmarks.int8_kv_append import Int8KvAppend
from perf_suite.catalogue import workload_named
from warpbench import gate
from warpbench.operators import draw_again, make_inputs, prepare

pytestmark = pytest.mark.outside  # needs the compiled kernels

INT8 = workload_named("int8_kv_append", "cpu-fp32-b2-h8-n64-d128-capacity128")
INT4 = workload_named("int4_kv_append", "cpu-fp32-b2-h8-n77-d128-capacity128")
INT4_STEP = workload_named("int4_kv_append", "cpu-fp32-b34-h2-n1-d64-capacity64")
ROWS = [INT8, INT4, INT4_STEP]
BOUNDS = "elements are out of bounds"


def with_vectors(workload):
    """Inputs and two vectors."""
    generator = torch.Generator("cpu").manual_seed(1)
    inputs = make_inputs(workload, generator)
    first = gate.test_vector_of(inputs)
    draw_again(inputs, workload, generator)
    return inputs, (first, gate.test_vector_of(inputs))


def timed(workload, spoilt=lambda inputs, written: None, *, calls=12, cheat_from=0):
    """As a stopwatch does it, with PyTorch's append and what `spoilt` makes of its result from some call on."""
    inputs, vectors = with_vectors(workload)
    run = prepare(workload, "eager", inputs).run
    made = []

    def called():
        out = run()
        if len(made) >= cheat_from:
            spoilt(inputs, out)
        made.append(None)
        return out

    judge = gate.Gate(called, inputs, vectors, workload.tolerance)
    error = judge.check()
    judge.begin_timing()
    for _ in range(calls):
        judge.after_timed_call(called())
    judge.check_timed()
    judge.check()
    return error


def place(inputs, sequence=0):
    """The newest token's."""
    return int(inputs.lengths[sequence]) - 1


@pytest.mark.parametrize("workload", ROWS, ids=lambda w: w.operator + w.name)
def test_an_honest_append_passes_with_no_error_and_calls_may_repeat(workload):
    assert timed(workload) == 0
    inputs, vectors = with_vectors(workload)
    run = prepare(workload, "eager", inputs).run

    def twice():
        run()
        return run()

    assert gate.Gate(twice, inputs, vectors, workload.tolerance).check() == 0


@pytest.mark.parametrize("kind", [Int8KvAppend, Int4KvAppend], ids=["int8", "int4"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("tokens", [1, 20, 32, 96])
def test_every_implementation_here_passes_at_any_length_and_dtype(tokens, dtype, kind):
    case = kind.case("cpu", dtype, batch=33, heads=2, tokens=tokens, capacity=160, head_dim=64)
    row = kind.workload_of(case)
    inputs, vectors = with_vectors(row)
    for implementation in ("warpwatch", "eager"):
        run = prepare(row, implementation, inputs).run
        assert gate.Gate(run, inputs, vectors, row.tolerance).check() == 0


def wrong_code(inputs, written):
    """One step, in one element of a new row."""
    written[0][0, 0, place(inputs), 5] ^= 1


SCALE = 1.002  # of one scale: 0.2 %


def wrong_scale(inputs, written):
    written[2][0, 0, place(inputs)] *= SCALE


def all_scales_wrong(inputs, written):
    for scales in written[2:4]:
        scales.mul_(SCALE)


def coarser_step(inputs, written):
    """Twice the scale and half the code: within half of its own step."""
    new = (0, 0, place(inputs))
    written[2][new] *= 2
    written[0][new] = (written[0][new].float() / 2).round().to(torch.int8)


def truncated(inputs, written):
    """Codes rounded towards zero."""
    new = (0, 0, place(inputs))
    written[0][new] = (inputs.k[0, 0, -1].float() / written[2][new]).trunc().to(torch.int8)


def wrong_row(inputs, written):
    new = place(inputs)
    for part in written:
        part[0, 0, new] = part[0, 0, new - 1]


def one_row_late(inputs, written):
    for part, before in zip(written, inputs.activations()[:4], strict=True):
        part[1] = before[1].roll(1, dims=1)


def neighbours_code(inputs, written):
    """The least that can be wrong in a token next to the new ones: one code, by one step."""
    neighbour = (place(inputs) + 1) % 128
    assert not place(inputs) - 63 <= neighbour <= place(inputs)
    written[1][0, 0, neighbour, 7] ^= 1


def neighbours_scale(inputs, written):
    neighbour = (place(inputs) + 1) % 128
    written[3][0, 0, neighbour] = torch.nextafter(written[3][0, 0, neighbour], torch.tensor(9.0))


def scale_is_nan(inputs, written):
    written[2][1, 1, place(inputs, 1)] = torch.nan


def new_rows(inputs, written):
    inputs.k[0, 0, 0, 0] = 0.0


INT8_CHEATS = [
    wrong_code,
    wrong_scale,
    all_scales_wrong,
    coarser_step,
    truncated,
    wrong_row,
    one_row_late,
    neighbours_code,
    neighbours_scale,
    scale_is_nan,
]


@pytest.mark.parametrize("cheat_from", [0, 2], ids=["always", "once it is timed"])
@pytest.mark.parametrize("cheat", INT8_CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_wrong_8_bit_append_is_caught(cheat, cheat_from):
    with pytest.raises(gate.WrongResultError, match=BOUNDS):
        timed(INT8, cheat, cheat_from=cheat_from)


def test_an_append_that_spoils_the_new_rows_is_caught():
    with pytest.raises(gate.WrongResultError, match="wrote over its inputs"):
        timed(INT8, new_rows)


@pytest.mark.parametrize("part", range(6), ids=["k codes", "v codes", "k scales", "v scales", "k window", "v window"])
@pytest.mark.parametrize("workload", [INT4, INT4_STEP], ids=["several tokens", "one token"])
def test_any_part_of_a_4_bit_cache_that_is_off_in_one_place_is_caught(workload, part):
    """First where the append wrote, then where it must not have; by one code, one unit in the last place of a scale."""

    def off(at):
        def spoil(inputs, written):
            tensor = written[part]
            tensor[at] = tensor[at] ^ 1 if part < 2 else tensor[at] * SCALE

        return spoil

    inputs, _ = with_vectors(workload)
    whole = int(inputs.lengths[0]) // 32 * 32  # of a single token, too, the first sequence's group is whole
    newest = (0, 0, whole // 32 - 1 if part == 2 else whole - 1)
    if part >= 4:  # the second sequence's last token stays in the window
        newest = (1, 0, (int(inputs.lengths[1]) - 1) % 32)
    column = 0 if part == 3 else 3
    with pytest.raises(gate.WrongResultError, match=BOUNDS):
        timed(workload, off((*newest, ..., column)))
    untouched = (1, 1, -1, ..., column)
    with pytest.raises(gate.WrongResultError, match=BOUNDS):
        timed(workload, off(untouched), cheat_from=2)


def test_a_window_that_a_whole_group_is_written_to_is_caught():
    def kept_twice(inputs, written):
        written[4][0, :, 31] = inputs.k[0, :, 0]

    with pytest.raises(gate.WrongResultError, match=BOUNDS):
        timed(INT4_STEP, kept_twice)


def test_an_append_that_writes_nothing_once_it_is_timed_is_caught():
    for workload in ROWS:
        inputs, vectors = with_vectors(workload)
        run = prepare(workload, "eager", inputs).run
        calls = []

        def lazy(run=run, calls=calls, inputs=inputs, vectors=vectors):
            calls.append(None)
            return run() if len(calls) <= len(vectors) else inputs.written()

        judge = gate.Gate(lazy, inputs, vectors, workload.tolerance)
        judge.check()
        judge.begin_timing()
        judge.after_timed_call(lazy())
        with pytest.raises(gate.WrongResultError, match=BOUNDS):
            judge.check_timed()


def test_other_tensors_fewer_or_of_another_dtype_are_refused():
    inputs, vectors = with_vectors(INT8)
    run = prepare(INT8, "eager", inputs).run

    def judged(returned):
        gate.Gate(lambda: returned(run()), inputs, vectors, INT8.tolerance).check()

    with pytest.raises(gate.WrongResultError, match="another tensor than the one"):
        judged(lambda out: tuple(part.clone() for part in out))
    with pytest.raises(gate.WrongResultError, match="another tensor than the one"):
        judged(lambda out: out[:2])
    with pytest.raises(gate.WrongResultError, match=r"torch.uint8, what it is to write to .* in torch.int8"):
        judged(lambda out: (out[0].view(torch.uint8), *out[1:]))
