"""Reading the built library, and the list of watched kernels against it."""

import _ctypes
import itertools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from perf_suite.benchmarks.compiled_code import CompiledCode
from perf_suite.compiled.watched_kernels import ARCHITECTURES, operator_of, watched_operators
from warpbench.compiled.architectures import compute_capability_of
from warpbench.compiled.cubin import read_cubin
from warpbench.compiled.cuda_binaries import NoToolsError, cubins_of, find_tools, ptx_of
from warpbench.compiled.machine_code import read_machine_code
from warpbench.compiled.mangled_names import kernel_name
from warpbench.records import CompiledRecord, from_line
from warpbench.spool import FOLDER_VARIABLE
from warpwatch.kernels.extension import extension_path

from .cuda_sources import needs_nvcc, object_file

pytestmark = pytest.mark.outside

SOURCES = Path(__file__).resolve().parents[2] / "kernels/csrc"


@pytest.fixture(scope="module")
def tools():
    try:
        return find_tools()
    except NoToolsError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def recorded(tools, tmp_path_factory):
    """All of the built library as asv's class reads it, once for this file, and the file of records that it left."""
    if extension_path() is None:
        pytest.skip("the kernels are not built")
    folder = tmp_path_factory.mktemp("spool")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(FOLDER_VARIABLE, str(folder))
        cache = CompiledCode().setup_cache()
    if not cache.found:
        pytest.skip("the kernels were built without CUDA")
    (file,) = folder.iterdir()
    return cache, file


@pytest.fixture(scope="module")
def kernels(recorded):
    cache, _ = recorded
    return tuple(cache.found.values())


def values(benchmark, cache, method):
    found = {}
    for combination in itertools.product(*benchmark.params):
        try:
            benchmark.setup(cache, *combination)
            found[combination] = getattr(benchmark, method)(cache, *combination)
        except NotImplementedError:
            assert cache.why_not(*combination)
    return found


def test_the_built_library_becomes_numbers_and_records(recorded):
    cache, file = recorded
    benchmark = CompiledCode()
    methods = [name for name in dir(benchmark) if name.startswith("track_")]
    assert {getattr(benchmark, name).unit for name in methods} == {
        "registers",
        "instructions",
        "bytes",
        "barriers",
        "share",
    }
    for method in methods:
        found = values(benchmark, cache, method)
        assert set(found) == set(cache.found), f"{method} is not known of every kernel"
        json.dumps(list(found.values()), allow_nan=False)
    run, *records = [from_line(line) for line in file.read_text().splitlines()]
    assert run.device == "cpu"
    assert "cuobjdump" in run.software
    assert {type(record) for record in records} == {CompiledRecord}
    assert {(record.kernel, record.architecture) for record in records} == set(cache.found)
    assert {record.benchmark for record in records} == {"benchmarks.compiled_code.CompiledCode"}
    assert {record.operator for record in records} <= set(watched_operators())
    assert len(file.read_bytes()) < 1500 * len(records), "a committed run stays small"


def test_every_kernel_has_registers_instructions_and_a_launch_that_is_known(kernels):
    for code in kernels:
        assert 0 < code.registers <= 255
        assert code.instructions["total"] == sum(n for name, n in code.instructions.items() if name != "total")
        assert code.instructions["EXIT"] >= code.instantiations >= 1
        assert code.code_bytes == 16 * code.instructions["total"]
        spills = code.instructions.get("LDL", 0) + code.instructions.get("STL", 0)
        assert code.local_memory_instructions == spills
        assert 4 * spills <= code.local_memory_bytes <= 16 * spills
        assert code.threads_per_block is not None, f"{code.kernel} wants __launch_bounds__"
        assert code.dynamic_shared_bytes is not None, f"{code.kernel} wants a LaunchShape: kernels/README.md"
        assert 0 <= code.occupancy <= 1
        # Compiled with the other sm_80 sources, taken on sm_80 and sm_90 alone: those GPUs do not hold all tiles.
        if "_tf32_" not in code.kernel or code.architecture not in ("sm_86", "sm_89", "sm_120"):
            assert code.occupancy > 0
        assert code.occupancy_limit


def test_the_launch_of_a_kernel_with_dynamic_shared_memory_is_that_of_its_tiles(kernels):
    """Of head_dim 256, (64 queries + 2 x 64 keys) x 256 halves on sm_80 and newer."""
    by_name = {(code.kernel, code.architecture): code for code in kernels}
    for architecture in {architecture for _, architecture in by_name}:
        if compute_capability_of(architecture) >= (8, 0):
            attention = by_name["flash_attention_sm80_kernel", architecture]
            assert (attention.threads_per_block, attention.dynamic_shared_bytes) == (128, 192 * 2 * 256)


def test_the_hash_distinguishes_kernels_and_generations_and_does_not_change_by_itself(kernels, tools):
    hashes = {(code.kernel, code.architecture): code.sha256 for code in kernels}
    for architecture in {code.architecture for code in kernels}:
        here = [code.sha256 for code in kernels if code.architecture == architecture]
        assert len(set(here)) == len(here)
    # sm_86 and sm_89 may get the same instructions; a Turing and a Hopper never do
    for kernel in {kernel for kernel, architecture in hashes if architecture == "sm_75"}:
        assert hashes[kernel, "sm_75"] != hashes.get((kernel, "sm_90a"))
    again = read_machine_code(
        extension_path(), tools, ["sm_75"], is_wanted=lambda kernel: operator_of(kernel) == "rope"
    )
    assert {(code.kernel, code.architecture): code.sha256 for code in again}.items() <= hashes.items()


def test_what_is_watched_is_what_there_is(kernels, tools):
    cubins = cubins_of(extension_path(), tools)
    built = {kernel_name(function.name) for cubin in cubins for function in read_cubin(cubin.data)}
    watched = {kernel for each in watched_operators().values() for kernel in each.kernels}
    assert built - watched == set(), "add them to `watched` of the benchmark class"
    if set(ARCHITECTURES) <= {code.architecture for code in kernels}:
        assert watched - built == set(), "`watched` of a benchmark names these"
    sources = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.cu")}
    assert {source for each in watched_operators().values() for source in each.sources} == sources


def test_each_kernel_belongs_to_one_operator():
    names = [kernel for each in watched_operators().values() for kernel in each.kernels + each.twins]
    assert len(set(names)) == len(names)
    assert operator_of("rope_pairs") == "rope"
    assert operator_of("_rope") == "rope"
    assert operator_of("a_kernel_of_another_library") is None


def test_every_cubin_of_the_library_is_read_under_its_own_architecture(tools, kernels):
    cubins = cubins_of(extension_path(), tools)
    # A library of all architectures has no code for sm_89, which runs sm_86's.
    assert {cubin.architecture for cubin in cubins} >= {code.architecture for code in kernels} - {"sm_89"}
    assert "sm_90" not in {cubin.architecture for cubin in cubins}, "sm_90a, whose files cuobjdump calls sm_90"
    assert all(
        b".entry" in ptx.data and ptx.architecture.startswith("compute_") for ptx in ptx_of(extension_path(), tools)
    )


def test_a_library_built_for_the_cpu_alone_has_no_kernels(tools):
    library = Path(_ctypes.__file__)
    assert read_machine_code(library, tools, ARCHITECTURES, is_wanted=lambda kernel: True) == ()


@needs_nvcc
def test_a_gpu_without_code_of_its_own_is_read_with_the_code_that_it_takes(tmp_path, tools):
    library = object_file("__global__ void __launch_bounds__(128) bound(float* x) { x[0] = 1; }", "sm_86", tmp_path)
    found = read_machine_code(library, tools, ARCHITECTURES, is_wanted=lambda kernel: True)
    assert {code.architecture: code.sha256 for code in found}.keys() == {"sm_86", "sm_89"}
    assert found[0].sha256 == found[1].sha256
    assert found[0].occupancy == found[1].occupancy == 1.0


def functions(source: Path, flags: Sequence[str], folder: Path) -> dict[str, bytes]:
    command = ["nvcc", "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Ikernels/csrc", "-DWARPWATCH_WITH_CUDA=1"]
    cubin = folder / "one.cubin"
    subprocess.run([*command, *flags, "-cubin", "-o", cubin, source], cwd=SOURCES.parents[1], check=True)
    return {function.name: function.code for function in read_cubin(cubin.read_bytes())}


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "own", "taken"),
    [
        ("int8_weight_linear/int8_weight_linear_sm80.cu", "compute_80,code=sm_89", "compute_80,code=sm_86"),
        ("flash_attention/flash_attention_packed_sm80.cu", "compute_90a,code=sm_90a", "compute_80,code=sm_90a"),
    ],
    ids=["sm_89 runs sm_86's", "sm_90a from compute_80's form"],
)
def test_the_code_that_the_build_spares_would_be_the_same(source, own, taken, tmp_path):
    """kernels/building/architectures.py says which; one source of each, for compilation takes seconds."""
    assert functions(SOURCES / source, [f"-gencode=arch={own}"], tmp_path) == functions(
        SOURCES / source, [f"-gencode=arch={taken}"], tmp_path
    )


@needs_nvcc
def test_occupancy_is_unknown_where_a_launch_is_unknown_and_nowhere_else(tmp_path, tools):
    source = """
template <int Threads, int Bytes> struct LaunchShape {};
template <class Shape> __global__ void __launch_bounds__(128) with_shape(float* x) {
  extern __shared__ float s[]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[0] = s[127 - threadIdx.x];
}
__global__ void __launch_bounds__(128) without_shape(float* x) {
  extern __shared__ float s[]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[0] = s[127 - threadIdx.x];
}
__global__ void boundless(float* x) { x[threadIdx.x] = 1; }
__global__ void __launch_bounds__(128) bound(float* x) { x[threadIdx.x] = 1; }
void launch(float* x) {
  with_shape<LaunchShape<96, 40000>><<<1, 96, 40000>>>(x);
  without_shape<<<1, 128, 512>>>(x);
  boundless<<<1, 32>>>(x);
  bound<<<1, 128>>>(x);
}
"""
    library = object_file(source, "sm_90a", tmp_path)
    found = read_machine_code(library, tools, ["sm_90a"], is_wanted=lambda kernel: True)
    by_name = {code.kernel: code for code in found}
    with_shape = by_name["with_shape"]
    # 228 KB hold five blocks of 40000 bytes and 1 KB each
    assert (with_shape.threads_per_block, with_shape.dynamic_shared_bytes, with_shape.occupancy) == (
        96,
        40000,
        5 * 3 / 64,
    )
    assert (by_name["without_shape"].dynamic_shared_bytes, by_name["without_shape"].occupancy) == (None, None)
    assert (by_name["boundless"].threads_per_block, by_name["boundless"].occupancy) == (None, None)
    assert by_name["bound"].occupancy == 1.0
