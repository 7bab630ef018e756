"""Correctness before speed: a kernel that gives a wrong result is given no number.

What a timed call could get away with, and what is set against it:

| it | is found by |
|---|---|
| returns its input, zeros, NaN | a float64 reference, on inputs drawn for the purpose |
| leaves out a few rows, or a tile at the edge | the worst row beside the whole |
| keeps an earlier result, by address or by count | two questions in the same memory, at random while timed |
| leaves its output unwritten | outputs filled with NaN before their memory goes back |
| works on another stream after it returned | a CUDA graph's replay, without which nothing is measured |
| is right until it is timed | each question's last timed output |
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
class Answer:
    """The reference's, to one tensor of the output."""

    values: torch.Tensor  # float64
    norms: torch.Tensor  # of its rows, those of the last dimension
    norm: torch.Tensor  # of the whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One set of activations and the reference's answer to them, a tensor or several; each is judged by itself."""

    activations: tuple[torch.Tensor, ...]
    answers: tuple[Answer | Bounds, ...] | None  # None without a reference: the gate stands open


def ask(inputs: Inputs) -> Question:
    """The question that the inputs pose as they are now, kept for later calls."""
    expected = inputs.expected()
    return Question(
        activations=tuple(tensor.clone() for tensor in inputs.activations()),
        answers=None if expected is None else tuple(_answer(values) for values in parts(expected)),
    )


def _answer(values: torch.Tensor | Bounds) -> Answer | Bounds:
    if isinstance(values, Bounds):
        return values
    norms = torch.linalg.vector_norm(values, dim=-1)
    return Answer(values=values, norms=norms, norm=torch.linalg.vector_norm(norms))


class Gate:
    """Watches one prepared call; every method raises WrongResultError. Works on torch's current stream."""

    def __init__(
        self,
        run: Callable[[], Output],
        inputs: Inputs,
        questions: tuple[Question, ...],
        tolerance: float,
        *,
        is_baseline: bool = False,
    ) -> None:
        self._run, self._inputs, self._tolerance = run, inputs, tolerance
        self._is_baseline = is_baseline
        self._excess = 0.0  # the largest error seen, as a multiple of the allowed one
        self.questions = questions
        self._random = random.Random()  # not seeded: nobody can know what is asked next
        self._written = parts(inputs.written()) if isinstance(inputs, WrittenInputs) else ()
        self._posed = 0
        self._timed: dict[int, Output] = {}  # the last timed output of each question

    @property
    def inaccuracy(self) -> float | None:
        """The largest error seen so far as a multiple of the allowed one; None if it never exceeded that."""
        return self._excess if self._excess > 1 else None

    def check(self) -> float | None:
        """Put every question to the call; the largest ||out - reference|| / ||reference||, None without a reference."""
        errors = [self._answer(self._run, question) for question in self.questions]
        return None if self.questions[0].answers is None else max(errors)

    def check_replay(self, replay: Callable[[], Output]) -> None:
        """Put every question to the call's CUDA graph.

        The graph holds what the call put on the captured stream, and nothing else: work that it does on another
        stream, or on the host, is missing from the replay however fast it was the first time.
        """
        try:
            for question in self.questions:
                self._answer(replay, question)
        except WrongResultError as error:
            raise WrongResultError(
                f"replayed from a CUDA graph {error}: part of its work is not on the current stream"
            ) from None

    def begin_timing(self) -> None:
        """Pose the first question of the timed calls."""
        self._pose_any()

    def after_timed_call(self, out: Output) -> None:
        """Between two timed calls: poison this question's output of before, keep this one, pose another at random."""
        earlier = self._timed.get(self._posed)
        if earlier is not None:
            _poison(earlier)
        self._refuse_memory(out)
        # In place there is one memory for all outputs, and the next question is about to be written to it.
        self._timed[self._posed] = tuple(tensor.clone() for tensor in parts(out)) if self._written else out
        self._pose_any()

    def check_timed(self) -> None:
        """The last timed output of each question."""
        for index, out in self._timed.items():
            self._error(out, self.questions[index])
        self._timed.clear()

    def _pose_any(self) -> None:
        self._posed = self._random.randrange(len(self.questions))
        self.pose(self.questions[self._posed])

    def pose(self, question: Question) -> None:
        """Write the question's activations into the inputs."""
        for tensor, values in zip(self._inputs.activations(), question.activations, strict=True):
            tensor.copy_(values)

    def _answer(self, run: Callable[[], Output], question: Question) -> float:
        """One call's error."""
        self.pose(question)
        return self.judge(run(), question)

    def judge(self, out: Output, question: Question) -> float:
        """The error of a call's output to the question posed. It ends as NaN, and the inputs must be what they were."""
        # The copy is on the caller's stream and behind the call: it sees what a caller's next kernel would see.
        seen = tuple(tensor.clone() for tensor in parts(out))
        self._refuse_memory(out)
        error = self._error(seen, question)
        for tensor, values in zip(self._inputs.activations(), question.activations, strict=True):
            if not any(tensor is each for each in self._written) and not _equal(tensor, values):
                raise WrongResultError("it wrote over its inputs")
        _poison(out)
        return error

    def _error(self, out: Output, question: Question) -> float:
        """The largest of the output's tensors, or of what they stand for."""
        tensors = parts(out)
        if question.answers is None:
            return 0.0
        if isinstance(self._inputs, CodedInputs):
            tensors = self._inputs.decoded(tensors)
        if len(tensors) != len(question.answers):
            raise WrongResultError(f"its output is {len(tensors)} tensors, the reference's {len(question.answers)}")
        return max(self._error_of(tensor, answer) for tensor, answer in zip(tensors, question.answers, strict=True))

    def _error_of(self, out: torch.Tensor, answer: Answer | Bounds) -> float:
        """One tensor's error. Within bounds it is 0."""
        if out.shape != answer.values.shape:
            raise WrongResultError(f"its output is {tuple(out.shape)}, the reference's {tuple(answer.values.shape)}")
        if isinstance(answer, Bounds):
            _refuse_beyond(out, answer)
            return 0.0
        whole, row = _errors(out, answer)
        for error, allowed, what in (
            (whole, self._tolerance, ""),
            (row, _ROW_ALLOWANCE * self._tolerance, " of its worst row"),
        ):
            limit = max(allowed, _BASELINE_LIMIT) if self._is_baseline else allowed
            if not error <= limit:
                bad = int((~torch.isfinite(out)).sum())
                if bad:
                    raise WrongResultError(f"{bad} of {out.numel()} elements are not finite")
                if answer.norm == 0:
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
    """Put every question to each of a call's copies in one CUDA graph, never the same one to neighbours.

    `gates` watch the copies; `replay` returns the last output of each. Raises WrongResultError.
    """
    count = len(gates[0].questions)
    for shift in range(count):
        asked = [gate.questions[(shift + index) % count] for index, gate in enumerate(gates)]
        for gate, question in zip(gates, asked, strict=True):
            gate.pose(question)
        for gate, out, question in zip(gates, replay(), asked, strict=True):
            try:
                gate.judge(out, question)
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


def _errors(out: torch.Tensor, answer: Answer) -> tuple[float, float]:
    """||out - answer|| / ||answer|| in float64, of the whole and of the worst row.

    A row is one of the last dimension; a small one counts as an average one. Where the answer is zero everywhere,
    nothing is relative to it: both are the largest absolute value of the output.
    """
    if answer.norm == 0:
        largest = float(out.double().abs().max())
        return largest, largest
    norms = torch.linalg.vector_norm(out.double() - answer.values, dim=-1)
    average = answer.norms.square().mean().sqrt()
    worst_row = (norms / torch.maximum(answer.norms, average)).max()
    error, row = torch.stack((torch.linalg.vector_norm(norms) / answer.norm, worst_row)).tolist()
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
