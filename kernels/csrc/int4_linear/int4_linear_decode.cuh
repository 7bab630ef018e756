// int4_linear before Hopper, for few rows of x: memory-bound, limited by reading the weights once.
//
// A block owns 16 * weight_tiles outputs. Its warps take the groups of k round-robin, so at any time they read neighbouring
// memory. x is loaded directly from global memory (it hits the caches) in the mma's fragment layout. At the end the warps'
// partial sums are reduced in shared memory in a fixed order, so results are reproducible bit for bit.
#pragma once

#include "int4_linear/int4_linear_fragments.cuh"

namespace warpwatch {

// A lane's share of one group of x as B fragments: row lane / 4 of each x tile. Rows past the end are zeros.
template <typename Element, int kGroup, int kXTiles>
__device__ __forceinline__ void load_x(const Int4LinearParams& p, int group, int lane,
                                       uint32_t (&x)[kGroup / 16][kXTiles][2]) {
#pragma unroll
  for (int i = 0; i < kXTiles; ++i) {
    const int row = 8 * i + lane / 4;
    const Element* from = static_cast<const Element*>(p.x) + row * p.x_stride + group * kGroup + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kGroup / 8; ++j) {
      x[j / 2][i][j % 2] = row < p.m ? __ldg(reinterpret_cast<const uint32_t*>(from + 8 * j)) : 0;
    }
  }
}

// The last five template arguments are the fields of an Int4DecodeTile; weight_tiles is kTiles.
template <typename Mma, typename Element, int kGroup, bool kZeroPoints, int kXTiles, int kTiles, int kWarps, int kDepth,
          int kBlocks>
__global__ void __launch_bounds__(32 * kWarps, kBlocks) int4_linear_decode(const Int4LinearParams p) {
#if __CUDA_ARCH__ >= 1200
  constexpr int kBuffers = kZeroPoints ? 1 : 2;  // a second buffer would spill
#else
  constexpr int kBuffers = 2;
#endif
  constexpr int kSlots = 4 * kTiles * kXTiles;  // accumulators per thread
  const int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  const int first_row = blockIdx.x * 16 * kTiles;
  const int groups = p.k / kGroup;
  const Int4WeightRows<Element, kGroup, kTiles, kZeroPoints> rows(p, first_row, lane);

  float sums[kTiles][kXTiles][4] = {};
  for (int first = warp; first < groups; first += kWarps * kDepth) {
#if __CUDA_ARCH__ >= 1200
    if constexpr (kZeroPoints) asm volatile("" : "+r"(lane));  // hides that `lane` is invariant: x's base address would spill
#endif
    // Conditions on `group` are warp-uniform, as mma needs.
    Int4Weights<Element, kGroup, kTiles, kZeroPoints> weights[kDepth];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int group = first + d * kWarps;
      if (group < groups) rows.load(group, weights[d]);
    }
    uint32_t x[kBuffers][kGroup / 16][kXTiles][2];  // this group's and, with two buffers, the next one's
    load_x<Element, kGroup>(p, first, lane, x[0]);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int group = first + d * kWarps, next = group + kWarps;
      if (kBuffers == 2 && d + 1 < kDepth && next < groups) load_x<Element, kGroup>(p, next, lane, x[(d + 1) % kBuffers]);
      if (kBuffers == 1 && d > 0 && group < groups) load_x<Element, kGroup>(p, group, lane, x[0]);
      if (group < groups) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          float c[kXTiles][4] = {};
#pragma unroll
          for (int s = 0; s < kGroup / 16; ++s) {
            uint32_t a[4];
            dequantize<Element>(weights[d].word(tile, s), a, weights[d].steps[tile].zeros());
#pragma unroll
            for (int i = 0; i < kXTiles; ++i) {
              Mma::template run<Element>(c[i], a, x[d % kBuffers][s][i][0], x[d % kBuffers][s][i][1]);
            }
          }
          add_scaled(sums[tile], weights[d].steps[tile], c);
        }
      }
    }
  }

  __shared__ float partials[kWarps][kSlots][32];
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    partials[warp][slot][lane] = sums[slot / 4 / kXTiles][slot / 4 % kXTiles][slot % 4];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < kSlots * 32; e += 32 * kWarps) {
    const int slot = e / 32, of = e % 32;  // the thread that holds this sum, in each warp
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += partials[w][slot][of];
    // C fragment of the mma: value v of thread (g, t) is weight row g + 8 (v / 2), row 2 t + v % 2 of x.
    const int v = slot % 4, i = slot / 4 % kXTiles, tile = slot / 4 / kXTiles;
    const int n = first_row + 16 * tile + 8 * (v / 2) + of / 4;
    const int m = 8 * i + 2 * (of % 4) + v % 2;
    if (n < p.n && m < p.m) static_cast<Element*>(p.out)[static_cast<int64_t>(m) * p.n + n] = rounded<Element>(sum);
  }
}

}  // namespace warpwatch
