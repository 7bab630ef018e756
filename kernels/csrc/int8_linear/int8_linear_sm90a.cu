// int8_linear on Hopper: wgmma, slabs by TMA. Few rows of x run int8_linear_sm80's decode kernel.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <limits>

#include "int8_linear/int8_linear_epilogue.cuh"
#include "int8_linear/int8_linear_tiles.h"
#include "primitives/attributes.h"
#include "primitives/block_cluster_sm90a.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/launch_shape.h"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

// For more rows of x than the decode kernel takes. Clusters of two blocks split k if there are few tiles.

// A block's product by wgmma, slabs through a TMA ring.

// kM / 64 consumer warpgroups and one producer warp.
template <typename Wgmma, int kRowsA, int kRowsB, int kStages>
struct BlockProductSm90a : BlockOfCluster<Wgmma, kRowsA, kRowsB> {
  using Shape = typename BlockOfCluster<Wgmma, kRowsA, kRowsB>::Shape;
  using Ring = TmaRing<kStages, Shape::kStageBytes, Shape::kThreads / 32>;
  static constexpr int kSharedBytes = Ring::kBytes;
  static_assert(kRowsA <= 256 && kRowsB <= 256, "rows of a box");

  // Accumulates the slabs [begin, end) of k. a and b map boxes of `rows` rows, at most kM, and of kN rows; m and n are the first
  // rows. All threads of the block call it; `shared` holds kSharedBytes, 1024-byte aligned. `until_a_is_there()` is called before a is read; b_once
  // says that no other block reads these rows of b.
  template <typename UntilAIsThere>
  __device__ __forceinline__ void run(const CUtensorMap& a, const CUtensorMap& b, int m, int rows, int n, int begin,
                                      int end, bool b_once, void* shared, const UntilAIsThere& until_a_is_there) {
    const Ring ring(shared);
    const int slabs = end - begin;
    if (threadIdx.x < Shape::kThreads) {
      until_a_is_there();
      multiply(ring, slabs);
    } else if (threadIdx.x == Shape::kThreads) {
      const auto copy_a = [&](int i) { ring.copy(i, 0, a, (begin + i) * kSlabBytes, m); };
      const auto copy_b = [&](int i) {
        const int offset = Shape::kM * kSlabBytes, k = (begin + i) * kSlabBytes;
        if (b_once) {
          ring.copy_once(i, offset, b, k, n);
        } else {
          ring.copy(i, offset, b, k, n);
        }
      };
      const int first = min(kStages, slabs), bytes = (rows + Shape::kN) * kSlabBytes;
      for (int i = 0; i < first; ++i) {
        ring.producer_acquire_bytes(i, bytes);
        copy_b(i);
      }
      until_a_is_there();
      for (int i = 0; i < first; ++i) copy_a(i);
      for (int i = first; i < slabs; ++i) {
        ring.producer_acquire_bytes(i, bytes);
        copy_a(i);
        copy_b(i);
      }
    }
    __syncwarp();
  }

 private:
  __device__ __forceinline__ void multiply(const Ring& ring, int slabs) {
    warpgroup_fence_operand(this->sums[0]);  // the zeros are written before the first wgmma reads them
    for (int i = 0; i < slabs; ++i) {
      ring.consumer_wait(i);
      const uint64_t a = wgmma_rows(ring.stage(i) + threadIdx.x / 128 * 64 * kSlabBytes);
      const uint64_t b = wgmma_rows(ring.stage(i) + Shape::kM * kSlabBytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSlabBytes / 32; ++step) Wgmma::run(this->sums[0], a + 2 * step, b + 2 * step);
      wgmma_commit();
      wgmma_wait<1>();  // the previous slab is done, this one stays in flight
      if (i > 0) ring.consumer_release(i - 1);
    }
    wgmma_wait<0>();
    warpgroup_fence_operand(this->sums[0]);
  }
};

// Epilogue of a warp's 16 rows of sums, from (first_m, first_n) of out on: scales and stores those below end_m; `staged` is this warp's alone.
template <typename Element, int kTiles>
__device__ __forceinline__ void store_scaled_rows(const Int8LinearParams& p, const int (&sums)[kTiles][4], int first_m,
                                                  int end_m, int first_n, unsigned char* staged) {
  const int lane = threadIdx.x % 32;
  float x_scales[2];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int m = first_m + lane / 4 + 8 * upper;
    // Not __ldg: with dependent launch, the kernel that writes the scales may still have been running when this one started.
    x_scales[upper] = m < end_m ? __ldcg(p.x_scales + m) : 0.0f;
  }
  const Element* const bias = static_cast<const Element*>(p.bias);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int column = 8 * j + 2 * (lane % 4);
    float scales[2], shifts[2];
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int n = min(first_n + column + odd, p.n - 1);
      scales[odd] = __ldg(p.weight_scales + n);
      shifts[odd] = bias == nullptr ? 0.0f : as_float(bias[n]);
    }
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const float even = static_cast<float>(sums[j][2 * upper]) * x_scales[upper] * scales[0] + shifts[0];
      const float odd = static_cast<float>(sums[j][2 * upper + 1]) * x_scales[upper] * scales[1] + shifts[1];
      const int row = lane / 4 + 8 * upper;
      store_pair(reinterpret_cast<Element*>(staged + row * kStagedRowBytes<Element, 8 * kTiles>) + column, even, odd);
    }
  }
  __syncwarp();
  store_staged_rows<Element, 8 * kTiles, 32>(staged, 16, static_cast<Element*>(p.out), end_m, p.n, first_m, first_n,
                                             lane);
}

// Block: a BlockProductSm90a; a cluster of kSplits blocks, one or two, shares a tile.
template <typename Block, typename Element, int kSplits>
struct Int8WgmmaShared {
  static constexpr int kStagedBytes = Block::kM * kStagedRowBytes<Element, Block::kN / kSplits>;
  static constexpr int kRingBytes = std::max(Block::kSharedBytes, kStagedBytes);  // output rows are staged over the ring
  static constexpr int kExchange = (kRingBytes + 15) / 16 * 16;
  static constexpr int kBytes = kExchange + (kSplits == 2 ? Block::kExchangeBytes : 0);
};

template <typename Block, typename Element, int kSplits, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    int8_linear_wgmma(const Int8LinearParams p, const bool weight_once, const __grid_constant__ CUtensorMap x,
                      const __grid_constant__ CUtensorMap weight) {
  static_assert(kSplits == 1 || kSplits == 2);
  extern __shared__ __align__(1024) unsigned char shared[];
  const TileCoord place =
      TileCoord::of(blockIdx.x / kSplits, (p.m - 1) / Block::kM + 1, (p.n - 1) / Block::kN + 1);
  const int rows = rows_of_tile(p.m, Block::kM);
  const int first_m = place.m * rows, end_m = min(first_m + rows, p.m), first_n = place.n * Block::kN;
  const int slabs = (p.k - 1) / kSlabBytes + 1, part = (slabs - 1) / kSplits + 1;
  const int begin = min(static_cast<int>(blockIdx.x % kSplits) * part, slabs), end = min(begin + part, slabs);
  const auto store = [&](const auto& sums, int column) {
    constexpr int kWarpBytes = 16 * kStagedRowBytes<Element, Block::kN / kSplits>;
    const int warp = threadIdx.x / 32;
    store_scaled_rows<Element>(p, sums, first_m + 16 * warp, end_m, first_n + column, shared + warp * kWarpBytes);
  };

  prefetch_to_l2(p.weight_scales + first_n, min(Block::kN, p.n - first_n));
  if (p.bias != nullptr) {
    prefetch_to_l2(static_cast<const Element*>(p.bias) + first_n, min(Block::kN, p.n - first_n));
  }
  unsigned char* const exchange = shared + Int8WgmmaShared<Block, Element, kSplits>::kExchange;
  if constexpr (kSplits == 2) Block::announce();
  Block block;
  // The weights are copied while the tokens are still being quantized.
  block.run(x, weight, first_m, rows, first_n, begin, end, weight_once, shared,
            [] { grid_dependency_wait(); });
  if constexpr (kSplits == 2) {
    block.add_up_halves(exchange, store);
  } else if (threadIdx.x < Block::kThreads) {
    barrier_of_first_threads<Block::kThreads>();  // all have read the ring
    store(block.sums[0], 0);
  }
}

template <typename Block, typename Element, int kSplits>
cudaError_t launch_int8_wgmma(const Int8LinearParams& p, cudaStream_t stream) {
  const int64_t tiles =
      (static_cast<int64_t>(p.m - 1) / Block::kM + 1) * (static_cast<int64_t>(p.n - 1) / Block::kN + 1);
  if (tiles * kSplits > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  using Shape = LaunchShape<Block::kBlockThreads, Int8WgmmaShared<Block, Element, kSplits>::kBytes>;
  const auto kernel = int8_linear_wgmma<Block, Element, kSplits, Shape>;
  cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  bool weight_once = false;
  if (status == cudaSuccess) status = exceeds_half_l2(weight_once, static_cast<int64_t>(p.n) * p.k);
  weight_once = weight_once && p.m <= Block::kM;
  CUtensorMap x, weight;
  if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k, p.k, rows_of_tile(p.m, Block::kM));
  if (status == cudaSuccess) status = map_tiles(weight, p.weight, p.n, p.k, p.k, Block::kN);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kSplits, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(tiles * kSplits));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kDynamicSharedBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, p, weight_once, x, weight);
}

namespace {

template <typename Element, int kIndex = 0>
cudaError_t launch(const Int8LinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt8WgmmaTiles)) {
    return cudaErrorInvalidValue;  // int8_wgmma_tile found no tile
  } else {
    if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
    constexpr Int8WgmmaTile kTile = kInt8WgmmaTiles[kIndex];
    using Block = BlockProductSm90a<Int8Wgmma, kTile.rows, kTile.outputs, kTile.stages>;
    return launch_int8_wgmma<Block, Element, kTile.splits>(p, stream);
  }
}

}  // namespace

cudaError_t int8_linear_sm90a(const Int8LinearParams& p, cudaStream_t stream) {
  if (!int8_linear_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
