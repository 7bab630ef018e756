// int4_linear on Hopper, for enough rows of x to keep the tensor cores busy: computes out's transpose, weight times x, by
// wgmma. The weight is the A operand in registers, dequantized from shared memory; x is the B operand in shared memory.
//
// A block owns kOutputs outputs for up to kRows rows of x. A stage holds 64 of k: 512 bytes of weights for each 16 outputs, as
// they lie in memory, then the swizzled rows of 128 bytes of x; products of the rows behind them are not stored. TMA fills zeros
// past the ends of k and outputs. Each quantization group has its own sums, which are scaled in fp32 and added to the
// accumulators while the next group's wgmmas run.
#pragma once

#include <algorithm>

#include "int4_linear/int4_linear_fragments.cuh"
#include "primitives/block_cluster_sm90a.cuh"
#include "primitives/cluster.cuh"
#include "primitives/element.cuh"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

template <int kOutputs, int kRows, int kStages>
struct Int4WideRing : TmaRing<kStages, kOutputs * 32 + kRows * 128, kOutputs / 16> {
  using Base = TmaRing<kStages, kOutputs * 32 + kRows * 128, kOutputs / 16>;
  static constexpr int kWeightBytes = kOutputs * 32;

  using Base::Base;

  // Producer thread: fills `count` * 64 of k from `begin` * 64 on, for outputs from n on and `rows` rows from m on.
  __device__ __forceinline__ void fill(const CUtensorMap& weight, const CUtensorMap& x, int n, int m, int rows, int begin,
                                       int count) const {
    for (int i = 0; i < count; ++i) {
      Base::producer_acquire_bytes(i, kWeightBytes + rows * 128);
      Base::copy(i, 0, weight, (begin + i) * 128, n / 16);
      Base::copy(i, kWeightBytes, x, (begin + i) * 128, m);
    }
  }

  // The lane's 16 bytes of weights in a stage, for the tile of 16 outputs `n16_tile`.
  __device__ __forceinline__ uint4 weights(int i, int n16_tile, int lane) const {
    return load_shared_16(Base::stage(i) + n16_tile * 512 + lane * 16);
  }

  __device__ __forceinline__ uint32_t x(int i) const { return Base::stage(i) + kWeightBytes; }
};

template <typename Element, int kGroup, bool kZeroPoints, int kOutputs, int kRows, typename Ring>
struct Int4WideBlock : BlockOfCluster<FloatWgmma<Element>, kOutputs, kRows> {
  static constexpr int kTiles = kRows / 8;
  using Steps = Int4Steps<Element, kZeroPoints>;
  using Rows = Int4StepRows<Element, kGroup, kZeroPoints>;

  // Consumer warps: accumulates `count` groups from `begin` on.
  __device__ __forceinline__ void multiply(const Int4LinearParams& p, const Ring& ring, int first_n, int begin, int count) {
    const int lane = threadIdx.x % 32, last = p.k / kGroup - 1;
    const Rows rows(p, first_n + threadIdx.x / 32 * 16, lane);
    Steps steps[2];
    rows.load(min(begin, last), steps[0]);
    steps[1] = steps[0];
    steps[1].scales[0] = steps[1].scales[1] = rounded<Element>(0.0f);
    uint32_t a[2][kAtOnce][4];
    float c[2][kTiles][4] = {};  // c[1] holds the zero sums of a group before the first
    warpgroup_fence_operand(c[1]);
    for (int first = 0; first + 1 < count; first += 2) {
      add_group<0>(ring, rows, first, min(begin + first + 1, last), steps, a, c);
      add_group<1>(ring, rows, first + 1, min(begin + first + 2, last), steps, a, c);
      // ptxas tracks in-flight wgmmas within a loop iteration, but not across its back edge.
      wgmma_wait<0>();
      warpgroup_fence_operand(c[1]);
    }
    if (count % 2 == 1) {
      add_group<0>(ring, rows, count - 1, last, steps, a, c);
      wgmma_wait<0>();
      warpgroup_fence_operand(c[0]);
      add_scaled(this->sums[0], steps[0], c[0]);
    } else {
      add_scaled(this->sums[0], steps[1], c[1]);
    }
  }

 private:
  static constexpr int kAtOnce = 2;  // wgmmas in flight while the next ones' weights are dequantized

  // Issues the products of group `group` into c[kBuffer] and leaves the last ones in flight. Meanwhile it scales the previous
  // group's sums and loads the scales of the next group, number `next` of the whole matrix.
  template <int kBuffer>
  __device__ __forceinline__ void add_group(const Ring& ring, const Rows& rows, int group, int next, Steps (&steps)[2],
                                            uint32_t (&a)[2][kAtOnce][4], float (&c)[2][kTiles][4]) {
    const Int4Zeros<Element> minus = steps[kBuffer].zeros();
#pragma unroll
    for (int part = 0; part < kGroup / 64; ++part) {
      const int i = group * (kGroup / 64) + part;
      ring.consumer_wait(i);
      const uint4 four = ring.weights(i, threadIdx.x / 32, threadIdx.x % 32);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int turn = 0; turn < 4 / kAtOnce; ++turn) {
        uint32_t(&numbers)[kAtOnce][4] = a[turn % 2];
#pragma unroll
        for (int step = 0; step < kAtOnce; ++step) {
          dequantize<Element>(words[turn * kAtOnce + step], numbers[step], minus);
        }
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kAtOnce; ++step) {
          const int scale_d = part == 0 && turn == 0 && step == 0 ? 0 : 1;
          FloatWgmma<Element>::run(c[kBuffer], numbers[step], wgmma_rows(ring.x(i)) + 2 * (turn * kAtOnce + step), scale_d);
        }
        wgmma_commit();
        wgmma_wait<1>();  // for those that read the other register set
        if (turn == 0 && i > 0) ring.consumer_release(i - 1);
        if (part == 0 && turn == 0) {
          warpgroup_fence_operand(c[1 - kBuffer]);
          add_scaled(this->sums[0], steps[1 - kBuffer], c[1 - kBuffer]);
          rows.load(next, steps[1 - kBuffer]);
        }
      }
    }
  }
};

// Transposes a warp's sums of 16 outputs by 8 * kTiles rows of x: a staged row of kOutputs outputs for each row of x.
template <typename Element, int kOutputs, int kTiles>
__device__ __forceinline__ void stage_outputs(const float (&sums)[kTiles][4], unsigned char* staged) {
  const int lane = threadIdx.x % 32;
  // Destination rows of stmatrix, named by lanes 0 to 15: outputs 0 to 7, then 8 to 15.
  const uint32_t to = shared_address(staged) + lane % 8 * kStagedRowBytes<Element, kOutputs> +
                      (threadIdx.x / 32 * 16 + lane / 8 % 2 * 8) * static_cast<int>(sizeof(Element));
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};\n" ::"r"(
                     to + 8 * j * kStagedRowBytes<Element, kOutputs>),
                 "r"(pack<Element>(sums[j][0], sums[j][1])), "r"(pack<Element>(sums[j][2], sums[j][3]))
                 : "memory");
  }
}

template <typename Block, typename Element, typename Ring, int kSplits>
struct Int4WideShared {
  static constexpr int kStagedBytes = Block::kN / kSplits * kStagedRowBytes<Element, Block::kM>;
  static constexpr int kExchange = (std::max(Ring::kBytes, kStagedBytes) + 15) / 16 * 16;
  static constexpr int kBytes = kExchange + (kSplits == 2 ? Block::kExchangeBytes : 0);
};

template <typename Block, typename Ring, typename Element, int kGroup, int kSplits, int kBlocks, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    int4_linear_wide(const Int4LinearParams p, const __grid_constant__ CUtensorMap weight,
                     const __grid_constant__ CUtensorMap x) {
  static_assert(kSplits == 1 || kSplits == 2);
  constexpr int kOutputs = Block::kM, kRows = Block::kN, kThreads = Block::kThreads;
  constexpr bool kMovesRegisters = Shape::kThreads == kThreads + 128;
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const exchange = shared + Int4WideShared<Block, Element, Ring, kSplits>::kExchange;
  if constexpr (kSplits == 2) Block::announce();
  const Ring ring(shared);
  const TileCoord place = TileCoord::of(blockIdx.x / kSplits, (p.m - 1) / kRows + 1, (p.n - 1) / kOutputs + 1);
  const int rows = rows_of_tile(p.m, kRows);
  const int first_m = place.m * rows, end_m = min(first_m + rows, p.m), first_n = place.n * kOutputs;
  const int groups = p.k / kGroup, share = (groups - 1) / kSplits + 1;
  const int begin = static_cast<int>(blockIdx.x % kSplits) * share, count = min(share, groups - begin);
  // Called by the consumer threads once all of them have read the ring.
  const auto store = [&](const auto& sums, int row) {
    stage_outputs<Element, kOutputs>(sums, shared);
    barrier_of_first_threads<kThreads>();
    store_staged_rows<Element, kOutputs, kThreads>(shared, kRows / kSplits, static_cast<Element*>(p.out), end_m, p.n,
                                                   first_m + row, first_n, threadIdx.x);
  };

  if (threadIdx.x < kThreads) {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
    Block block;
    block.multiply(p, ring, first_n, begin, count);
    if constexpr (kSplits == 2) {
      block.add_up_halves(exchange, store);
    } else {
      barrier_of_first_threads<kThreads>();
      store(block.sums[0], 0);
    }
  } else {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
    constexpr int kStagesOfGroup = kGroup / 64;
    if (threadIdx.x == kThreads) {
      ring.fill(weight, x, first_n, first_m, rows, begin * kStagesOfGroup, count * kStagesOfGroup);
    }
    __syncwarp();
    if constexpr (kSplits == 2) Block::stand_by();
  }
}

template <typename Element, int kGroup, bool kZeroPoints, int kOutputs, int kRows, int kStages, int kSplits, int kBlocks>
cudaError_t launch_int4_wide(const Int4LinearParams& p, cudaStream_t stream) {
  using Ring = Int4WideRing<kOutputs, kRows, kStages>;
  using Block = Int4WideBlock<Element, kGroup, kZeroPoints, kOutputs, kRows, Ring>;
  // 192 accumulators per thread do not fit in the registers that three warps per scheduler get. So a whole warpgroup acts as
  // producer and gives its registers to the two consumer warpgroups (setmaxnreg).
  using Shape = LaunchShape<2 * kOutputs + (kRows == 128 && kOutputs == 128 ? 128 : 32),
                            Int4WideShared<Block, Element, Ring, kSplits>::kBytes>;
  const auto kernel = int4_linear_wide<Block, Ring, Element, kGroup, kSplits, kBlocks, Shape>;
  const int64_t tiles = (static_cast<int64_t>(p.m - 1) / kRows + 1) * (static_cast<int64_t>(p.n - 1) / kOutputs + 1);
  CUtensorMap weight, x;
  cudaError_t status =
      map_plain_rows(weight, p.packed_weight, (p.n - 1) / 16 + 1, int64_t{8} * p.k, kOutputs / 16, 512);
  if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, rows_of_tile(p.m, kRows));
  if (status != cudaSuccess) return status;
  return launch_cluster<kSplits, Shape>(kernel, tiles * kSplits, stream, p, weight, x);
}

}  // namespace warpwatch
