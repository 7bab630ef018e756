"""From an adopted case and provider to the call that is timed."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch

from ..launches import NotCapturableError, capture
from ..prepared import Prepared
from ..workload import Workload
from . import timers
from .adopted_file import adopted_file
from .operator_file import OperatorFile
from .sweep import NotAdoptedError


def prepare(file: Path, sweep: str, workload: Workload, implementation: str) -> Prepared:
    """A fresh call of the file's function for a case and provider; what it makes of the inputs is its own.

    Raises NotAdoptedError where the file no longer has the case, or what the file raises.
    """
    found = adopted_file(file)
    if sweep not in found.sweeps:
        raise NotAdoptedError(f"{file} no longer measures {sweep}: it has {', '.join(found.sweeps)}")
    case, shape = found.sweeps[sweep].case(workload.name, workload.parameters)
    provider, _, number = implementation.partition("#")
    if provider not in case.providers:
        raise NotAdoptedError(f"{file}: {sweep} {case.name} has no {provider}: it has {', '.join(case.providers)}")
    function = functools.partial(case.call, provider, shape)
    with found.surroundings():
        torch.manual_seed(workload.seed)
        if isinstance(found, OperatorFile):
            run = timers.TakenCall(
                function=function(), grad_to_none=(), with_grad=torch.is_grad_enabled(), inference=False
            )
        else:
            index = int(number) - 1 if number else _only(file, sweep, workload.name, provider, function)
            run = timers.call_of(function, index)
        run()  # compiled and tuned where its file expects to be
    return Prepared(run=run, capturable=_is_capturable(run))


_counted: dict[tuple[Path, str, str, str], int] = {}


def _only(file: Path, sweep: str, case: str, provider: str, function: Any) -> int:
    """The index of the call that a function times, 0. Raises NotAdoptedError where it times none or several."""
    key = (file, sweep, case, provider)
    if key not in _counted:
        _counted[key] = timers.calls_of(function)
    if _counted[key] == 1:
        return 0
    if not _counted[key]:
        raise NotAdoptedError(f"{sweep} calls neither do_bench nor do_bench_cudagraph for {provider}")
    names = ", ".join(f'"{provider}#{index + 1}"' for index in range(_counted[key]))
    raise NotAdoptedError(
        f"{sweep} times {_counted[key]} calls for {provider}, which cannot be one number: name one of them in the "
        f'adopted class, as {names} in place of "{provider}", or leave the provider out'
    )


def _is_capturable(run: timers.TakenCall) -> bool:
    """Whether a CUDA graph can hold the call. do_bench demands none: where none can, the host's time is timed too.

    Without a stream of the engine's own, as in the processes that compile ahead, nothing is tried.
    """
    if not torch.cuda.is_available() or torch.cuda.current_stream() == torch.cuda.default_stream():
        return True
    try:
        capture(run)
    except NotCapturableError:
        return False
    return True
