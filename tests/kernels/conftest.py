"""Where the kernels' tests run: on the CPU everywhere, on the GPU where there is one."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

_NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
CUDA = pytest.param("cuda", marks=[pytest.mark.gpu, _NO_GPU])

Twin = Callable[..., torch.Tensor]


# Without a GPU there are no items for it: to collect 8,000 that are deselected takes each process four CPU seconds.
@pytest.fixture(params=["cpu", CUDA] if torch.cuda.is_available() else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Each device there is."""
    return str(request.param)


@pytest.fixture(params=[CUDA])
def cuda(request: pytest.FixtureRequest) -> str:
    """The GPU, for what only it does."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def twin(device: str, _interpreter: ProcessPoolExecutor) -> Callable[..., Twin]:
    """twin("rope") is the Triton version of rope: compiled on the GPU, interpreted on the CPU.

    twin("rms_norm", "add_rms_norm") is another function of the same module.
    """

    def find(module: str, name: str | None = None) -> Twin:
        function: Twin = getattr(importlib.import_module(f"warpwatch.kernels.triton.{module}"), name or module)
        if device == "cuda":
            return function

        def interpret(*arguments: Any, **options: Any) -> torch.Tensor:
            return _interpreter.submit(function, *arguments, **options).result()

        return interpret

    return find


@pytest.fixture(scope="session")
def _interpreter() -> Iterator[ProcessPoolExecutor]:
    # Triton decides at import whether it interprets. A process of its own keeps that from every other test, and from
    # the programs they start.
    pytest.importorskip("triton", reason="Triton is not installed")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TRITON_INTERPRET", "1")
            # The threads of NumPy's BLAS spin while they wait; tiles are too small to share out.
            environment.setenv("OPENBLAS_NUM_THREADS", "1")
            pool.submit(int).result()  # the process starts here, and keeps this environment
        yield pool
