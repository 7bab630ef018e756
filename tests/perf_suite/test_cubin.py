"""What is read of cubins that the real compiler made, held against what the compiler says of them."""

import re
from collections import Counter

import pytest

from perf_suite.compiled.watched_kernels import ARCHITECTURES
from warpbench.compiled.cubin import read_cubin
from warpbench.compiled.cuda_binaries import disassemble, find_tools
from warpbench.compiled.instructions import count_instructions
from warpbench.compiled.mangled_names import kernel_name

from .cuda_sources import compiled, needs_nvcc

pytestmark = needs_nvcc

KERNELS = """
namespace {
__global__ void __launch_bounds__(128) fixed_shared(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void __launch_bounds__(64) four_barriers(float* x) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[threadIdx.x];
  asm volatile("bar.sync 3, 64;");
  x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void indexed_array(const float* x, float* out, const int* at) {
  float a[32];
  for (int j = 0; j < 32; ++j) a[j] = x[j * at[j]];
  float sum = 0;
  for (int j = 0; j < at[33]; ++j) sum += a[at[j] & 31];
  *out = sum;
}
__global__ void __launch_bounds__(1024) spilled(const float4* x, float4* out, int n) {
  float4 v[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) v[i] = x[i * n + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 40; ++i) out[i * n + threadIdx.x] = v[39 - i];
}
}  // namespace
void launch(float* x, float4* y, int* i) {
  fixed_shared<<<1, 128>>>(x);
  four_barriers<<<1, 64, 256>>>(x);
  indexed_array<<<1, 1>>>(x, x, i);
  spilled<<<1, 1024>>>(y, y, 3);
}
"""
SAXPY = """
#include <cassert>
namespace {
__device__ const float kTable[4] = {1, 2, 3, 4};
__global__ void saxpy(float* y, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(i < 1 << 20);
  if (i < n) y[i] += 2.0f * x[i] + kTable[n % 4];
}
}  // namespace
void launch(float* y, const float* x, int n) { saxpy<<<1, 128>>>(y, x, n); }
"""


def by_name(cubin):
    return {kernel_name(function.name): function for function in read_cubin(cubin)}


def sha256(source, folder, name="saxpy"):
    (function,) = read_cubin(compiled(source, "sm_86", folder, name).cubin)
    return function.sha256


@pytest.fixture(scope="module", params=ARCHITECTURES)
def built(request, tmp_path_factory):
    """The architecture, and KERNELS compiled for it."""
    return request.param, compiled(KERNELS, request.param, tmp_path_factory.mktemp(request.param))


def test_needs_are_those_that_the_compiler_reports(built):
    _, from_nvcc = built
    functions = read_cubin(from_nvcc.cubin)
    assert {function.name for function in functions} == from_nvcc.said.keys()
    for function in functions:
        assert function.registers == from_nvcc.number(function.name, "registers") > 0
        assert function.stack_bytes == from_nvcc.number(function.name, "bytes stack frame")
        assert function.shared_bytes == from_nvcc.number(function.name, "bytes smem")
        assert function.barriers == from_nvcc.number(function.name, "barriers")
    named = by_name(from_nvcc.cubin)
    assert (named["fixed_shared"].shared_bytes, named["fixed_shared"].most_threads) == (1024, 128)
    assert (named["four_barriers"].barriers, named["four_barriers"].shared_bytes) == (4, 0)
    assert named["indexed_array"].stack_bytes == 128
    assert named["indexed_array"].most_threads is None


def test_instructions_are_counted_by_kind_and_spills_by_the_byte(built):
    architecture, from_nvcc = built
    named = by_name(from_nvcc.cubin)
    counted = count_instructions({function.code: architecture for function in named.values()}, find_tools())
    of = {name: counted[function.code] for name, function in named.items()}
    assert of["spilled"].local_memory > 0
    said = [from_nvcc.number(named["spilled"].name, f"bytes spill {way}") for way in ("stores", "loads")]
    assert of["spilled"].local_memory_bytes == sum(said) > 0
    assert of["spilled"].by_name["LDG.128"] == 40
    assert of["fixed_shared"].local_memory_bytes == 0
    assert (of["fixed_shared"].by_name["LDG.32"], of["fixed_shared"].by_name["BAR"]) == (1, 1)
    assert of["fixed_shared"].use_shared_memory
    assert not of["indexed_array"].use_shared_memory
    assert of["indexed_array"].local_memory > 0
    for instructions in of.values():
        assert instructions.by_name["EXIT"] >= 1
        assert "NOP" not in instructions.by_name or instructions.by_name["NOP"] < instructions.total / 4
    for code, instructions in counted.items():  # of which nvdisasm got one of each kind
        written = re.findall(r"\*/ +(?:@!?U?P\w+ +)?([A-Z]\w*)", disassemble(code, architecture, find_tools()))
        while written[-1] == "NOP":
            written.pop()
        mnemonics: Counter[str] = Counter()
        for name, count in instructions.by_name.items():
            mnemonics[name.partition(".")[0]] += count  # "LDG.128" is an LDG
        assert Counter(written) == mnemonics


def test_the_same_code_has_the_same_hash_wherever_and_however_it_is_written(tmp_path):
    here = sha256(SAXPY, tmp_path / "here")
    assert sha256(SAXPY, tmp_path / "some" / "where" / "else") == here
    commented = SAXPY.replace("  if (i < n)", "  // the last block may be a part\n\n\n  if (/* within */ i < n)")
    assert commented != SAXPY
    assert sha256(commented, tmp_path / "commented") == here


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2.0f * x[i]", "3.0f * x[i]"),
        ("{1, 2, 3, 4}", "{1, 2, 3, 5}"),
        ("y[i] +=", "y[i] -="),
        ("int n) {\n  const", "int n) {\n  __shared__ float s[99]; s[threadIdx.x] = n; y += (int)s[n];\n  const"),
    ],
    ids=["a constant in the code", "a constant in memory", "an instruction", "shared memory"],
)
def test_other_code_has_another_hash(before, after, tmp_path):
    assert before in SAXPY
    assert sha256(SAXPY.replace(before, after), tmp_path / "after") != sha256(SAXPY, tmp_path / "before")


def test_a_tighter_launch_bound_is_other_code(tmp_path):
    bound = SAXPY.replace("void saxpy", "void __launch_bounds__(1024, 2) saxpy")
    registers = {f.registers for f in read_cubin(compiled(bound, "sm_86", tmp_path).cubin)}
    assert registers <= set(range(1, 33))
