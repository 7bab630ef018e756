"""Stand-ins for triton.testing.do_bench and do_bench_cudagraph that take the timed call instead of timing it."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_NAMES = ("do_bench", "do_bench_cudagraph")
_PLACEHOLDER_MS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCall:
    """What a benchmark function gave to do_bench, and the modes of torch that it was to be timed in."""

    function: Callable[[], Any]
    grad_to_none: tuple[torch.Tensor, ...]
    with_grad: bool
    inference: bool

    def __call__(self) -> tuple[()]:
        """Call it as do_bench does. Its output is dropped: it may be an input, or what a backward pass still needs."""
        for tensor in self.grad_to_none:
            tensor.grad = None
        if self.inference:
            with torch.inference_mode():
                self.function()
        elif self.with_grad:
            self.function()
        else:
            with torch.no_grad():
                self.function()
        return ()


class _Taken(BaseException):
    """Leaves the benchmark function at the call that was asked for; no `except Exception` of the file stops it."""


class DirectCallError(BaseException):
    """The file times something outside a function that it could be asked for."""


@dataclass(slots=True)
class _Request:
    """What to do at do_bench: count the calls, or leave at the one with this index."""

    index: int | None
    taken: list[TakenCall]


_request: _Request | None = None


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """triton.testing with the stand-ins in it."""
    from triton import testing

    real = {name: getattr(testing, name) for name in _NAMES if hasattr(testing, name)}
    for name, function in real.items():
        setattr(testing, name, _stand_in(function))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(testing, name, function)


def calls_of(function: Callable[[], Any]) -> int:
    """How many calls a benchmark function times. Raises what it raises before the first."""
    request = _Request(index=None, taken=[])
    try:
        _with(request, function)
    except Exception:  # what it makes of placeholders for times is of no interest
        if not request.taken:
            raise
    return len(request.taken)


def call_of(function: Callable[[], Any], index: int) -> TakenCall:
    """The timed call with this index, from 0; the function is left there. Raises IndexError, or what it raises."""
    request = _Request(index=index, taken=[])
    with contextlib.suppress(_Taken):
        _with(request, function)
    return request.taken[index]


def _with(request: _Request, function: Callable[[], Any]) -> None:
    global _request
    before, _request = _request, request
    try:
        function()
    finally:
        _request = before


def _stand_in(real: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(real, "__wrapped__"):
        return real

    @functools.wraps(real)
    def do_bench(fn: Callable[[], Any], *arguments: Any, **options: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if caller.partition(".")[0] in ("triton", "torch"):  # an autotuner times its candidates
            return real(fn, *arguments, **options)
        if _request is None:
            raise DirectCallError
        grad_to_none: Sequence[torch.Tensor] = options.get("grad_to_none") or ()
        _request.taken.append(
            TakenCall(
                function=fn,
                grad_to_none=tuple(grad_to_none),
                with_grad=torch.is_grad_enabled(),
                inference=torch.is_inference_mode_enabled(),
            )
        )
        if _request.index is not None and len(_request.taken) > _request.index:
            raise _Taken
        quantiles = options.get("quantiles")
        if quantiles is not None and len(quantiles) > 1:
            return [_PLACEHOLDER_MS] * len(quantiles)
        return [_PLACEHOLDER_MS] if options.get("return_mode") == "all" else _PLACEHOLDER_MS

    return do_bench
