"""Compiled code of another project's kernels: a library built by nvcc, and Triton for a GPU that is not here."""

import subprocess
import sys
from types import MappingProxyType

import pytest

from warpbench import Case, KernelBenchmark, baseline, kernel
from warpbench.asv_metrics import Cache
from warpbench.compiled.benchmark import CompiledCodeBenchmark
from warpbench.compiled.library_file import NoLibraryError, find_library
from warpbench.compiled.triton_cache import compiled_files, read_triton_cache
from warpbench.jobs import asv_name
from warpbench.protocol import Job, Outcome
from warpbench.records import CompiledRecord, MeasurementRecord, Status, from_line
from warpbench.spool import FOLDER_VARIABLE
from warpbench.worker import is_watched

from ..perf_suite.cuda_sources import needs_nvcc
from ..perf_suite.example_records import RUN_ON_H200 as RUN

OUTCOME = Outcome(
    measurement=MeasurementRecord(
        run=RUN.run, benchmark="b", workload="n8", implementation="triton", status=Status.OK, cache="cold", seed=0
    )
)
SOURCE = """
__global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }
template <typename T> __global__ void __launch_bounds__(128) add_rows(T* x) {
  __shared__ T row[128];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = row[127 - threadIdx.x] + row[threadIdx.x];
}
template __global__ void add_rows<float>(float*);
template __global__ void add_rows<double>(double*);
"""
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def _double(x_ptr, SIZE: tl.constexpr):
    at = x_ptr + tl.arange(0, SIZE)
    tl.store(at, 2 * tl.load(at))
"""


class Operator(KernelBenchmark):
    """One kernel of a library, one that it does not have, one of Triton, and one of a library that is not there."""

    cases = (
        Case("n8", dtype="fp32", tolerance=1e-6, bytes=64, n=8),
        Case("n9", dtype="fp32", tolerance=1e-6, bytes=72),
    )

    def inputs(self, case, draw):
        return {}

    def reference(self):
        return None

    @kernel(library="my_cuda/*.so", kernels=["scale", "add_.*"])
    def cuda(self):
        raise ImportError

    @kernel(library="my_cuda/*.so", kernels="multiply_.*")
    def renamed(self):
        raise ImportError

    @kernel(library="my_cuda/gone.so", kernels=["gone"])
    def gone(self):
        raise ImportError

    @kernel(kernels=["_double"])
    def triton(self):
        raise ImportError


class Compared(Operator):
    """An operator with two baselines, one of which names its kernels."""

    @baseline(kernels=["triton_.*"])
    def compiled(self):
        raise ImportError

    @baseline
    def eager(self):
        raise ImportError


class Code(CompiledCodeBenchmark):
    """Its compiled code."""

    kinds = MappingProxyType({"operator": Operator})
    architectures = ("sm_80", "sm_90a")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder for sys.path with a package that has a CUDA library."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "my_cuda").mkdir()
    (folder / "my_cuda/__init__.py").touch()
    (folder / "kernels.cu").write_text(SOURCE)
    command = ["nvcc", "-arch=sm_90", "-Xcompiler", "-fPIC", "-shared", "-o", "my_cuda/_C.so", "kernels.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def read(cache, *, only=None):
    """The code, and what setup_cache would hold."""
    asked = [(name, architecture) for name in Code.params[0] for architecture in Code.params[1]]
    name = asv_name(Code)
    cache.code[name] = Code.read_code(name, cache, only or asked)
    return Code()


def records(folder):
    """The compiled records in the spool."""
    lines = [from_line(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
    return {(each.kernel, each.architecture): each for each in lines if isinstance(each, CompiledRecord)}


@needs_nvcc
def test_the_kernels_of_a_library_have_our_metrics_and_records(library, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    cache = Cache(RUN, {}, {})
    code = read(cache)
    assert code.params == (["scale", "add_.*", "multiply_.*", "gone", "_double"], ["sm_80", "sm_90a"])
    code.setup(cache, "add_.*", "sm_90a")
    assert code.track_shared_memory(cache, "add_.*", "sm_90a") == 128 * 8
    assert code.track_registers(cache, "scale", "sm_90a") >= 8
    assert code.track_instructions(cache, "add_.*", "sm_90a") > code.track_instructions(cache, "scale", "sm_90a") > 4
    assert code.track_local_memory_instructions(cache, "scale", "sm_90a") == 0
    assert code.track_registers.unit == "registers"
    written = records(tmp_path)
    assert written.keys() == {("scale", "sm_90a"), ("add_rows", "sm_90a")}
    assert (written["add_rows", "sm_90a"].operator, written["add_rows", "sm_90a"].implementation) == (
        "operator",
        "cuda",
    )
    assert written["add_rows", "sm_90a"].instantiations == 2
    assert len(written["scale", "sm_90a"].sha256) == 64


@needs_nvcc
def test_what_is_missing_is_named_with_its_fix(library, monkeypatch):
    monkeypatch.syspath_prepend(str(library))
    cache = Cache(RUN, {}, {})
    code = read(cache)
    for name, words in {
        "multiply_.*": r"'multiply_\.\*' of Operator\.renamed matches no kernel of .*_C\.so, which has add_rows, scale",
        "gone": r"library 'my_cuda/gone\.so' is not found: .*build the project, or correct library=",
    }.items():
        with pytest.raises(NotImplementedError, match=words):
            code.setup(cache, name, "sm_90a")
    with pytest.raises(NotImplementedError, match=r"_C\.so has no 'scale' for this architecture"):
        code.setup(cache, "scale", "sm_80")


def test_a_library_of_another_commit_than_asvs_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "my_cuda").mkdir()
    (tmp_path / "my_cuda/_C.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_library("my_cuda/_C*.so") == tmp_path / "my_cuda/_C.so"
    monkeypatch.setenv("ASV_ENV_DIR", str(tmp_path / "env"))
    with pytest.raises(NoLibraryError, match="which is not in asv's environment"):
        find_library("my_cuda/_C*.so")


@pytest.fixture(scope="module")
def triton_files(tmp_path_factory):
    """What Triton compiles for an H100 in a process of its own, which sees no GPU, and loads again."""
    pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    folder = tmp_path_factory.mktemp("triton")
    (folder / "kernels_of_a_project.py").write_text(KERNELS)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_CACHE_DIR", str(folder / "cache"))
        environment.syspath_prepend(str(folder))
        from kernels_of_a_project import _double

        found = []
        for _ in range(2):
            with compiled_files() as files:
                for size in (64, 2048):
                    source = ASTSource(_double, {"x_ptr": "*fp32", "SIZE": "constexpr"}, {(1,): size})
                    compile(source, target=GPUTarget("cuda", 90, 32))
            found.append(files)
    del sys.modules["kernels_of_a_project"]
    assert found[0] == found[1]  # a kernel that lies in the cache is heard of too
    return frozenset(found[0])


def test_triton_kernels_compiled_in_the_run_have_the_same_metrics(triton_files, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    outcomes = {(Operator.source(), name, "triton"): OUTCOME for name in ("n8", "n9")}
    cache = Cache(RUN, outcomes, {(Operator.source(), "triton"): triton_files})
    code = read(cache, only=[("_double", "sm_80"), ("_double", "sm_90a")])
    code.setup(cache, "_double", "sm_90a")
    assert code.track_registers(cache, "_double", "sm_90a") >= 8
    assert 0 < code.track_occupancy(cache, "_double", "sm_90a") <= 1
    (record,) = records(tmp_path).values()
    assert (record.kernel, record.architecture, record.implementation) == ("_double", "sm_90a", "triton")
    assert record.instantiations == 2
    assert record.threads_per_block == 128
    with pytest.raises(NotImplementedError, match="has no '_double' for this architecture"):
        code.setup(cache, "_double", "sm_80")


def test_of_baselines_those_are_watched_that_name_kernels():
    workload = Compared.workloads()[0]
    watched = {
        name: is_watched(Job(benchmark="b", workload=workload, implementation=name))
        for name in ("triton", "cuda", "compiled", "eager")
    }
    assert watched == {"triton": True, "cuda": True, "compiled": True, "eager": False}


def test_torch_compile_takes_no_graph_from_its_caches_while_triton_is_watched():
    pytest.importorskip("triton")
    inductor = pytest.importorskip("torch._inductor.config")
    functorch = pytest.importorskip("torch._functorch.config")
    before = inductor.fx_graph_cache, functorch.enable_autograd_cache
    with compiled_files():
        assert (inductor.fx_graph_cache, functorch.enable_autograd_cache) == (False, False)
    assert (inductor.fx_graph_cache, functorch.enable_autograd_cache) == before


def test_a_triton_kernel_of_which_a_case_was_not_measured_has_no_number(triton_files):
    outcomes = {(Operator.source(), "n8", "triton"): OUTCOME}
    cache = Cache(RUN, outcomes, {(Operator.source(), "triton"): triton_files})
    code = read(cache, only=[("_double", "sm_90a")])
    with pytest.raises(NotImplementedError, match="n9 of operator was not measured by triton in this run"):
        code.setup(cache, "_double", "sm_90a")


def test_a_file_that_the_cache_has_dropped_is_left_out(triton_files, tmp_path):
    assert len(read_triton_cache([tmp_path / "gone.json"])) == 0


def test_what_cannot_be_read_is_refused_where_it_is_written():
    with pytest.raises(ValueError, match=r"library='a\.so' needs kernels="):
        kernel(library="a.so")
    with pytest.raises(ValueError, match=r"kernels='rms\(' is no regular expression"):
        kernel(kernels=["rms("])
    with pytest.raises(TypeError, match=r"Nothing has nothing to read: name kernels, as in @kernel\(kernels="):

        class Nothing(CompiledCodeBenchmark):
            kinds = MappingProxyType({})
