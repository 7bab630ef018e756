"""A GPU that is not there: a twin called with its tensors picks its config for it, and launches nothing.

The launcher of a Triton twin decides by shapes, dtypes and the GPU's compute capability which code is compiled. So
the twins themselves are asked, with tensors that have a shape and a place on the GPU but no memory. Nothing has to be
said of a kernel twice.
"""

import contextlib
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map
from triton.backends.compiler import GPUTarget

from warpbench.compiled.architectures import ComputeCapability
from warpbench.machines import machine_named

_DEVICE = torch.device("cuda", 0)
# The GPU whose number of multiprocessors a launcher sees.
_MODELS = {
    (7, 5): "Tesla T4",
    (8, 0): "NVIDIA A100-SXM4-80GB",
    (8, 6): "NVIDIA GeForce RTX 3090",
    (8, 9): "NVIDIA GeForce RTX 4090",
    (9, 0): "NVIDIA H200",
    (12, 0): "NVIDIA GeForce RTX 5090",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialization:
    """One function as a launch wants it compiled: dtypes, constants, divisible arguments, options."""

    function: str
    configuration: str  # dtypes, constants and options alone: what the twin's author chose
    data: str  # all of it, in Triton's own JSON

    def compile(self, gpu: ComputeCapability) -> Any:
        """Triton's CompiledKernel for a GPU. Raises what Triton raises."""
        triton.runtime.driver.set_active(_Driver(gpu))
        module, _, name = json.loads(self.data)["name"].rpartition(".")
        return getattr(importlib.import_module(module), name).preload(self.data)


@contextlib.contextmanager
def pretended_gpu(gpu: ComputeCapability) -> Iterator[list[Specialization]]:
    """Within, torch and Triton see this GPU, and each launch ends in the list instead of on it.

    For a process of its own: Triton's driver stays replaced.
    """
    launches: list[Specialization] = []

    def caught(*, fn: Any, compile: dict[str, Any], **_: Any) -> bool:
        launches.append(
            Specialization(
                function=fn.name,
                configuration=_configuration(fn.jit_function, compile),
                data=compile["specialization_data"],
            )
        )
        return True  # there is nothing left to compile or to launch

    triton.runtime.driver.set_active(_Driver(gpu))
    with contextlib.ExitStack() as stack:
        for name, replacement in _cuda(gpu).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, replacement))
        stack.enter_context(mock.patch.object(triton.knobs.runtime, "jit_cache_hook", caught))
        stack.enter_context(_WithoutMemory())
        yield launches


def _configuration(function: Any, compile: dict[str, Any]) -> str:
    constants = {
        function.params[path[0]].name: value
        for path, value in compile["constants"].items()
        if function.params[path[0]].is_constexpr
    }
    types = [kind for kind in compile["signature"].values() if isinstance(kind, str) and kind.startswith("*")]
    options = {name: compile[name] for name in ("num_warps", "num_ctas", "num_stages")}
    return f"{' '.join(types)} {constants} {options}"


class _Driver:
    """What Triton queries from its driver before it compiles."""

    def __init__(self, gpu: ComputeCapability) -> None:
        self._target = GPUTarget("cuda", 10 * gpu[0] + gpu[1], 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return int(self._target.arch)  # Triton keeps what it compiled by device

    def get_current_stream(self, device: int) -> int:
        return 0


def _cuda(gpu: ComputeCapability) -> dict[str, Callable[..., Any]]:
    """What launchers ask of torch.cuda."""
    machine = machine_named(_MODELS.get(gpu, ""))
    properties = SimpleNamespace(
        major=gpu[0],
        minor=gpu[1],
        multi_processor_count=machine.sm_count if machine else None,
        L2_cache_size=machine.l2_bytes if machine else None,
    )
    return {
        "current_device": lambda: 0,
        "device": contextlib.nullcontext,
        "device_of": contextlib.nullcontext,
        "get_device_capability": lambda device=None: gpu,
        "get_device_properties": lambda device=None: properties,
    }


class _OnGpu(torch.Tensor):
    """A tensor on the meta device that says it is on the GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _DEVICE

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def get_device(self) -> int:
        return 0


class _WithoutMemory(TorchFunctionMode):
    """Every function of torch makes tensors of that kind, whichever device it is given."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = {name: value for name, value in (kwargs or {}).items() if name != "generator"}
        if options.get("device") is not None:
            options["device"] = torch.device("meta")
        with torch._C.DisableTorchFunctionSubclass():
            out = function(*tree_map(_as_meta, args), **tree_map(_as_meta, options))
            return tree_map(_as_on_gpu, out)


def _as_meta(value: Any) -> Any:
    if isinstance(value, _OnGpu):
        return value.as_subclass(torch.Tensor)
    return torch.device("meta") if isinstance(value, torch.device) else value


def _as_on_gpu(value: Any) -> Any:
    is_other = isinstance(value, torch.Tensor) and not isinstance(value, _OnGpu) and value.is_meta
    return value.as_subclass(_OnGpu) if is_other else value
