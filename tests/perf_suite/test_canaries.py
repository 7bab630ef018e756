"""The canaries: PTX that is what its source says, that every GPU since Turing takes, and that computes rightly."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from perf_suite.catalogue import workloads_of
from warpbench.canaries import launch, ptx
from warpbench.operators import make_inputs, prepare
from warpbench.prepared import UnavailableError

ROWS = [workload for workload in workloads_of("control") if workload.device == "cuda"]
GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
on_the_gpu = pytest.mark.parametrize(
    "workload", [pytest.param(workload, marks=GPU, id=workload.name) for workload in ROWS]
)


@pytest.mark.parametrize("source", ptx.SOURCES, ids=lambda source: source.name)
def test_the_committed_ptx_is_what_its_source_compiles_to(source):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    committed = source.with_suffix(".ptx").read_text()
    written_by = ptx.compiler_release(committed)
    compiled = ptx.compiled(source, nvcc)
    if ptx.compiler_release(compiled) != written_by:
        pytest.skip(f"another nvcc than the one that wrote it: {ptx.compiler_release(compiled)}, not {written_by}")
    assert compiled == committed


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"])
@pytest.mark.parametrize("source", ptx.SOURCES, ids=lambda source: source.name)
def test_every_architecture_since_turing_assembles_it_without_a_spill(source, architecture, tmp_path):
    ptxas = _tool("ptxas")
    command = [ptxas, f"-arch={architecture}", "-v", "-o", tmp_path / "out.cubin", source.with_suffix(".ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr


def test_the_matmul_runs_on_the_tensor_cores_of_the_oldest_and_the_newest_architecture(tmp_path):
    for architecture in ("sm_75", "sm_120"):
        cubin = tmp_path / f"{architecture}.cubin"
        command = [_tool("ptxas"), f"-arch={architecture}", "-o", cubin, ptx.FOLDER / "matmul.ptx"]
        subprocess.run(command, check=True)
        code = subprocess.run([_tool("cuobjdump"), "-sass", cubin], check=True, capture_output=True, text=True).stdout
        assert code.count("HMMA.1688.F32") == 4 * 16  # four steps of k, 4 x 4 fragments


@on_the_gpu
def test_a_canary_is_right_on_every_stream_and_in_a_graph(workload):
    inputs = make_inputs(workload, torch.Generator("cuda").manual_seed(workload.seed))
    run = prepare(workload, "canary", inputs).run
    assert _relative_error(run(), inputs.expected()) < workload.tolerance

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # work on another stream would be done before this one's inputs are
        inputs.activations()[0].neg_()
        out = run()
    stream.synchronize()
    assert _relative_error(out, inputs.expected()) < workload.tolerance

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    inputs.activations()[0].mul_(0.5)
    out.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert _relative_error(out, inputs.expected()) < workload.tolerance


def test_a_shape_that_does_not_fill_its_tiles_is_refused():
    with pytest.raises(ValueError, match="multiple of 1024 elements, got 1025"):
        launch.triad(torch.ones(1025), torch.ones(1025), 3.0)
    with pytest.raises(ValueError, match="got 128, 64 and 32"):
        launch.matmul(torch.ones(128, 32), torch.ones(64, 32))


def test_without_the_driver_api_a_canary_is_unavailable(monkeypatch):
    launch._driver.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(UnavailableError, match="pip install cuda-bindings"):
        launch.load()
    launch._driver.cache_clear()


def _relative_error(out: torch.Tensor, answer: torch.Tensor) -> float:
    return float((out.double() - answer).norm() / answer.norm())


def _tool(name: str) -> str:
    """Triton's own, else CUDA's; the test is skipped without."""
    triton = pytest.importorskip("triton")
    own = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} comes with Triton or CUDA; neither is here")
    return found
