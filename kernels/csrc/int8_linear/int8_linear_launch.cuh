// int8_linear before Hopper: its decode and batch kernels, and the choice of their instantiation by element and tile.
#pragma once

#include <array>
#include <limits>

#include "int8_linear/int8_linear_epilogue.cuh"
#include "int8_linear/int8_linear_tiles.h"
#include "primitives/attributes.h"
#include "primitives/block_product.cuh"
#include "primitives/byte_mma.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Decode kernel, few rows of x: memory-bound, limited by reading the weights once.
//
// A block owns 16 outputs, and its warps take chunks of 64 bytes of k round-robin. With g = lane / 4 and t = lane % 4, thread
// (g, t) loads the t-th 16 bytes of the chunk, of weight rows g and g + 8 and of row g of x. An mma sums over 32 values of k in
// any order, as long as both operands use the same, so one 16-byte load gives a thread its fragments of two mmas. The warps'
// sums are reduced in shared memory; integers are exact, so their order is free.

// The last four template arguments are the fields of an Int8DecodeTile.
template <typename Mma, typename Element, int kXTiles, int kWarps, int kDepth, int kBlocks>
__global__ void __launch_bounds__(32 * kWarps, kBlocks) int8_linear_decode(const Int8LinearParams p) {
  constexpr int kChunk = 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_n = blockIdx.x * 16;
  const int part = lane % 4 * 16;  // this thread's bytes of a chunk
  const int8_t* weight[2];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    // Rows past the end read the last one; their sums are not stored.
    const int64_t row = min(first_n + 8 * upper + lane / 4, p.n - 1);
    weight[upper] = p.weight + row * p.k + part;
  }

  int sums[kXTiles][4] = {};
  if (warp * kChunk >= p.k) grid_dependency_wait();  // a warp without a chunk must wait too: the epilogue reads the scales
  for (int first = warp * kChunk; first < p.k; first += kWarps * kChunk * kDepth) {
    // Chunks past the end of k count as zeros, so that the mma stays warp-uniform.
    uint4 w[kDepth][2], x[kDepth][kXTiles];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const int k = first + d * kWarps * kChunk;
      const bool live = k + part < p.k;
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        // __ldcs: each weight is read once, so caches may evict it first.
        w[d][upper] = live ? __ldcs(reinterpret_cast<const uint4*>(weight[upper] + k)) : uint4{0, 0, 0, 0};
      }
    }
    // The weights' loads are in flight while the tokens are still being quantized.
    if (first == warp * kChunk) grid_dependency_wait();
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

  __shared__ int partials[kWarps][4 * kXTiles][32];
#pragma unroll
  for (int slot = 0; slot < 4 * kXTiles; ++slot) partials[warp][slot][lane] = sums[slot / 4][slot % 4];
  __syncthreads();
  for (int e = threadIdx.x; e < 4 * kXTiles * 32; e += 32 * kWarps) {
    const int slot = e / 32, of = e % 32;  // the thread that holds this sum, in each warp
    int sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += partials[w][slot][of];
    // C fragment of the mma: value v of thread (g, t) is weight row g + 8 (v / 2), row 2 t + v % 2 of x.
    const int v = slot % 4, i = slot / 4;
    const int n = first_n + 8 * (v / 2) + of / 4;
    const int m = 8 * i + 2 * (of % 4) + v % 2;
    if (n < p.n && m < p.m) store_scaled<Element>(p, m, n, sum);
  }
}

// Batch kernel, any number of rows above the decode kernel's: tiles of out, operands through shared memory.
//
// If the tiles alone do not fill the GPU, blockIdx.y splits k. All blocks of a tile write their sums to the workspace and
// increment the tile's counter; the last one adds up the others' sums and stores. Integer sums are exact, so the result is the
// same bit for bit whichever block is last, and no third launch is needed.

// Whether this block is the last of its tile; if so, its sums become those of all splits.
template <typename Block>
__device__ __forceinline__ bool add_up_splits(const Int8LinearParams& p, Block& block) {
  constexpr int kPieces = Block::kMTiles * Block::kNTiles;  // of four sums, per thread
  const auto piece_at = [&](int split, int piece) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * p.splits + split) * kPieces + piece;
    return reinterpret_cast<int4*>(p.partials) + at * Block::kThreads + threadIdx.x;
  };
  const int own = blockIdx.y;
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    const int(&sums)[4] = block.sums[piece / Block::kNTiles][piece % Block::kNTiles];
    __stcg(piece_at(own, piece), int4{sums[0], sums[1], sums[2], sums[3]});
  }
  // Orders each thread's sums before the block's increment, and the increment before the last block's reads.
  __threadfence();
  __syncthreads();
  __shared__ bool is_last;
  if (threadIdx.x == 0) is_last = atomicAdd(p.arrived + blockIdx.x, 1) == p.splits - 1;
  __syncthreads();
  if (!is_last) return false;
  __threadfence();
  for (int split = 0; split < p.splits; ++split) {
    if (split == own) continue;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      int(&sums)[4] = block.sums[piece / Block::kNTiles][piece % Block::kNTiles];
      const int4 others = __ldcg(piece_at(split, piece));
      sums[0] += others.x, sums[1] += others.y, sums[2] += others.z, sums[3] += others.w;
    }
  }
  return true;
}

// Block: a BlockProduct of primitives/.
template <typename Block, typename Element, int kBlocksPerSm, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocksPerSm) int8_linear_batch(const Int8LinearParams p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const TileCoord place = TileCoord::of(blockIdx.x, (p.m - 1) / Block::kM + 1, (p.n - 1) / Block::kN + 1);
  const int first_m = place.m * Block::kM, first_n = place.n * Block::kN;
  const int slabs = (p.k - 1) / kSlabBytes + 1, part = (slabs - 1) / p.splits + 1;
  const int begin = min(static_cast<int>(blockIdx.y) * part, slabs), end = min(begin + part, slabs);
  const auto rows_from = [&](const int8_t* matrix, int first, int rows) {
    return BlockOperand{reinterpret_cast<const char*>(matrix) + static_cast<int64_t>(first) * p.k, p.k, rows - first};
  };

  Block block;
  block.run(rows_from(p.x, first_m, p.m), rows_from(p.weight, first_n, p.n), p.k, begin, end, shared);
  if (p.splits > 1 && !add_up_splits(p, block)) return;
  block.each_pair([&](int m, int n, int even, int odd) {
    store_scaled_pair<Element>(p, first_m + m, first_n + n, even, odd);
  });
}

template <typename Mma, typename Element, int kIndex = 0>
cudaError_t launch_int8_decode(const Int8LinearParams& p, cudaStream_t stream, int index) {
  if constexpr (kIndex == std::size(kInt8DecodeTiles)) {
    return cudaErrorInvalidValue;  // int8_decode_tile found no tile
  } else {
    if (index != kIndex) return launch_int8_decode<Mma, Element, kIndex + 1>(p, stream, index);
    constexpr Int8DecodeTile kTile = kInt8DecodeTiles[kIndex];
    if (p.m > 8 * kTile.x_tiles) return cudaErrorInvalidValue;
    const auto kernel =
        int8_linear_decode<Mma, Element, kTile.x_tiles, kTile.warps, kTile.depth, kTile.blocks_per_sm>;
    return launch_dependent(kernel, (p.n - 1) / 16 + 1, 32 * kTile.warps, stream, p);
  }
}

template <typename Block, typename Element, int kBlocksPerSm>
cudaError_t launch_int8_batch(const Int8LinearParams& p, cudaStream_t stream) {
  const int64_t tiles =
      (static_cast<int64_t>(p.m - 1) / Block::kM + 1) * (static_cast<int64_t>(p.n - 1) / Block::kN + 1);
  const bool room = p.splits == 1 || (p.arrived != nullptr && p.partials != nullptr);
  if (tiles > std::numeric_limits<int>::max() || p.splits < 1 || p.splits > 65535 || !room) {
    return cudaErrorInvalidValue;
  }
  using Shape = LaunchShape<Block::kThreads, Block::kSharedBytes>;
  const auto kernel = int8_linear_batch<Block, Element, kBlocksPerSm, Shape>;
  const cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(tiles), p.splits);
  kernel<<<grid, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

// Batch::launch<Element>(p, stream) launches tile p.tile of its architecture.
template <typename Mma, typename Batch, typename Element>
cudaError_t launch_int8_linear(const Int8LinearParams& p, cudaStream_t stream) {
  if (p.m <= kInt8DecodeRows) return launch_int8_decode<Mma, Element>(p, stream, int8_decode_tile(p.m));
  return Batch::template launch<Element>(p, stream);
}

template <typename Mma, typename Batch>
cudaError_t launch_int8_linear(const Int8LinearParams& p, cudaStream_t stream) {
  if (!int8_linear_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_int8_linear<Mma, Batch, __half>(p, stream);
    case Dtype::kBFloat16: return launch_int8_linear<Mma, Batch, __nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_int8_linear<Mma, Batch, float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
