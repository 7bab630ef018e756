// int4_linear on Hopper, for more rows of x: computes out's transpose, weight times x, by wgmma. The weight is the A operand in
// registers, dequantized from shared memory; x is the B operand in shared memory.
//
// A block owns kOutputs outputs for up to kRows rows of x. A stage holds 128 of k: 1024 bytes of weights for each 16 outputs, as
// they lie in memory, then x as two halves of 64 of k, swizzled rows of 128 bytes; products of the rows behind them are not
// stored. TMA fills zeros past the end of k.
// Each quantization group is summed from zero, then scaled in fp32 and added to the accumulators; meanwhile the block's other
// warps, or the SM's other block, keep the tensor cores busy.
#pragma once

#include "int4_linear/int4_linear_fragments.cuh"
#include "primitives/block_cluster_sm90a.cuh"
#include "primitives/cluster.cuh"
#include "primitives/element.cuh"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

template <int kOutputs, int kRows, int kStages, int kReaders>
struct Int4ManyRing : TmaRing<kStages, kOutputs * 64 + kRows * 256, kReaders> {
  using Base = TmaRing<kStages, kOutputs * 64 + kRows * 256, kReaders>;
  static constexpr int kWeightBytes = kOutputs * 64, kXBytes = kRows * 128;

  using Base::Base;

  // Producer thread: fills the slabs [begin, end) of 128 of k, for outputs from n on and `rows` rows from m on.
  __device__ __forceinline__ void fill(const CUtensorMap& weight, const CUtensorMap& x, int n, int m, int rows, int begin,
                                       int end) const {
    for (int i = 0; i < end - begin; ++i) {
      const int slab = begin + i;
      Base::producer_acquire_bytes(i, kWeightBytes + rows * 256);
      Base::copy(i, 0, weight, slab * 256, n / 16);
      Base::copy(i, kWeightBytes, x, slab * 256, m);
      Base::copy(i, kWeightBytes + kXBytes, x, slab * 256 + 128, m);
    }
  }

  // The lane's 16 bytes of weights in half a stage (64 of k), for the tile of 16 outputs `n16_tile`.
  __device__ __forceinline__ uint4 weights(int i, int n16_tile, int half, int lane) const {
    return load_shared_16(Base::stage(i) + n16_tile * 1024 + half * 512 + lane * 16);
  }

  __device__ __forceinline__ uint32_t x(int i, int half) const {
    return Base::stage(i) + kWeightBytes + half * kXBytes;
  }
};

template <typename Element, int kGroup, bool kZeroPoints, int kOutputs, int kRows, typename Ring>
struct Int4ManyBlock : BlockOfCluster<FloatWgmma<Element>, kOutputs, kRows> {
  static constexpr int kXTiles = kRows / 8;
  static constexpr int kSteps = 128 / kGroup;  // groups per stage, each with its own sums
  using Steps = Int4Steps<Element, kZeroPoints>;

  // Consumer warps: accumulates the slabs of `part`.
  __device__ __forceinline__ void multiply(const Int4LinearParams& p, const Ring& ring, int first_n, Int4Part part) {
    const int slabs = part.end - part.begin, groups = p.k / kGroup;
    const int n16_tile = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Int4StepRows<Element, kGroup, kZeroPoints> rows(p, first_n + 16 * n16_tile, lane);
    Steps steps[kSteps], next[kSteps];
    load_steps(rows, part.begin, groups, next);
    for (int i = 0; i < slabs; ++i) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) steps[s] = next[s];
      load_steps(rows, part.begin + i + 1, groups, next);
      ring.consumer_wait(i);
      float c[kSteps][kXTiles][4];
      uint32_t a[2][4][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 four = ring.weights(i, n16_tile, half, lane);
        const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int s = 0; s < 4; ++s) dequantize<Element>(words[s], a[half][s], steps[half * kSteps / 2].zeros());
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          const int scale_d = s == 0 && (kSteps == 2 || half == 0) ? 0 : 1;
          FloatWgmma<Element>::run(c[half % kSteps], a[half][s], wgmma_rows(ring.x(i, half)) + 2 * s, scale_d);
        }
        wgmma_commit();
      }
      if constexpr (kSteps == 2) {
        wgmma_wait<1>();
        warpgroup_fence_operand(c[0]);
        add_scaled(this->sums[0], steps[0], c[0]);
      }
      wgmma_wait<0>();
      ring.consumer_release(i);
      warpgroup_fence_operand(c[kSteps - 1]);
      // The last slab may hold a single group of 64.
      if (kGroup == 128 || (part.begin + i) * 2 + 1 < groups) {
        add_scaled(this->sums[0], steps[kSteps - 1], c[kSteps - 1]);
      }
    }
  }

 private:
  static __device__ __forceinline__ void load_steps(const Int4StepRows<Element, kGroup, kZeroPoints>& rows, int slab,
                                                    int groups, Steps (&steps)[kSteps]) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) rows.load(min(slab * kSteps + s, groups - 1), steps[s]);
  }
};

template <typename Block, typename Ring, int kSplits>
struct Int4ManyShared {
  static constexpr int kExchange = Ring::kBytes;
  static constexpr int kBytes = kExchange + (kSplits == 2 ? Block::kExchangeBytes : 0);
  static_assert(kExchange % 16 == 0);
};

template <typename Block, typename Ring, typename Element, int kSplits, int kBlocksPerSm, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocksPerSm)
    int4_linear_many(const Int4LinearParams p, const __grid_constant__ CUtensorMap weight,
                     const __grid_constant__ CUtensorMap x) {
  static_assert(kSplits == 1 || kSplits == 2);
  constexpr int kOutputs = Block::kM, kRows = Block::kN;
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const exchange = shared + Int4ManyShared<Block, Ring, kSplits>::kExchange;
  if constexpr (kSplits == 2) Block::announce();
  const Ring ring(shared);
  const TileCoord place = TileCoord::of(blockIdx.x / kSplits, (p.m - 1) / kRows + 1, (p.n - 1) / kOutputs + 1);
  const int rows = rows_of_tile(p.m, kRows);
  const int first_m = place.m * rows, end_m = min(first_m + rows, p.m), first_n = place.n * kOutputs;
  const Int4Part part(p.k, kSplits, static_cast<int>(blockIdx.x % kSplits));
  // Stores some tiles of 16 outputs by 8 rows, from row `row` of the block on.
  const auto store = [&](const auto& sums, int row) {
    const int lane = threadIdx.x % 32, first = first_m + row + 2 * (lane % 4);
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int n = first_n + Block::warp_m() + 8 * upper + lane / 4;
      if (n >= p.n) continue;
#pragma unroll
      for (int j = 0; j < static_cast<int>(sizeof(sums) / sizeof(sums[0])); ++j) {
        Element* const out = static_cast<Element*>(p.out) + static_cast<int64_t>(first + 8 * j) * p.n + n;
        if (first + 8 * j < end_m) out[0] = rounded<Element>(sums[j][2 * upper]);
        if (first + 8 * j + 1 < end_m) out[p.n] = rounded<Element>(sums[j][2 * upper + 1]);
      }
    }
  };

  if (threadIdx.x < Block::kThreads) {
    Block block;
    block.multiply(p, ring, first_n, part);
    if constexpr (kSplits == 2) {
      block.add_up_halves(exchange, store);
    } else {
      store(block.sums[0], 0);
    }
  } else {
    if (threadIdx.x == Block::kThreads) ring.fill(weight, x, first_n, first_m, rows, part.begin, part.end);
    __syncwarp();
    if constexpr (kSplits == 2) Block::stand_by();
  }
}

template <typename Element, int kGroup, bool kZeroPoints, int kOutputs, int kRows, int kStages, int kSplits,
          int kBlocks>
cudaError_t launch_int4_many(const Int4LinearParams& p, cudaStream_t stream) {
  using Ring = Int4ManyRing<kOutputs, kRows, kStages, kOutputs / 16>;
  using Block = Int4ManyBlock<Element, kGroup, kZeroPoints, kOutputs, kRows, Ring>;
  using Shape = LaunchShape<Block::kBlockThreads, Int4ManyShared<Block, Ring, kSplits>::kBytes>;
  const auto kernel = int4_linear_many<Block, Ring, Element, kSplits, kBlocks, Shape>;
  const int64_t tiles = (static_cast<int64_t>(p.m - 1) / kRows + 1) * (static_cast<int64_t>(p.n - 1) / kOutputs + 1);
  CUtensorMap weight, x;
  cudaError_t status =
      map_plain_rows(weight, p.packed_weight, (p.n - 1) / 16 + 1, int64_t{8} * p.k, kOutputs / 16, 1024);
  if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, rows_of_tile(p.m, kRows));
  if (status != cudaSuccess) return status;
  return launch_cluster<kSplits, Shape>(kernel, tiles * kSplits, stream, p, weight, x);
}

}  // namespace warpwatch
