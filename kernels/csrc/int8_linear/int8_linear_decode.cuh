// Few rows of x: bound by reading the weights once.
//
// A block owns 16 outputs, and its warps take turns at chunks of 64 bytes of k. With g = lane / 4 and t = lane % 4,
// thread (g, t) reads the t-th 16 bytes of the chunk, of weight rows g and g + 8 and of row g of x: an mma sums over 32
// values of k and does not care which ones, as long as both operands mean the same, so what a thread reads with one
// load is its fragment of two mmas. The warps' sums meet in shared memory; they are exact, so their order is free.
#pragma once

#include "int8_linear/int8_linear_epilogue.cuh"
#include "primitives/byte_mma.cuh"
#include "primitives/dependent_launch.cuh"

namespace warpwatch {

// The last four are the members of an Int8DecodeTile.
template <typename Mma, typename Element, int kXTiles, int kWarps, int kDepth, int kBlocks>
__global__ void __launch_bounds__(32 * kWarps, kBlocks) int8_linear_decode(const Int8LinearParams p) {
  constexpr int kChunk = 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_n = blockIdx.x * 16;
  const int part = lane % 4 * 16;  // of a chunk, this thread's
  const int8_t* weight[2];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    // Rows past the end read the last one; their sums are not stored.
    const int64_t row = min(first_n + 8 * upper + lane / 4, p.n - 1);
    weight[upper] = p.weight + row * p.k + part;
  }

  int sums[kXTiles][4] = {};
  if (warp * kChunk >= p.k) wait_for_previous_kernel();  // a warp without a chunk waits too: what follows may rely on it
  for (int first = warp * kChunk; first < p.k; first += kWarps * kChunk * kDepth) {
    // Chunks past the end of k count as zeros, so that all threads of a warp multiply.
    uint4 w[kDepth][2], x[kDepth][kXTiles];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int k = first + d * kWarps * kChunk;
      const bool live = k + part < p.k;
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        // __ldcs: each weight is read once, so the caches may drop it first.
        w[d][upper] = live ? __ldcs(reinterpret_cast<const uint4*>(weight[upper] + k)) : uint4{0, 0, 0, 0};
      }
    }
    // These are on their way while the tokens are still being quantized.
    if (first == warp * kChunk) wait_for_previous_kernel();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int k = first + d * kWarps * kChunk + part;
#pragma unroll
      for (int i = 0; i < kXTiles; ++i) {
        const int row = 8 * i + lane / 4;
        const int8_t* from = p.x + static_cast<int64_t>(row) * p.k + k;
        x[d][i] = row < p.m && k < p.k ? __ldcg(reinterpret_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
      }
    }
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const uint32_t lower_k[4] = {w[d][0].x, w[d][1].x, w[d][0].y, w[d][1].y};
      const uint32_t upper_k[4] = {w[d][0].z, w[d][1].z, w[d][0].w, w[d][1].w};
#pragma unroll
      for (int i = 0; i < kXTiles; ++i) {
        Mma::run(sums[i], lower_k, x[d][i].x, x[d][i].y);
        Mma::run(sums[i], upper_k, x[d][i].z, x[d][i].w);
      }
    }
  }

  __shared__ int meeting[kWarps][4 * kXTiles][32];
#pragma unroll
  for (int slot = 0; slot < 4 * kXTiles; ++slot) meeting[warp][slot][lane] = sums[slot / 4][slot % 4];
  __syncthreads();
  for (int e = threadIdx.x; e < 4 * kXTiles * 32; e += 32 * kWarps) {
    const int slot = e / 32, of = e % 32;  // the thread whose sum this is, in each warp
    int sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += meeting[w][slot][of];
    // C of the mma: value v of thread (g, t) is weight row g + 8 (v / 2), row 2 t + v % 2 of x.
    const int v = slot % 4, i = slot / 4;
    const int n = first_n + 8 * (v / 2) + of / 4;
    const int m = 8 * i + 2 * (of % 4) + v % 2;
    if (n < p.n && m < p.m) store_scaled<Element>(p, m, n, sum);
  }
}

}  // namespace warpwatch
