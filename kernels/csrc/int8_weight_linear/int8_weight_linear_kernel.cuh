// int8_weight_linear before Hopper, and for few rows: memory-bound, limited by reading the weights once.
//
// A block owns 16 outputs, and its warps take chunks of 64 of k round-robin. With g = lane / 4 and t = lane % 4, thread (g, t)
// loads the t-th 16 bytes of the chunk, of weight rows g and g + 8, and the same 16 of k of row g of x. An mma sums over 16
// values of k in any order, as long as both operands use the same; one word of weights (four bytes) is a thread's share of one
// mma. The warps' sums are reduced in shared memory in a fixed order, so results are reproducible bit for bit.
#pragma once

#include <array>

#include "int8_weight_linear/int8_weight_linear.h"
#include "int8_weight_linear/int8_weight_linear_bytes.cuh"
#include "int8_weight_linear/int8_weight_linear_tiles.h"
#include "primitives/byte_mma.cuh"
#include "primitives/element.cuh"

namespace warpwatch {

// Loads eight elements of a row of x from column k on, zeros past its end. kAligned: rows and k are 16-byte aligned.
template <typename Element, bool kAligned>
__device__ __forceinline__ uint4 load_eight(const Element* row, int k, int end) {
  if (kAligned && k + 8 <= end) return __ldg(reinterpret_cast<const uint4*>(row + k));
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = k + 2 * i < end ? as_float(row[k + 2 * i]) : 0.0f;
    const float high = k + 2 * i + 1 < end ? as_float(row[k + 2 * i + 1]) : 0.0f;
    words[i] = pack<Element>(low, high);
  }
  return {words[0], words[1], words[2], words[3]};
}

// The last four template arguments are the fields of an Int8WeightTile.
template <typename Mma, typename Element, bool kAligned, int kXTiles, int kWarps, int kDepth, int kBlocks>
__global__ void __launch_bounds__(32 * kWarps, kBlocks) int8_weight_linear_rows(const Int8WeightLinearParams p) {
  constexpr int kChunk = 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_n = blockIdx.x * 16, first_m = blockIdx.y * 8 * kXTiles;
  const int part = lane % 4 * 16;  // this thread's values of a chunk
  const int8_t* weight[2];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    // Rows past the end read the last one; their sums are not stored.
    const int64_t row = min(first_n + 8 * upper + lane / 4, p.n - 1);
    weight[upper] = p.weight + row * p.padded_k + part;
  }

  float sums[kXTiles][4] = {};
  for (int first = warp * kChunk; first < p.padded_k; first += kWarps * kChunk * kDepth) {
    // Chunks past the end of k count as zeros, so that the mma stays warp-uniform.
    uint4 w[kDepth][2];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int k = first + d * kWarps * kChunk;
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        w[d][upper] =
            k + part < p.padded_k ? __ldg(reinterpret_cast<const uint4*>(weight[upper] + k)) : uint4{0, 0, 0, 0};
      }
    }
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int k = first + d * kWarps * kChunk + part;
      uint32_t x[kXTiles][8];
#pragma unroll
      for (int i = 0; i < kXTiles; ++i) {
        const int row = first_m + 8 * i + lane / 4;
        const Element* from = static_cast<const Element*>(p.x) + row * p.x_stride;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = k + 8 * half;
          const uint4 eight =
              row < p.m && at < p.k ? load_eight<Element, kAligned>(from, at, p.k) : uint4{0, 0, 0, 0};
          x[i][4 * half] = eight.x, x[i][4 * half + 1] = eight.y;
          x[i][4 * half + 2] = eight.z, x[i][4 * half + 3] = eight.w;
        }
      }
      const uint32_t lower[4] = {w[d][0].x, w[d][0].y, w[d][0].z, w[d][0].w};
      const uint32_t upper[4] = {w[d][1].x, w[d][1].y, w[d][1].z, w[d][1].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        uint32_t a[4];
        widen_bytes<Element>(lower[j], a[0], a[2]);
        widen_bytes<Element>(upper[j], a[1], a[3]);
#pragma unroll
        for (int i = 0; i < kXTiles; ++i) Mma::run(sums[i], a, x[i][2 * j], x[i][2 * j + 1]);
      }
    }
  }

  __shared__ float partials[kWarps][4 * kXTiles][32];
#pragma unroll
  for (int slot = 0; slot < 4 * kXTiles; ++slot) partials[warp][slot][lane] = sums[slot / 4][slot % 4];
  __syncthreads();
  for (int e = threadIdx.x; e < 4 * kXTiles * 32; e += 32 * kWarps) {
    const int slot = e / 32, of = e % 32;  // the thread that holds this sum, in each warp
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += partials[w][slot][of];
    // C fragment of the mma: value v of thread (g, t) is weight row g + 8 (v / 2), row 2 t + v % 2 of x.
    const int v = slot % 4, i = slot / 4;
    const int n = first_n + 8 * (v / 2) + of / 4;
    const int m = first_m + 8 * i + 2 * (of % 4) + v % 2;
    if (n >= p.n || m >= p.m) continue;
    const float shift = p.bias == nullptr ? 0.0f : as_float(static_cast<const Element*>(p.bias)[n]);
    static_cast<Element*>(p.out)[static_cast<int64_t>(m) * p.n + n] =
        rounded<Element>(sum * __ldg(p.weight_scales + n) + shift);
  }
}

template <typename Mma, typename Element, int kIndex = 0>
cudaError_t launch_int8_weight_linear(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt8WeightTiles)) {
    return cudaErrorInvalidValue;  // int8_weight_tile found no tile
  } else {
    if (int8_weight_tile(p.m) != kIndex) return launch_int8_weight_linear<Mma, Element, kIndex + 1>(p, stream);
    if (p.m < 1 || p.m > kInt8WeightDirectRows || p.n < 1 || p.k < 1 || p.padded_k < p.k || p.padded_k % 16 != 0 ||
        reinterpret_cast<uintptr_t>(p.weight) % 16 != 0) {
      return cudaErrorInvalidValue;
    }
    constexpr Int8WeightTile kTile = kInt8WeightTiles[kIndex];
    const dim3 grid((p.n - 1) / 16 + 1, (p.m - 1) / (8 * kTile.x_tiles) + 1);
    if (reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.x_stride % 8 == 0) {
      int8_weight_linear_rows<Mma, Element, true, kTile.x_tiles, kTile.warps, kTile.depth, kTile.blocks_per_sm>
          <<<grid, 32 * kTile.warps, 0, stream>>>(p);
    } else {
      int8_weight_linear_rows<Mma, Element, false, kTile.x_tiles, kTile.warps, kTile.depth, kTile.blocks_per_sm>
          <<<grid, 32 * kTile.warps, 0, stream>>>(p);
    }
    return cudaGetLastError();
  }
}

}  // namespace warpwatch
