"""Runs the canaries on PyTorch's memory and current stream, through the driver API."""

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch

from ..prepared import UnavailableError

_FOLDER = Path(__file__).resolve().parent
_THREADS = 256  # of a block, in both
_TRIAD_ELEMENTS = 4 * _THREADS  # of a block
_MATMUL_TILE = 128  # rows and columns of a block
_MATMUL_DEPTH = 32  # staged at a time
_NEEDS = (7, 5)  # compute capability


def load() -> None:
    """Have the driver compile both for the current GPU. Raises UnavailableError if that cannot be."""
    _driver()
    for name in ("triad", "matmul"):
        _kernel(name, torch.cuda.current_device())


def triad(b: torch.Tensor, c: torch.Tensor, scale: float) -> torch.Tensor:
    """b + scale * c. b, c: contiguous fp32, a multiple of 1024 elements."""
    if b.numel() % _TRIAD_ELEMENTS:
        raise ValueError(f"the triad takes a multiple of {_TRIAD_ELEMENTS} elements, got {b.numel()}")
    out = torch.empty_like(b)
    _launch("triad", (b.numel() // _TRIAD_ELEMENTS, 1), b, c, out, ctypes.c_float(scale))
    return out


def matmul(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x weight^T. x (M, K), weight (N, K): contiguous fp16, M and N multiples of 128, K of 32; out (M, N) fp16."""
    (rows, depth), outputs = x.shape, weight.shape[0]
    if rows % _MATMUL_TILE or outputs % _MATMUL_TILE or depth % _MATMUL_DEPTH:
        raise ValueError(f"the matmul takes M and N by the 128 and K by the 32, got {rows}, {outputs} and {depth}")
    out = x.new_empty(rows, outputs)
    _launch("matmul", (outputs // _MATMUL_TILE, rows // _MATMUL_TILE), x, weight, out, ctypes.c_int(depth))
    return out


def _launch(name: str, grid: tuple[int, int], *arguments: Any) -> None:
    driver = _driver()
    first = arguments[0]
    values = tuple(a.data_ptr() if isinstance(a, torch.Tensor) else a.value for a in arguments)
    types = tuple(ctypes.c_void_p if isinstance(a, torch.Tensor) else type(a) for a in arguments)
    stream = driver.CUstream(torch.cuda.current_stream(first.device).cuda_stream)
    kernel = _kernel(name, first.device.index)
    _answer(driver.cuLaunchKernel(kernel, *grid, 1, _THREADS, 1, 1, 0, stream, (values, types), 0))


@functools.cache
def _kernel(name: str, device: int) -> Any:
    """The loaded function; its module stays for as long as the process does."""
    driver = _driver()
    with torch.cuda.device(device):
        torch.cuda.synchronize()  # makes PyTorch's context the one that the module is loaded into
        capability = torch.cuda.get_device_capability()
        if capability < _NEEDS:
            raise UnavailableError(
                f"the canaries need compute capability 7.5, this GPU has {'.'.join(map(str, capability))}"
            )
        ptx = (_FOLDER / f"{name}.ptx").read_bytes() + b"\0"
        module = _answer(driver.cuModuleLoadData(ptx))
        return _answer(driver.cuModuleGetFunction(module, f"canary_{name}".encode()))


@functools.cache
def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as missing:
        raise UnavailableError(
            f"the canaries are launched through cuda.bindings ({missing}): pip install cuda-bindings"
        ) from missing
    return driver


def _answer(returned: Any) -> Any:
    """What a driver function returned besides its status. Raises RuntimeError with a status other than success."""
    status, *values = returned
    if int(status):
        raise RuntimeError(f"the CUDA driver answered {status!r} to a canary")
    return values[0] if values else None
