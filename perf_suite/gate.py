"""Correctness before speed: a kernel that gives a wrong result is given no number."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .inputs import Inputs


class WrongResultError(Exception):
    """The kernel's result is not the operator's; the message says how it was found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One set of activations and the reference's answer to them."""

    activations: tuple[torch.Tensor, ...]
    answer: torch.Tensor  # float64


def ask(inputs: Inputs) -> Question:
    """The question that the inputs pose as they are now, kept for later calls."""
    return Question(activations=tuple(tensor.clone() for tensor in inputs.activations()), answer=inputs.expected())


def check(
    run: Callable[[], torch.Tensor],
    inputs: Inputs,
    questions: tuple[Question, ...],
    tolerance: float,
) -> float:
    """Largest ||out - reference|| / ||reference|| over the questions, each put to the same prepared call.

    The activations change in place between calls, and each output is filled with NaN before its memory is
    handed back: a stale result, an output left unwritten and a result kept by address all show. The inputs
    end as the last question left them. Raises WrongResultError.
    """
    worst = 0.0
    for question in questions:
        for tensor, values in zip(inputs.activations(), question.activations, strict=True):
            tensor.copy_(values)
        out = run()
        worst = max(worst, relative_error(out, inputs, question.answer, tolerance))
        for tensor, values in zip(inputs.activations(), question.activations, strict=True):
            if not torch.equal(tensor, values):
                raise WrongResultError("it wrote over its inputs")
        out.fill_(torch.nan)
    return worst


def relative_error(out: torch.Tensor, inputs: Inputs, answer: torch.Tensor, tolerance: float) -> float:
    """||out - answer|| / ||answer|| in float64. Raises WrongResultError beyond the tolerance."""
    if out.shape != answer.shape:
        raise WrongResultError(f"its output is {tuple(out.shape)}, the reference's {tuple(answer.shape)}")
    kept = {tensor.untyped_storage().data_ptr() for tensor in inputs.activations()}
    if out.untyped_storage().data_ptr() in kept:
        raise WrongResultError("it returned one of its inputs")
    bad = int((~torch.isfinite(out)).sum())
    if bad:
        raise WrongResultError(f"{bad} of {out.numel()} elements are not finite")
    error = float(torch.linalg.vector_norm(out.double() - answer) / torch.linalg.vector_norm(answer))
    if not error <= tolerance:
        raise WrongResultError(f"relative error {error:.2e} exceeds {tolerance:.0e}")
    return error
