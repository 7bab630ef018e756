"""Theoretical occupancy, against known answers and against NVIDIA's own calculator."""

import random
import shutil
import subprocess

import pytest

from perf_suite.compiled.watched_kernels import ARCHITECTURES
from warpbench.compiled.architectures import compute_capability_of
from warpbench.compiled.occupancy import _SMS, occupancy

# A caller of cuda_occupancy.h: a line of numbers in, the resident blocks out.
CALCULATOR = r"""
#include <climits>
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"
int main() {
  int major, minor, warps, threads, registers, barriers;
  size_t shared, most, reserved, static_bytes, dynamic_bytes;
  while (scanf("%d %d %d %zu %zu %zu %d %d %zu %zu %d", &major, &minor, &warps, &shared, &most, &reserved, &threads,
               &registers, &static_bytes, &dynamic_bytes, &barriers) == 11) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = major;
    gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024;
    gpu.maxThreadsPerMultiprocessor = 32 * warps;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
    gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 48 * 1024;
    gpu.sharedMemPerMultiprocessor = shared;
    gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = most;
    gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = static_bytes;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = dynamic_bytes;
    kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, dynamic_bytes)) return 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
}
"""


def test_every_watched_architecture_is_in_the_table():
    assert {compute_capability_of(architecture) for architecture in ARCHITECTURES} <= _SMS.keys()


@pytest.mark.parametrize(
    ("gpu", "needs", "blocks", "share", "limited_by"),
    [
        # T4: 1024 threads an SM. 64 registers x 256 threads are a quarter of its 65536: all 32 warps fit.
        ((7, 5), {"threads": 256, "registers": 64, "shared_bytes": 0}, 4, 1.0, "warps"),
        # 65 registers of a thread become 72, 2304 of a warp: 7 warps a quarter, 28 an SM, three blocks of 8.
        ((7, 5), {"threads": 256, "registers": 65, "shared_bytes": 0}, 3, 0.75, "registers"),
        # RTX 3090: 16 blocks at most, so that blocks of one warp fill a third of the 48.
        ((8, 6), {"threads": 32, "registers": 16, "shared_bytes": 0}, 16, 1 / 3, "blocks"),
        # 99 KB and the system's 1 KB are all of the 100 KB there are.
        ((8, 9), {"threads": 128, "registers": 32, "shared_bytes": 99 * 1024}, 1, 4 / 48, "shared memory"),
        # H200: 228 KB. Two blocks of 113 KB and 1 KB each; with 128 bytes more there is room for one.
        ((9, 0), {"threads": 128, "registers": 32, "shared_bytes": 113 * 1024}, 2, 8 / 64, "shared memory"),
        ((9, 0), {"threads": 128, "registers": 32, "shared_bytes": 113 * 1024 + 1}, 1, 4 / 64, "shared memory"),
        # 168 registers x 384 threads: one block of three warpgroups, as FlashAttention-3 has it.
        ((9, 0), {"threads": 384, "registers": 168, "shared_bytes": 200 * 1024}, 1, 12 / 64, "registers"),
        # It cannot be launched: 255 registers for 512 threads, more shared memory than a block may have.
        ((8, 6), {"threads": 512, "registers": 255, "shared_bytes": 0}, 0, 0.0, "registers"),
        ((12, 0), {"threads": 128, "registers": 32, "shared_bytes": 100 * 1024}, 0, 0.0, "shared memory"),
        ((8, 0), {"threads": 1056, "registers": 16, "shared_bytes": 0}, 0, 0.0, "warps"),
    ],
)
def test_known_answers(gpu, needs, blocks, share, limited_by):
    found = occupancy(gpu, barriers=1, **needs)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.share == pytest.approx(share)


def test_limits_are_not_guessed_for_a_gpu_that_is_not_in_the_table():
    assert occupancy((8, 8), threads=128, registers=32, shared_bytes=0, barriers=1) is None


def test_nvidias_own_calculator_agrees(tmp_path):
    from warpwatch.kernels.building.toolchain import find_cuda

    toolkit, compiler = find_cuda(), shutil.which("g++")
    if toolkit is None or compiler is None:
        pytest.skip("cuda_occupancy.h comes with the CUDA compiler, and wants g++")
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    subprocess.run([compiler, f"-I{toolkit.include}", "-o", "calculator", "calculator.cpp"], cwd=tmp_path, check=True)
    draw = random.Random(7)
    asked, answers = [], []
    for gpu, sm in _SMS.items():
        for _ in range(2000):
            threads = draw.choice([draw.randint(1, 1024), 32 * draw.randint(1, 32)])
            registers, barriers = draw.randint(1, 255), draw.choice([0, 1, 1, 2, 16])
            static = draw.choice([0, draw.randint(0, 48 * 1024)])
            dynamic = draw.choice([0, draw.randint(0, sm.shared_bytes_per_block + 1024)])
            limits = sm.warps, sm.shared_bytes, sm.shared_bytes_per_block, sm.reserved_shared_bytes
            asked.append((*gpu, *limits, threads, registers, static, dynamic, barriers))
            found = occupancy(
                gpu, threads=threads, registers=registers, shared_bytes=static + dynamic, barriers=barriers
            )
            answers.append(found.blocks)
    lines = "\n".join(" ".join(map(str, numbers)) for numbers in asked)
    said = subprocess.run([tmp_path / "calculator"], input=lines, capture_output=True, text=True, check=True).stdout
    assert answers == [int(line) for line in said.split()]
    assert len(set(answers)) > 10
