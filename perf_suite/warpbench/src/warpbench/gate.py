"""Correctness before speed: a kernel that gives a wrong result is given no number.

What a timed call could get away with, and what is set against it:

| it | is found by |
|---|---|
| returns its input, zeros, NaN | a float64 reference, on inputs drawn for the purpose |
| leaves out a few rows, or a tile at the edge | the worst row in addition to the whole |
| keeps an earlier result, by address or by count | two test vectors in the same memory, at random while timed |
| leaves its output unwritten | outputs filled with NaN before their memory goes back |
| works on another stream after it returned | a CUDA graph's replay, without which nothing is measured |
| is right until it is timed | each test vector's last timed output |
| is right at this shape alone | every workload passes its own gate |
| rounds to a coarser code, or with another scale | what the codes stand for and their scales, element by element |

An operator that works in place says so in its inputs, not a kernel: its output is then the whole of those inputs, drawn
anew before each call. A call that writes nothing, too little or elsewhere in them leaves what was drawn. Codes are
judged by what they stand for, which has to lie within half a step of what was to be written; what was not to be written
has to be what it was.

A kernel of ours that is less precise than allowed is refused. A baseline is somebody else's and timed as it is: its
inaccuracy is recorded with its number, and only a result that is plainly another one is refused.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .inputs import CodedInputs, Inputs, WrittenInputs
from .output import Bounds, Output, parts

# How many times the whole's tolerance the error of one row may be. The worst seen of an honest kernel of ours was 1.1.
_ROW_ALLOWANCE = 4.0
# Relative error, of the whole or of a row, beyond which a baseline's result is wrong and not merely imprecise.
# PyTorch's eager attention backward reached 0.066 in bf16 and 0.011 in fp16 (H200, sequences of 2048 and 4096);
# a row that was left out, belongs elsewhere or is of an earlier call errs by about 1 or more.
_BASELINE_LIMIT = 0.25


class WrongResultError(Exception):
    """The kernel's result is not the operator's; the message says how it was found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The reference's result for one tensor of the output."""

    values: torch.Tensor  # float64
    norms: torch.Tensor  # of its rows, those of the last dimension
    norm: torch.Tensor  # of the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class TestVector:
    """One set of activations and the reference's output for them: a tensor or several, each judged by itself."""

    __test__ = False  # pytest takes a class of such a name for a test

    activations: tuple[torch.Tensor, ...]
    expected: tuple[Expected | Bounds, ...] | None  # None without a reference: every output passes


def test_vector_of(inputs: Inputs) -> TestVector:
    """The activations that the inputs have now, copied for later calls, with the reference's output."""
    expected = inputs.expected()
    return TestVector(
        activations=tuple(tensor.clone() for tensor in inputs.activations()),
        expected=None if expected is None else tuple(_expected(values) for values in parts(expected)),
    )


def _expected(values: torch.Tensor | Bounds) -> Expected | Bounds:
    if isinstance(values, Bounds):
        return values
    norms = torch.linalg.vector_norm(values, dim=-1)
    return Expected(values=values, norms=norms, norm=torch.linalg.vector_norm(norms))


class Gate:
    """Watches one prepared call; every method raises WrongResultError. Works on torch's current stream."""

    def __init__(
        self,
        run: Callable[[], Output],
        inputs: Inputs,
        vectors: tuple[TestVector, ...],
        tolerance: float,
        *,
        is_baseline: bool = False,
    ) -> None:
        self._run, self._inputs, self._tolerance = run, inputs, tolerance
        self._is_baseline = is_baseline
        self._excess = 0.0  # the largest error seen, as a multiple of the allowed one
        self.vectors = vectors
        self._random = random.Random()  # not seeded: a kernel cannot know which vector comes next
        self._written = parts(inputs.written()) if isinstance(inputs, WrittenInputs) else ()
        self._loaded = 0
        self._timed: dict[int, Output] = {}  # the last timed output of each test vector

    @property
    def inaccuracy(self) -> float | None:
        """The largest error seen so far as a multiple of the allowed one; None if it never exceeded that."""
        return self._excess if self._excess > 1 else None

    def check(self) -> float | None:
        """Call it with every test vector; the largest ||out - reference|| / ||reference||, None without a reference."""
        errors = [self._error_of_call(self._run, vector) for vector in self.vectors]
        return None if self.vectors[0].expected is None else max(errors)

    def check_replay(self, replay: Callable[[], Output]) -> None:
        """Replay the call's CUDA graph with every test vector.

        The graph holds what the call put on the captured stream, and nothing else: work that it does on another
        stream, or on the host, is missing from the replay however fast it was the first time.
        """
        try:
            for vector in self.vectors:
                self._error_of_call(replay, vector)
        except WrongResultError as error:
            raise WrongResultError(
                f"replayed from a CUDA graph {error}: part of its work is not on the current stream"
            ) from None

    def begin_timing(self) -> None:
        """Load the first test vector of the timed calls."""
        self._load_any()

    def after_timed_call(self, out: Output) -> None:
        """Between two timed calls: poison this vector's earlier output, keep this one, load any vector at random."""
        earlier = self._timed.get(self._loaded)
        if earlier is not None:
            _poison(earlier)
        self._refuse_memory(out)
        # In place there is one memory for all outputs, and the next test vector is about to be written to it.
        self._timed[self._loaded] = tuple(tensor.clone() for tensor in parts(out)) if self._written else out
        self._load_any()

    def check_timed(self) -> None:
        """Judge the last timed output of each test vector."""
        for index, out in self._timed.items():
            self._error(out, self.vectors[index])
        self._timed.clear()

    def _load_any(self) -> None:
        self._loaded = self._random.randrange(len(self.vectors))
        self.load(self.vectors[self._loaded])

    def load(self, vector: TestVector) -> None:
        """Write the vector's activations into the inputs."""
        for tensor, values in zip(self._inputs.activations(), vector.activations, strict=True):
            tensor.copy_(values)

    def _error_of_call(self, run: Callable[[], Output], vector: TestVector) -> float:
        self.load(vector)
        return self.judge(run(), vector)

    def judge(self, out: Output, vector: TestVector) -> float:
        """The error of a call's output for the loaded vector. Fills the output with NaN; refuses changed inputs."""
        # The copy is on the caller's stream and behind the call: it sees what a caller's next kernel would see.
        seen = tuple(tensor.clone() for tensor in parts(out))
        self._refuse_memory(out)
        error = self._error(seen, vector)
        for tensor, values in zip(self._inputs.activations(), vector.activations, strict=True):
            if not any(tensor is each for each in self._written) and not _equal(tensor, values):
                raise WrongResultError("it wrote over its inputs")
        _poison(out)
        return error

    def _error(self, out: Output, vector: TestVector) -> float:
        """The largest of the output's tensors, or of what they stand for."""
        tensors = parts(out)
        if vector.expected is None:
            return 0.0
        if isinstance(self._inputs, CodedInputs):
            tensors = self._inputs.decoded(tensors)
        if len(tensors) != len(vector.expected):
            raise WrongResultError(f"its output is {len(tensors)} tensors, the reference's {len(vector.expected)}")
        return max(self._error_of(tensor, expected) for tensor, expected in zip(tensors, vector.expected, strict=True))

    def _error_of(self, out: torch.Tensor, expected: Expected | Bounds) -> float:
        """One tensor's error. Within bounds it is 0."""
        if out.shape != expected.values.shape:
            raise WrongResultError(f"its output is {tuple(out.shape)}, the reference's {tuple(expected.values.shape)}")
        if isinstance(expected, Bounds):
            _refuse_beyond(out, expected)
            return 0.0
        whole, row = _errors(out, expected)
        for error, allowed, what in (
            (whole, self._tolerance, ""),
            (row, _ROW_ALLOWANCE * self._tolerance, " of its worst row"),
        ):
            limit = max(allowed, _BASELINE_LIMIT) if self._is_baseline else allowed
            if not error <= limit:
                bad = int((~torch.isfinite(out)).sum())
                if bad:
                    raise WrongResultError(f"{bad} of {out.numel()} elements are not finite")
                if expected.norm == 0:
                    raise WrongResultError(f"the reference is zero everywhere, its output is not: up to {error:.2e}")
                raise WrongResultError(f"relative error {error:.2e}{what} exceeds {limit:.0e}")
            self._excess = max(self._excess, error / allowed)
        return whole

    def _refuse_memory(self, out: Output) -> None:
        """An output lies in memory of its own; of an operator that works in place, where the caller asked for it."""
        if self._written:
            if [_place(tensor) for tensor in parts(out)] != [_place(tensor) for tensor in self._written]:
                raise WrongResultError("it returned another tensor than the one that it is to write to")
            for tensor, written in zip(parts(out), self._written, strict=True):
                if (tensor.shape, tensor.dtype) != (written.shape, written.dtype):
                    raise WrongResultError(
                        f"its output is {tuple(tensor.shape)} in {tensor.dtype}, "
                        f"what it is to write to {tuple(written.shape)} in {written.dtype}"
                    )
            return
        kept = {tensor.untyped_storage().data_ptr() for tensor in self._inputs.activations()}
        if any(tensor.untyped_storage().data_ptr() in kept for tensor in parts(out)):
            raise WrongResultError("it returned one of its inputs")


def check_rotated_replay(gates: Sequence[Gate], replay: Callable[[], Sequence[Output]]) -> None:
    """Replay a call's copies in one CUDA graph with every test vector, neighbours with different ones.

    `gates` watch the copies; `replay` returns the last output of each. Raises WrongResultError.
    """
    count = len(gates[0].vectors)
    for shift in range(count):
        vectors = [gate.vectors[(shift + index) % count] for index, gate in enumerate(gates)]
        for gate, vector in zip(gates, vectors, strict=True):
            gate.load(vector)
        for gate, out, vector in zip(gates, replay(), vectors, strict=True):
            try:
                gate.judge(out, vector)
            except WrongResultError as error:
                raise WrongResultError(f"replayed with its copies from a CUDA graph {error}") from None


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.is_floating_point() and one.itemsize == 1:  # torch compares no 8-bit floats
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    return torch.equal(one, other)


def _place(tensor: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.stride()


def _poison(out: Output) -> None:
    for tensor in parts(out):
        values = tensor.data  # autograd forbids to write to a view that a backward pass returned, and counts writes
        if values.dtype is torch.bool:
            values.logical_not_()
        else:
            values.fill_(torch.nan if values.is_floating_point() else torch.iinfo(values.dtype).min)


def _errors(out: torch.Tensor, expected: Expected) -> tuple[float, float]:
    """||out - expected|| / ||expected|| in float64, of the whole and of the worst row.

    A row is one of the last dimension; a small one counts as an average one. Where the expected output is all zeros,
    nothing is relative to it: both are the largest absolute value of the output.
    """
    if expected.norm == 0:
        largest = float(out.double().abs().max())
        return largest, largest
    norms = torch.linalg.vector_norm(out.double() - expected.values, dim=-1)
    average = expected.norms.square().mean().sqrt()
    worst_row = (norms / torch.maximum(expected.norms, average)).max()
    error, row = torch.stack((torch.linalg.vector_norm(norms) / expected.norm, worst_row)).tolist()
    return error, row


def _refuse_beyond(out: torch.Tensor, bounds: Bounds) -> None:
    """Raises WrongResultError where an element is not within its slack, NaN with it."""
    distance = (out.double() - bounds.values).abs()
    right = distance <= bounds.slack
    if bool(right.all()):
        return
    slack = bounds.slack.expand_as(distance)[~right]
    raise WrongResultError(
        f"{int((~right).sum())} of {out.numel()} elements are out of bounds, the first by a distance of "
        f"{float(distance[~right][0]):.2e} where {float(slack[0]):.2e} is allowed"
    )
