"""The callables that are timed; `prepare` binds one, by its name, to a workload's inputs."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..inputs import Inputs
from ..output import Output
from ..workloads.workload import Workload


class UnavailableError(Exception):
    """This machine or this commit has no such implementation; the message says which piece is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An implementation bound to its inputs; each call does the whole operation.

    Its output is new, or it is what the inputs call `written()`.
    """

    run: Callable[[], Output]
    backend: str | None = None  # the library kernel family taken, where the implementation chooses one


def prepare(workload: Workload, implementation: str, inputs: Inputs) -> Prepared:
    """Bind an implementation to inputs; what can be prepared ahead of a model's calls is done here, untimed.

    Raises UnavailableError if this commit or machine lacks it.
    """
    if workload.dtype == "bf16" and workload.device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        raise UnavailableError("bf16 wants a GPU of compute capability 8.0 or newer")
    module = importlib.import_module(f"{__name__}.{workload.operator}")
    factory = getattr(module, implementation, None)
    if factory is None:
        raise UnavailableError(f"{workload.operator} has no implementation named {implementation}")
    prepared: Prepared = factory(inputs)
    return prepared
