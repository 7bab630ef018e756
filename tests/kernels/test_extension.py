"""The extension from Python's side: found without torch, and missed with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from warpwatch import kernels
from warpwatch.kernels import extension


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_path_is_found_without_importing_torch() -> None:
    program = (
        "import sys; from warpwatch import kernels; print(kernels.extension_path()); print('torch' in sys.modules)"
    )
    path, torch_imported = run(program).splitlines()
    assert Path(path) == kernels.extension_path()
    assert torch_imported == "False"


def test_every_public_name_is_there() -> None:
    for name in kernels.__all__:
        assert callable(getattr(kernels, name)), name
    assert dir(kernels) == sorted(kernels.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sope'"):
        kernels.sope  # noqa: B018


@pytest.fixture
def _not_built(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(extension, "_FILE", "_absent.abi3.so")
    extension._loaded.cache_clear()
    yield
    extension._loaded.cache_clear()


@pytest.mark.usefixtures("_not_built")
def test_a_missing_extension_is_noticed_at_the_call_with_the_command_that_builds_it() -> None:
    assert extension.extension_path() is None
    operator = extension.load_operator("rope")
    with pytest.raises(RuntimeError, match="rope: the kernels are not built; run `pip install -e"):
        operator(torch.zeros(1), scale=2)


def test_a_compute_capability_the_gpu_cannot_play_is_refused(cuda: str) -> None:
    program = f"""
import torch
from warpwatch import kernels
x = torch.zeros(1, 1, 64, 64, dtype=torch.float16, device={cuda!r})
try:
    kernels.flash_attention(x, x, x)
except RuntimeError as refusal:
    print(refusal)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "WARPWATCH_COMPUTE_CAPABILITY": "990"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "WARPWATCH_COMPUTE_CAPABILITY=990 must be a number such as 75 or 80, and no more than" in done.stdout


def test_an_operator_the_extension_lacks_is_noticed_at_the_call() -> None:
    operator = extension.load_operator("newer_than_the_build")
    with pytest.raises(RuntimeError, match=r"newer_than_the_build: the extension at .*_C.abi3.so does not have it"):
        operator(torch.zeros(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernels.rope(torch.randn(1, 1, 4, 8), torch.rand(4, 4, device="meta"), torch.rand(4, 4)),
        lambda: kernels.int4_linear(
            torch.randn(1, 128), torch.zeros(1, 2, 512, dtype=torch.uint8, device="meta"), torch.rand(4, 1)
        ),
        lambda: kernels.flash_attention(
            torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8, device="meta")
        ),
    ],
    ids=["rope", "int4_linear", "flash_attention"],
)
def test_a_weight_that_was_never_loaded_is_refused_not_computed_with(call):
    with pytest.raises(RuntimeError, match=r"must be on one device: \w+ is on cpu, \w+ on meta"):
        call()
