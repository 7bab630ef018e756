"""The online softmax of the CUDA kernels, from flash_attention_softmax.cuh itself, on a CPU and against float64."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from warpwatch.kernels.building.toolchain import find_cuda

from .test_flash_attention import TOLERANCE
from .test_large_scores import SIZES

ROOT = Path(__file__).resolve().parents[2]
DTYPES = {"half": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler, cuda = shutil.which("g++"), find_cuda()
    if compiler is None or cuda is None:
        pytest.skip("no g++ here, or no CUDA headers")
    to = tmp_path_factory.mktemp("softmax") / "softmax_arithmetic"
    source = Path(__file__).with_name("softmax_arithmetic.cpp")
    folders = ["-I", str(ROOT / "kernels/csrc"), "-isystem", str(cuda.include)]
    # No fma but those that the source requests, as nvcc makes of __fmul_rn and fmaf.
    command = [compiler, "-std=c++20", "-O1", "-ffp-contract=off", "-w", *folders, str(source), "-o", str(to)]
    subprocess.run(command, check=True)
    return to


@pytest.fixture(params=["step", "split"])
def step(request: pytest.FixtureRequest) -> str:
    """OnlineSoftmax::step, and SplitSoftmax, its two halves of sm_90a."""
    return str(request.param)


def check(program: Path, step: str, dtype: str, scores: torch.Tensor, scale: float) -> None:
    scores, values = scores.float(), torch.randn(len(scores))
    lines = "".join(f"{s!r} {v!r}\n" for s, v in zip(scores.tolist(), values.tolist(), strict=True))
    command = [str(program), step, dtype, repr(scale)]
    out, lse = map(
        float, subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.split()
    )
    scaled = scores.double() * torch.tensor(scale).double()
    expected = torch.softmax(scaled, 0) @ values.double()
    assert out == pytest.approx(float(expected), abs=TOLERANCE[DTYPES[dtype]])
    assert lse == pytest.approx(float(scaled.logsumexp(0)), rel=2e-7, abs=1e-5)


@pytest.mark.parametrize("count", [2, 64, 333])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("size", "scale"), [*SIZES, (1e5, 0.125), (1e19, 1.0), (1.8e19, 1.0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_scores(
    dtype: str, size: float, scale: float | None, sign: int, count: int, step: str, program: Path
) -> None:
    check(program, step, dtype, torch.full((count,), sign * size * size), scale or 0.125)


@pytest.mark.parametrize("order", ["as drawn", "rising", "falling"])
@pytest.mark.parametrize(
    "center", [2.0**10, 2.0**20, 2.0**23, 2.0**24, -(2.0**24), 2.0**24 / 1.4427, -(2.0**26), 2.0**27, 2.0**28 / 1.4427]
)
@pytest.mark.parametrize("scale", [0.125, 0.6931, 1.0])
def test_small_differences_around_a_large_score(
    scale: float, center: float, order: str, step: str, program: Path
) -> None:
    scores = center + 8.0 * torch.randint(-12, 13, (500,))  # exact in fp32 below 2^27
    scores = scores if order == "as drawn" else scores.sort(descending=order == "falling").values
    check(program, step, "half", scores, scale)


@pytest.mark.parametrize("largest", [1.0, 1e3, 1e6, 1e9, 1e12, 1e30, 3e38])
def test_random_scores_of_which_some_are_hidden(largest: float, step: str, program: Path) -> None:
    scores = (torch.rand(400) * 2 - 1) * largest
    scores[::7] = -torch.inf
    scores[:130] = -torch.inf  # whole tiles
    for each in (scores, scores.flip(0), scores.sort().values):
        check(program, step, "bfloat16", each, 1.0)


def test_a_row_that_sees_nothing_gives_zero(step: str, program: Path) -> None:
    command = [str(program), step, "half", "1.0"]
    done = subprocess.run(command, input="-inf 1\n" * 100, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "-inf"]
