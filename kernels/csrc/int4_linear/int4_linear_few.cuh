// int4_linear on Hopper for few rows of x: memory-bound, limited by reading the weights once and so by the bytes in flight.
//
// A block owns 16 * kN16Tiles outputs. One producer thread keeps a TMA ring of stages of weights and x filled. kTeams groups of
// kN16Tiles warps split k by stage (intra-CTA split-K); each warp owns 16 outputs. At the end the partial sums of the teams,
// and of the cluster's blocks if k is split among them, are added in a fixed order, so results are reproducible bit for bit.
#pragma once

#include "int4_linear/int4_linear_fragments.cuh"
#include "primitives/cluster.cuh"
#include "primitives/element.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/swizzle.cuh"
#include "primitives/tensor_map.h"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

// A stage holds kSlabs slabs of 128 of k: per slab 1024 bytes of weights for each 16 outputs, as they lie in memory; then, for
// each 64 of k, kRows swizzled rows of 128 bytes of x. TMA fills zeros past the ends of k, rows and outputs.
template <int kN16Tiles, int kRows, int kSlabs, int kStages>
struct Int4FewRing : TmaRing<kStages, kSlabs * (kN16Tiles * 1024 + kRows * 256), kN16Tiles> {
  using Base = TmaRing<kStages, kSlabs * (kN16Tiles * 1024 + kRows * 256), kN16Tiles>;
  static constexpr int kWeightBytes = kN16Tiles * kSlabs * 1024, kXBytes = kRows * 128;

  using Base::Base;

  // Producer thread: fills the stages of `part`, for outputs from n on.
  __device__ __forceinline__ void fill(const CUtensorMap& weight, const CUtensorMap& x, int n, Int4Part part) const {
    const int count = (part.end - part.begin + kSlabs - 1) / kSlabs;
    for (int i = 0; i < count; ++i) {
      const int slab = part.begin + i * kSlabs;
      Base::producer_acquire(i);
      Base::copy_once(i, 0, weight, slab * 128, n / 16);
      Base::copy_slabs(i, kWeightBytes, x, 0, slab * 2);
    }
  }

  // The lane's 16 bytes of weights in half a stage (64 of k), for the tile of 16 outputs `n16_tile`.
  __device__ __forceinline__ uint4 weights(int i, int n16_tile, int half, int lane) const {
    return load_shared_16(Base::stage(i) + n16_tile * (1024 * kSlabs) + half * 512 + lane * 16);
  }

  // B fragments for k 32 j to 32 j + 31 of the stage and rows 8 t to 8 t + 7: two registers for each 16 of k.
  __device__ __forceinline__ void x(int i, int t, int j, int lane, uint32_t (&b)[4]) const {
    const uint32_t half = Base::stage(i) + kWeightBytes + j / 2 * kXBytes;
    ldmatrix_x4(b, half + swizzled<128>(8 * t + lane % 8, j % 2 * 4 + lane / 8));
  }
};

// The accumulators of one warp of a team, and the loop over the team's stages.
template <typename Element, int kGroup, bool kZeroPoints, int kN16Tiles, int kRows, int kSlabs, int kTeams,
          typename Ring>
struct Int4FewSums {
  static constexpr int kXTiles = kRows / 8;
  float sums[kXTiles][4] = {};

  __device__ __forceinline__ void add(const Int4LinearParams& p, const Ring& ring, int first_n, Int4Part part) {
    const int team = threadIdx.x / 32 / kN16Tiles, n16_tile = threadIdx.x / 32 % kN16Tiles, lane = threadIdx.x % 32;
    const int groups = p.k / kGroup, count = (part.end - part.begin + kSlabs - 1) / kSlabs;
    const Int4StepRows<Element, kGroup, kZeroPoints> rows(p, first_n + 16 * n16_tile, lane);
    const uint32_t zero = p.k % 64;  // opaque to the compiler; see consumer_release_behind
    // Scales have the same latency as weights, so they are loaded several stages ahead.
    Steps next[kAhead][kSteps], steps[kAhead][kSteps];
    const int first_group = part.begin * (128 / kGroup), end_group = min(part.end * (128 / kGroup), groups);
    load_steps(rows, first_group, team, groups, next);
    for (int first = team; first < count; first += kAhead * kTeams) {
#pragma unroll
      for (int d = 0; d < kAhead; ++d) {
#pragma unroll
        for (int s = 0; s < kSteps; ++s) steps[d][s] = next[d][s];
      }
      load_steps(rows, first_group, first + kAhead * kTeams, groups, next);
#pragma unroll
      for (int d = 0; d < kAhead; ++d) {
        const int i = first + d * kTeams;
        if (i < count) add_stage(ring, i, first_group + i * kSteps, end_group, n16_tile, lane, zero, steps[d]);
      }
    }
  }

 private:
  using Steps = Int4Steps<Element, kZeroPoints>;
  static constexpr int kSteps = kSlabs * 128 / kGroup;  // groups per stage
  static constexpr int kGroupsAhead = kZeroPoints ? 2 : 4;  // in registers; zero points take as many again
  static constexpr int kAhead = kSteps > kGroupsAhead ? 1 : kGroupsAhead / kSteps;

  __device__ __forceinline__ void add_stage(const Ring& ring, int i, int group, int end_group, int n16_tile, int lane,
                                            uint32_t zero, const Steps (&steps)[kSteps]) {
    ring.consumer_wait(i);
    float c[kXTiles][4];
#pragma unroll
    for (int half = 0; half < 2 * kSlabs; ++half) {
      const int s = half * 64 / kGroup;
      const Steps& step = steps[s];
      if (half * 64 % kGroup == 0) {
#pragma unroll
        for (int t = 0; t < kXTiles; ++t) c[t][0] = c[t][1] = c[t][2] = c[t][3] = 0.0f;
      }
      const uint4 four = ring.weights(i, n16_tile, half, lane);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t a[2][4];
        dequantize<Element>(words[2 * j], a[0], step.zeros());
        dequantize<Element>(words[2 * j + 1], a[1], step.zeros());
#pragma unroll
        for (int t = 0; t < kXTiles; ++t) {
          uint32_t b[4];
          ring.x(i, t, 2 * half + j, lane, b);
          mma_m16n8k16<Element>(c[t], a[0], b[0], b[1]);
          mma_m16n8k16<Element>(c[t], a[1], b[2], b[3]);
        }
      }
      // The last stage may be partial and hold fewer groups.
      if ((half + 1) * 64 % kGroup == 0 && (kSteps == 1 || group + s < end_group)) add_scaled(sums, step, c);
    }
    uint32_t read = 0;
#pragma unroll
    for (int t = 0; t < kXTiles; ++t) read |= __float_as_uint(sums[t][0]);
    ring.consumer_release_behind(i, read & zero);
  }

  static __device__ __forceinline__ void load_steps(const Int4StepRows<Element, kGroup, kZeroPoints>& rows,
                                                    int first_group, int stage, int groups,
                                                    Steps (&steps)[kAhead][kSteps]) {
#pragma unroll
    for (int d = 0; d < kAhead; ++d) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        rows.load(min(first_group + (stage + d * kTeams) * kSteps + s, groups - 1), steps[d][s]);
      }
    }
  }
};

template <typename Element, int kGroup, bool kZeroPoints, int kN16Tiles, int kRows, int kSlabs, int kTeams, int kStages,
          int kSplits, int kBlocks, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    int4_linear_few(const Int4LinearParams p, const __grid_constant__ CUtensorMap weight,
                    const __grid_constant__ CUtensorMap x) {
  using Ring = Int4FewRing<kN16Tiles, kRows, kSlabs, kStages>;
  constexpr int kOutputs = 16 * kN16Tiles, kTeamThreads = 32 * kN16Tiles, kSums = kOutputs * kRows;
  // Each stage must always belong to the same team. Copies may land out of order: a team waiting for the second use of a stage
  // would mistake the first use, which another team has not consumed yet, for it (mbarrier phases are one bit).
  static_assert(kStages % kTeams == 0);
  extern __shared__ __align__(1024) unsigned char shared[];
  const Ring ring(shared);
  const int first_n = static_cast<int>(blockIdx.x / kSplits) * kOutputs;
  const int rank = static_cast<int>(blockIdx.x % kSplits);
  const Int4Part part(p.k, kSplits, rank);
  float* const partials = reinterpret_cast<float*>(shared + Ring::kBytes);  // kTeams times kSums

  if (threadIdx.x < kTeams * kTeamThreads) {
    Int4FewSums<Element, kGroup, kZeroPoints, kN16Tiles, kRows, kSlabs, kTeams, Ring> team;
    team.add(p, ring, first_n, part);
    // Value v of thread (g, t) in warp w is output 16 w + 8 (v / 2) + g, row 2 t + v % 2 of the tile of x.
#pragma unroll
    for (int slot = 0; slot < 4 * (kRows / 8); ++slot) {
      partials[threadIdx.x / kTeamThreads * kSums + slot * kTeamThreads + threadIdx.x % kTeamThreads] =
          team.sums[slot / 4][slot % 4];
    }
  } else {
    if (threadIdx.x == kTeams * kTeamThreads) ring.fill(weight, x, first_n, part);
    __syncwarp();
  }

  const auto block_barrier = [] {
    if constexpr (kSplits > 1) {
      cluster_sync();
    } else {
      __syncthreads();
    }
  };
  block_barrier();
  for (int at = rank * Shape::kThreads + static_cast<int>(threadIdx.x); at < kSums; at += kSplits * Shape::kThreads) {
    const int m = at / kOutputs, output = at % kOutputs, n = first_n + output;
    if (m >= p.m || n >= p.n) continue;
    const int slot = m / 8 * 4 + output % 16 / 8 * 2 + m % 2;
    const int thread = output / 16 * 32 + output % 8 * 4 + m % 8 / 2;
    float sum = 0.0f;
#pragma unroll
    for (int from = 0; from < kSplits; ++from) {
      const float* of = partials;
      if constexpr (kSplits > 1) of = shared_of_block(partials, from);
#pragma unroll
      for (int team = 0; team < kTeams; ++team) sum += of[team * kSums + slot * kTeamThreads + thread];
    }
    static_cast<Element*>(p.out)[static_cast<int64_t>(m) * p.n + n] = rounded<Element>(sum);
  }
  if constexpr (kSplits > 1) block_barrier();  // no block may exit while others read its shared memory
}

template <typename Element, int kGroup, bool kZeroPoints, int kN16Tiles, int kRows, int kSlabs, int kTeams, int kStages,
          int kSplits, int kBlocks>
cudaError_t launch_int4_few(const Int4LinearParams& p, cudaStream_t stream) {
  if (p.m > kRows) return cudaErrorInvalidValue;
  constexpr int kBytes = Int4FewRing<kN16Tiles, kRows, kSlabs, kStages>::kBytes + kTeams * 16 * kN16Tiles * kRows * 4;
  using Shape = LaunchShape<32 * (kTeams * kN16Tiles + 1), kBytes>;
  const auto kernel =
      int4_linear_few<Element, kGroup, kZeroPoints, kN16Tiles, kRows, kSlabs, kTeams, kStages, kSplits, kBlocks, Shape>;
  CUtensorMap weight, x;
  cudaError_t status = map_long_rows(weight, p.packed_weight, (p.n - 1) / 16 + 1, int64_t{8} * p.k, kN16Tiles,
                                     1024 * kSlabs);
  if (status != cudaSuccess) return status;
  status = map_slabs(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, kRows, 2 * kSlabs);
  if (status != cudaSuccess) return status;
  return launch_cluster<kSplits, Shape>(kernel, ((p.n - 1) / (16 * kN16Tiles) + 1) * int64_t{kSplits}, stream, p, weight, x);
}

}  // namespace warpwatch
