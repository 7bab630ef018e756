// More rows of x than the decode kernel takes, any number of them.
//
// A block owns 16 * warps outputs of 8 * x_tiles rows of x. Each warp reads its own 16 weight rows, `depth` groups
// ahead; x goes through shared memory, one group at a time in two buffers, and is put into the order of the mma on its
// way in. Where the outputs alone do not fill the GPU, blockIdx.z divides k: those blocks leave fp32 sums in the
// workspace, which int4_linear_sum adds in order, so results are reproducible bit for bit.
#pragma once

#include "int4_linear/int4_linear_fragments.cuh"

namespace warpwatch {

// One group of the block's x, on its way from global to shared memory.
//   A chunk is 16 bytes of a row: chunk q of a group is word j = q % kWords of quarter t = q / kWords.
//   In shared memory chunk (row 8 i + g, t, j) lies in slot (i * kWords + j) * 32 + ((4 g + t) ^ (8 / kWords * j)).
//   A warp reads the 32 slots of one (i, j), permuted within each 8, so that every quarter-warp meets all banks; it
//   writes whole rows, and 8 neighbours q of a row land in slots that differ modulo 8 thanks to the exclusive or.
template <typename Element, int kGroup, int kXTiles, int kThreads>
struct Int4Staging {
  static constexpr int kWords = kGroup / 32;
  static constexpr int kRowChunks = 4 * kWords;
  static constexpr int kChunks = 8 * kXTiles * kRowChunks;
  static constexpr int kCopies = kChunks / kThreads;
  static_assert(kChunks % kThreads == 0, "each thread copies the same number of chunks");

  uint4 held[kCopies];

  __device__ __forceinline__ void fetch(const Int4LinearParams& p, int first_row, int group) {
#pragma unroll
    for (int s = 0; s < kCopies; ++s) {
      const int chunk = threadIdx.x + s * kThreads;
      const int row = first_row + chunk / kRowChunks;
      const Element* from = static_cast<const Element*>(p.x) + row * p.x_stride + group * kGroup;
      held[s] = row < p.m ? __ldg(reinterpret_cast<const uint4*>(from) + chunk % kRowChunks) : uint4{0, 0, 0, 0};
    }
  }

  __device__ __forceinline__ void put(uint4 (&shared)[kChunks]) const {
#pragma unroll
    for (int s = 0; s < kCopies; ++s) {
      const int chunk = threadIdx.x + s * kThreads;
      const int row = chunk / kRowChunks, q = chunk % kRowChunks;
      shared[slot(row / 8, 4 * (row % 8) + q / kWords, q % kWords)] = paired(held[s]);
    }
  }

  static __device__ __forceinline__ int slot(int i, int lane, int j) {
    return (i * kWords + j) * 32 + (lane ^ (8 / kWords * j));
  }
};

// The last three are the members of an Int4BatchTile.
template <typename Mma, typename Element, int kGroup, bool kZeroPoints, int kXTiles, int kWarps, int kDepth>
__global__ void __launch_bounds__(32 * kWarps) int4_linear_batch(const Int4LinearParams p) {
  constexpr int kWords = kGroup / 32;
  static_assert(kDepth % 2 == 0, "so that a group's buffer is known at compile time");
  using Staging = Int4Staging<Element, kGroup, kXTiles, 32 * kWarps>;
  __shared__ uint4 x_shared[2][Staging::kChunks];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_n = 16 * (blockIdx.x * kWarps + warp), first_m = 8 * kXTiles * blockIdx.y;
  const int groups = p.k / kGroup, part = (groups + p.splits - 1) / p.splits;
  const int begin = min(static_cast<int>(blockIdx.z) * part, groups), end = min(begin + part, groups);
  const Int4WeightRows<Element, kGroup, 1, kZeroPoints> rows(p, first_n, lane);

  float sums[1][kXTiles][4] = {};
  Int4Weights<Element, kWords, 1, kZeroPoints> weights[kDepth];
  Staging staging;
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (begin + d < end) rows.load(begin + d, weights[d]);
  }
  if (begin < end) {
    staging.fetch(p, first_m, begin);
    staging.put(x_shared[0]);
  }
  __syncthreads();

  for (int first = begin; first < end; first += kDepth) {
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int group = first + d;  // the same for all threads of the block, as the barrier and the mma need
      if (group < end) {
        if (group + 1 < end) staging.fetch(p, first_m, group + 1);
        float c[1][kXTiles][4] = {};
#pragma unroll
        for (int j = 0; j < kWords; ++j) {
          uint4 pairs[kXTiles];
#pragma unroll
          for (int i = 0; i < kXTiles; ++i) pairs[i] = x_shared[d % 2][Staging::slot(i, lane, j)];
          multiply_word<Mma>(c, weights[d], j, pairs);
        }
        add_scaled(sums, weights[d], c);
        if (group + kDepth < end) rows.load(group + kDepth, weights[d]);
        // The other buffer was last read before the previous barrier; this barrier publishes what is put there now.
        if (group + 1 < end) staging.put(x_shared[(d + 1) % 2]);
        __syncthreads();
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kXTiles; ++i) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const int n = first_n + 8 * (v / 2) + lane / 4;
      const int m = first_m + 8 * i + 2 * (lane % 4) + v % 2;
      if (n >= p.n || m >= p.m) continue;
      const int64_t at = static_cast<int64_t>(m) * p.n + n;
      if (p.splits > 1) {
        p.workspace[static_cast<int64_t>(blockIdx.z) * p.m * p.n + at] = sums[0][i][v];
      } else {
        static_cast<Element*>(p.out)[at] = rounded<Element>(sums[0][i][v]);
      }
    }
  }
}

// out = the sum of the workspace over its splits; one output a thread.
template <typename Element>
__global__ void __launch_bounds__(256) int4_linear_sum(const Int4LinearParams p) {
  const int64_t outputs = static_cast<int64_t>(p.m) * p.n;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= outputs) return;
  float sum = 0.0f;
  for (int split = 0; split < p.splits; ++split) sum += p.workspace[split * outputs + at];
  static_cast<Element*>(p.out)[at] = rounded<Element>(sum);
}

}  // namespace warpwatch
