// int8_weight_linear on Hopper: fp16 and bf16 by wgmma, slabs by TMA.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>

#include "int8_weight_linear/int8_weight_linear.h"
#include "int8_weight_linear/int8_weight_linear_bytes.cuh"
#include "int8_weight_linear/int8_weight_linear_tiles.h"
#include "primitives/attributes.h"
#include "primitives/block_cluster_sm90a.cuh"
#include "primitives/element.cuh"
#include "primitives/launch_shape.h"
#include "primitives/mma.cuh"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"

namespace warpwatch {

// Computes out's transpose, weight times x, by wgmma. The weight is the A operand in registers, converted from shared memory; x
// is the B operand in shared memory.
//
// A block owns kOutputs outputs for up to kRows rows of x. A stage holds 128 of k: kOutputs weight rows of 128 bytes, then x as
// two halves of 64 of k, rows of 128 bytes; all swizzled. Products of the rows behind them are not stored. The 16 of k of one wgmma are one 16-byte chunk of a weight
// row, of which thread t = lane % 4 needs bytes 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.

template <typename Element, int kOutputs, int kRows, int kStages>
struct Int8WeightBlock : BlockOfCluster<FloatWgmma<Element>, kOutputs, kRows> {
  using Cluster = BlockOfCluster<FloatWgmma<Element>, kOutputs, kRows>;
  static constexpr int kXBytes = kRows * 128;  // for 64 of k
  static constexpr int kWeightBytes = kOutputs * 128;
  using Ring = TmaRing<kStages, kWeightBytes + 2 * kXBytes, kOutputs / 16>;
  static constexpr int kSharedBytes = Ring::kBytes;

  // Accumulates the slabs [begin, end) of 128 of k for `rows` rows of x. All threads of the block call it; returns true in the
  // consumer threads.
  // `once`: no other block reads these weights, so they are copied with evict_first.
  __device__ __forceinline__ bool run(const CUtensorMap& weight, const CUtensorMap& x, int n, int m, int rows, int begin,
                                      int end, bool once, void* shared) {
    const Ring ring(shared);
    const int slabs = end - begin;
    if (threadIdx.x < Cluster::Shape::kThreads) {
      multiply(ring, slabs);
      return true;
    } else {
      for (int i = 0; i < slabs && threadIdx.x == Cluster::Shape::kThreads; ++i) {
        ring.producer_acquire_bytes(i, kWeightBytes + rows * 256);
        if (once) {
          ring.copy_once(i, 0, weight, (begin + i) * 128, n);
        } else {
          ring.copy(i, 0, weight, (begin + i) * 128, n);
        }
        ring.copy(i, kWeightBytes, x, (begin + i) * 256, m);
        ring.copy(i, kWeightBytes + kXBytes, x, (begin + i) * 256 + 128, m);
      }
      __syncwarp();
      return false;
    }
  }

 private:
  __device__ __forceinline__ void multiply(const Ring& ring, int slabs) {
    // wgmmas in flight while the next ones' weights are converted; a slab has eight.
    constexpr int kAtOnce = 4;
    uint32_t a[2][kAtOnce][4] = {};
    warpgroup_fence_operand(this->sums[0]);  // the zeros are written before the first wgmma reads them
    for (int i = 0; i < slabs; ++i) {
      ring.consumer_wait(i);
#pragma unroll
      for (int turn = 0; turn < 8 / kAtOnce; ++turn) {
        uint32_t(&numbers)[kAtOnce][4] = a[turn % 2];
#pragma unroll
        for (int step = 0; step < kAtOnce; ++step) load_weights(ring.stage(i), turn * kAtOnce + step, numbers[step]);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kAtOnce; ++step) {
          const int chunk = turn * kAtOnce + step;
          const uint64_t x = wgmma_rows(ring.stage(i) + kWeightBytes + chunk / 4 * kXBytes) + 2 * (chunk % 4);
          FloatWgmma<Element>::run(this->sums[0], numbers[step], x);
        }
        wgmma_commit();
        wgmma_wait<1>();  // for those that read the other register set
        // ptxas does not track wgmmas across the loop's back edge: this keeps their A registers in use until here.
        warpgroup_fence_operand(a[1 - turn % 2]);
        if (turn == 0 && i > 0) ring.consumer_release(i - 1);
      }
    }
    wgmma_wait<0>();
    warpgroup_fence_operand(this->sums[0]);
  }

  // A fragment of the wgmma for a chunk of 16 of k: rows g and g + 8 of the warp's 16 outputs.
  static __device__ __forceinline__ void load_weights(uint32_t stage, int chunk, uint32_t (&a)[4]) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const uint32_t at = stage + swizzled<128>(row + 8 * upper, chunk) + 2 * (lane % 4);
      const uint32_t word = load_two_bytes(at) | load_two_bytes(at + 8) << 16;
      widen_bytes<Element>(word, a[upper], a[upper + 2]);
    }
  }

  static __device__ __forceinline__ uint32_t load_two_bytes(uint32_t address) {
    uint16_t value;
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(value) : "r"(address) : "memory");
    return value;
  }
};

// Scales and transposes a warp's sums of 16 outputs, from first_n on, by 8 * kTiles rows of x: a staged row of kOutputs outputs
// for each row of x.
template <typename Element, int kOutputs, int kTiles>
__device__ __forceinline__ void stage_scaled_outputs(const Int8WeightLinearParams& p, const float (&sums)[kTiles][4],
                                                     int first_n, unsigned char* staged) {
  const int lane = threadIdx.x % 32;
  float scales[2], shifts[2];
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int n = min(first_n + lane / 4 + 8 * upper, p.n - 1);
    scales[upper] = __ldg(p.weight_scales + n);
    shifts[upper] = p.bias == nullptr ? 0.0f : as_float(static_cast<const Element*>(p.bias)[n]);
  }
  // Destination rows of stmatrix, named by lanes 0 to 15: outputs 0 to 7, then 8 to 15.
  const uint32_t to = shared_address(staged) + lane % 8 * kStagedRowBytes<Element, kOutputs> +
                      (threadIdx.x / 32 * 16 + lane / 8 % 2 * 8) * static_cast<int>(sizeof(Element));
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    uint32_t pairs[2];
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      pairs[upper] = pack<Element>(sums[j][2 * upper] * scales[upper] + shifts[upper],
                                   sums[j][2 * upper + 1] * scales[upper] + shifts[upper]);
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};\n" ::"r"(
                     to + 8 * j * kStagedRowBytes<Element, kOutputs>),
                 "r"(pairs[0]), "r"(pairs[1])
                 : "memory");
  }
}

template <typename Block, typename Element, int kSplits>
struct Int8WeightShared {
  static constexpr int kStagedBytes = Block::kN / kSplits * kStagedRowBytes<Element, Block::kM>;
  static constexpr int kRingBytes = std::max(Block::kSharedBytes, kStagedBytes);  // rows are staged over the ring
  static constexpr int kExchange = (kRingBytes + 15) / 16 * 16;
  static constexpr int kBytes = kExchange + (kSplits == 2 ? Block::kExchangeBytes : 0);
};

template <typename Block, typename Element, int kSplits, int kBlocksPerSm, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocksPerSm)
    int8_weight_linear_wgmma(const Int8WeightLinearParams p, const bool weight_once,
                             const __grid_constant__ CUtensorMap weight,
                             const __grid_constant__ CUtensorMap x) {
  static_assert(kSplits == 1 || kSplits == 2);
  constexpr int kOutputs = Block::kM, kRows = Block::kN;
  extern __shared__ __align__(1024) unsigned char shared[];
  const TileCoord place =
      TileCoord::of(blockIdx.x / kSplits, (p.m - 1) / kRows + 1, (p.n - 1) / kOutputs + 1);
  const int rows = rows_of_tile(p.m, kRows);
  const int first_m = place.m * rows, end_m = min(first_m + rows, p.m), first_n = place.n * kOutputs;
  const int slabs = (p.padded_k - 1) / 128 + 1, part = (slabs - 1) / kSplits + 1;
  const int begin = min(static_cast<int>(blockIdx.x % kSplits) * part, slabs), end = min(begin + part, slabs);
  // Called by the consumer threads once all of them have read the ring.
  const auto store = [&](const auto& sums, int row) {
    stage_scaled_outputs<Element, kOutputs>(p, sums, first_n + threadIdx.x / 32 * 16, shared);
    barrier_of_first_threads<Block::kThreads>();
    store_staged_rows<Element, kOutputs, Block::kThreads>(shared, kRows / kSplits, static_cast<Element*>(p.out), end_m,
                                                          p.n, first_m + row, first_n, threadIdx.x);
  };

  prefetch_to_l2(p.weight_scales + first_n, min(kOutputs, p.n - first_n));
  if (p.bias != nullptr) {
    prefetch_to_l2(static_cast<const Element*>(p.bias) + first_n, min(kOutputs, p.n - first_n));
  }
  unsigned char* const exchange = shared + Int8WeightShared<Block, Element, kSplits>::kExchange;
  if constexpr (kSplits == 2) Block::announce();
  Block block;
  const bool multiplies = block.run(weight, x, first_n, first_m, rows, begin, end, weight_once, shared);
  if constexpr (kSplits == 2) {
    block.add_up_halves(exchange, store);
  } else if (multiplies) {
    barrier_of_first_threads<Block::kThreads>();
    store(block.sums[0], 0);
  }
}

template <typename Element, int kOutputs, int kRows, int kStages, int kSplits, int kBlocksPerSm>
cudaError_t launch_int8_weight_wgmma(const Int8WeightLinearParams& p, cudaStream_t stream) {
  using Block = Int8WeightBlock<Element, kOutputs, kRows, kStages>;
  using Shape = LaunchShape<Block::kBlockThreads, Int8WeightShared<Block, Element, kSplits>::kBytes>;
  const auto kernel = int8_weight_linear_wgmma<Block, Element, kSplits, kBlocksPerSm, Shape>;
  cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  bool weight_once = false;
  if (status == cudaSuccess) status = exceeds_half_l2(weight_once, static_cast<int64_t>(p.n) * p.padded_k);
  weight_once = weight_once && p.m <= kRows;
  CUtensorMap weight, x;
  if (status == cudaSuccess) status = map_tiles(weight, p.weight, p.n, p.padded_k, p.padded_k, kOutputs);
  if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, rows_of_tile(p.m, kRows));
  if (status != cudaSuccess) return status;
  const int64_t tiles = (static_cast<int64_t>(p.m - 1) / kRows + 1) * (static_cast<int64_t>(p.n - 1) / kOutputs + 1);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kSplits, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(tiles * kSplits));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kDynamicSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, p, weight_once, weight, x);
}

namespace {

template <typename Element, int kIndex = 0>
cudaError_t launch(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kInt8WeightWgmmaTiles)) {
    return cudaErrorInvalidValue;  // int8_weight_wgmma_tile found no tile
  } else {
    if (p.tile != kIndex) return launch<Element, kIndex + 1>(p, stream);
    constexpr Int8WeightWgmmaTile kTile = kInt8WeightWgmmaTiles[kIndex];
    return launch_int8_weight_wgmma<Element, kTile.outputs, kTile.rows, kTile.stages, kTile.splits,
                                    kTile.blocks_per_sm>(p, stream);
  }
}

}  // namespace

cudaError_t int8_weight_linear_sm90a(const Int8WeightLinearParams& p, cudaStream_t stream) {
  if (!int8_weight_wgmma_takes(p)) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
