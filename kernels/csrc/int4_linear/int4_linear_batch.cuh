// int4_linear before Hopper, for any number of rows of x above the decode kernel's.
//
// A block owns 16 * warps outputs for 8 * x_tiles rows of x. Each warp reads its own 16 weight rows, `depth` groups
// ahead; x is double-buffered in shared memory, one group at a time. If the outputs alone do not fill the GPU,
// blockIdx.z splits k: those blocks write fp32 partial sums to the workspace, and int4_linear_sum adds them in a fixed
// order, so results are reproducible bit for bit.
#pragma once

#include "int4_linear/int4_linear_fragments.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/swizzle.cuh"

namespace warpwatch {

// Stages one group of the block's x from global to shared memory, as swizzled rows for ldmatrix.
template <typename Element, int kGroup, int kXTiles, int kThreads>
struct Int4Staging {
  static constexpr int kRowBytes = 2 * kGroup;
  static constexpr int kRowChunks = kRowBytes / 16;
  static constexpr int kBytes = 8 * kXTiles * kRowBytes;
  static constexpr int kCopies = kBytes / 16 / kThreads;
  static_assert(kBytes % (16 * kThreads) == 0, "each thread copies the same number of chunks");

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

  __device__ __forceinline__ void put(unsigned char* shared) const {
#pragma unroll
    for (int s = 0; s < kCopies; ++s) {
      const int chunk = threadIdx.x + s * kThreads;
      *reinterpret_cast<uint4*>(shared + swizzled<kRowBytes>(chunk / kRowChunks, chunk % kRowChunks)) = held[s];
    }
  }

  // B fragments for k 32 j to 32 j + 31 and x tile i: two registers for each 16 of k.
  static __device__ __forceinline__ void load(uint32_t shared, int i, int j, int lane, uint32_t (&b)[4]) {
    ldmatrix_x4(b, shared + swizzled<kRowBytes>(8 * i + lane % 8, 4 * j + lane / 8));
  }
};

// The last three template arguments are the fields of an Int4BatchTile.
template <typename Mma, typename Element, int kGroup, bool kZeroPoints, int kXTiles, int kWarps, int kDepth>
__global__ void __launch_bounds__(32 * kWarps) int4_linear_batch(const Int4LinearParams p) {
  static_assert(kDepth % 2 == 0, "so that a group's buffer is known at compile time");
  using Staging = Int4Staging<Element, kGroup, kXTiles, 32 * kWarps>;
  __shared__ __align__(128) unsigned char x_shared[2][Staging::kBytes];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_n = 16 * (blockIdx.x * kWarps + warp), first_m = 8 * kXTiles * blockIdx.y;
  const int groups = p.k / kGroup, part = (groups + p.splits - 1) / p.splits;
  const int begin = min(static_cast<int>(blockIdx.z) * part, groups), end = min(begin + part, groups);
  const Int4WeightRows<Element, kGroup, 1, kZeroPoints> rows(p, first_n, lane);

  float sums[kXTiles][4] = {};
  Int4Weights<Element, kGroup, 1, kZeroPoints> weights[kDepth];
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
      const int group = first + d;  // uniform across the block, as the barrier and the mma need
      if (group < end) {
        if (group + 1 < end) staging.fetch(p, first_m, group + 1);
        const uint32_t x = shared_address(x_shared[d % 2]);
        float c[kXTiles][4] = {};
#pragma unroll
        for (int j = 0; j < kGroup / 32; ++j) {
          uint32_t a[2][4];
          dequantize<Element>(weights[d].word(0, 2 * j), a[0], weights[d].steps[0].zeros());
          dequantize<Element>(weights[d].word(0, 2 * j + 1), a[1], weights[d].steps[0].zeros());
#pragma unroll
          for (int i = 0; i < kXTiles; ++i) {
            uint32_t b[4];
            Staging::load(x, i, j, lane, b);
            Mma::template run<Element>(c[i], a[0], b[0], b[1]);
            Mma::template run<Element>(c[i], a[1], b[2], b[3]);
          }
        }
        add_scaled(sums, weights[d].steps[0], c);
        if (group + kDepth < end) rows.load(group + kDepth, weights[d]);
        // The other buffer was last read before the previous barrier; this iteration's barrier publishes what is stored now.
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
        p.workspace[static_cast<int64_t>(blockIdx.z) * p.m * p.n + at] = sums[i][v];
      } else {
        static_cast<Element*>(p.out)[at] = rounded<Element>(sums[i][v]);
      }
    }
  }
}

// out = the sum of the workspace over its splits; one output per thread.
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
