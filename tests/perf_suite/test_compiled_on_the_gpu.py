"""Facts of compiled code found without a GPU, compared with the GPU: its driver's numbers, and what Triton compiles."""

import contextlib
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from perf_suite.catalogue import workload_named, workloads_of
from perf_suite.compiled.watched_kernels import operator_of, watched_operators
from warpbench.compiled.architectures import architecture_run_by
from warpbench.compiled.cubin import read_cubin
from warpbench.compiled.cuda_binaries import cubins_of, find_tools
from warpbench.compiled.mangled_names import kernel_name, launch_shape
from warpbench.compiled.occupancy import occupancy
from warpbench.operators import make_inputs, prepare
from warpwatch.kernels.extension import extension_path

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")]

ROOT = Path(__file__).resolve().parents[2]
PRETEND = """
import sys
import torch
from warpbench.compiled.cubin import read_cubin
from warpbench.operators import prepare
from warpbench.operators import make_inputs
from perf_suite.compiled.twins.under_triton.pretended_gpu import pretended_gpu
from perf_suite.catalogue import workload_named
gpu, operator = (int(sys.argv[1]), int(sys.argv[2])), sys.argv[3]
with pretended_gpu(gpu) as launches:
    for name in sys.argv[4:]:
        workload = workload_named(operator, name)
        prepare(workload, "triton", make_inputs(workload, torch.Generator())).run()
for launch in launches:
    print(*(function.sha256 for function in read_cubin(launch.compile(gpu).asm["cubin"])))
"""


def test_the_driver_agrees_on_what_each_kernel_needs_and_how_many_blocks_fit():
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    torch.zeros(1, device="cuda")  # makes PyTorch's context the current one
    gpu = torch.cuda.get_device_capability()
    cubins = cubins_of(extension_path(), find_tools())
    architecture = architecture_run_by(gpu, {cubin.architecture for cubin in cubins})
    assert architecture is not None, "the library has no machine code for this GPU"

    def checked(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result
        return result[1] if len(result) > 1 else None

    attribute = driver.CUfunction_attribute
    seen = 0
    for cubin in (cubin for cubin in cubins if cubin.architecture == architecture):
        module = checked(driver.cuModuleLoadData(cubin.data))
        for function in read_cubin(cubin.data):
            handle = checked(driver.cuModuleGetFunction(module, function.name.encode()))
            number = {
                name: checked(driver.cuFuncGetAttribute(getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}"), handle))
                for name in ("NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
            }
            assert function.registers == number["NUM_REGS"]
            assert function.shared_bytes == number["SHARED_SIZE_BYTES"]
            assert (function.stack_bytes > 0) == (number["LOCAL_SIZE_BYTES"] > 0)
            shape = launch_shape(function.name)
            threads = shape.threads if shape else function.most_threads
            assert threads <= number["MAX_THREADS_PER_BLOCK"]
            dynamic = shape.dynamic_shared_bytes if shape else 0
            most_dynamic = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(driver.cuFuncSetAttribute(handle, most_dynamic, dynamic))
            blocks = checked(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, dynamic))
            ours = occupancy(
                gpu,
                threads=threads,
                registers=function.registers,
                shared_bytes=function.shared_bytes + dynamic,
                barriers=function.barriers,
            )
            assert (kernel_name(function.name), ours.blocks) == (kernel_name(function.name), blocks)
            seen += operator_of(kernel_name(function.name)) is not None
        checked(driver.cuModuleUnload(module))
    assert seen > 0


def _twin(operator, function):
    """A Triton function of the operator's twin, or of the module that has its name."""
    for module in (operator, function.removeprefix("_")):
        with contextlib.suppress(ModuleNotFoundError, AttributeError):
            return getattr(importlib.import_module(f"warpwatch.kernels.triton.{module}"), function)
    raise AttributeError(f"no Triton function {function} of {operator}")


@pytest.mark.parametrize("operator", list(watched_operators()))
def test_a_pretended_gpu_gets_the_code_that_this_gpu_gets(operator, tmp_path):
    rows = [row for row in workloads_of(operator) if row.device == "cuda" and "triton" in row.implementations]
    names = [row.name for row in sorted(rows, key=lambda row: row.cost.bytes)[:3]]
    functions = [_twin(operator, name) for name in watched_operators()[operator].twins]
    for function in functions:
        function.device_caches.clear()
    for name in names:
        workload = workload_named(operator, name)
        generator = torch.Generator("cuda").manual_seed(1)
        prepare(workload, "triton", make_inputs(workload, generator)).run()
    torch.cuda.synchronize()
    ran = {
        compiled.sha256
        for function in functions
        for kernels, *_ in function.device_caches.values()
        for kernel in kernels.values()
        for compiled in read_cubin(kernel.asm["cubin"])
    }
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "CUDA_VISIBLE_DEVICES": "",
        "TRITON_CACHE_DIR": str(tmp_path),
    }
    gpu = map(str, torch.cuda.get_device_capability())
    pretended = subprocess.run(
        [sys.executable, "-c", PRETEND, *gpu, operator, *names], env=environment, capture_output=True, text=True
    )
    assert pretended.returncode == 0, pretended.stderr
    assert set(pretended.stdout.split()) == ran
