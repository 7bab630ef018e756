// linear_activation on Hopper for 3 to 128 rows of x: the weight is streamed once from DRAM and multiplied by wgmma, with bias
// and activation as epilogue. Bound by DRAM: 2 n k bytes, 4 n k for swiglu; at 128 rows the tensor cores would take a third of
// that time.
//
// Persistent CTAs with one TMA producer warp and one consumer warpgroup per 64 rows of x. A tile is all rows of x by `outputs`
// outputs (for swiglu, by as many rows of both weights), so no two CTAs read the same weights, which are copied with
// evict_first. x is read from L2 for each tile. K is not split, so results are reproducible bit for bit.
//
// Stage (64 of k, swizzled rows of 128 bytes): 64 or 128 rows of x, then the rows of the weight or of both. Only existing rows
// of x are copied (primitives/tile_rows.h). The other rows hold stale data, which reaches no result, since a row of the
// product depends on that row of x only.
#include <cuda_runtime.h>

#include <algorithm>

#include "linear_activation/linear_activation_epilogue.cuh"
#include "linear_activation/linear_activation_tiles.h"
#include "primitives/attributes.h"
#include "primitives/launch_shape.h"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma_heads.cuh"

namespace warpwatch {
namespace {

template <typename Epilogue, int kGroups, int kOutputs>
struct FewRowsProduct {
  using Element = typename Epilogue::Element;
  static constexpr int kRows = 64 * kGroups, kWeightRows = Epilogue::kSumsEach * kOutputs;
  static constexpr int kConsumers = 128 * kGroups;
  static constexpr int kRowsBytes = kRows * 128, kStageBytes = kRowsBytes + kWeightRows * 128;
  static constexpr int kSharedBytesOfBlock = 227 * 1024;
  static constexpr int kStages = kSharedBytesOfBlock / (kStageBytes + 16);
  using Ring = TmaRing<kStages, kStageBytes, kConsumers / 32>;
  using Shape = LaunchShape<kConsumers + 32, Ring::kBytes>;

  static __device__ __forceinline__ void run(const LinearActivationParams& p, int tiles, int stage_bytes, const CUtensorMap& x,
                                             const CUtensorMap& weight, const CUtensorMap& up_weight) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared);
    if (threadIdx.x < kConsumers) {
      multiply(p, tiles, ring);
    } else if (threadIdx.x == kConsumers) {
      copy(p, tiles, stage_bytes, ring, x, weight, up_weight);
    }
  }

 private:
  static __device__ __forceinline__ void copy(const LinearActivationParams& p, int tiles, int stage_bytes, const Ring& ring,
                                              const CUtensorMap& x, const CUtensorMap& weight,
                                              const CUtensorMap& up_weight) {
    const int slabs = (p.k - 1) / 64 + 1;
    int use = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        ring.producer_acquire_bytes(use, stage_bytes);
        ring.copy_once(use, kRowsBytes, weight, slab * 128, tile * kOutputs);
        if constexpr (Epilogue::kSumsEach == 2) {
          ring.copy_once(use, kRowsBytes + kOutputs * 128, up_weight, slab * 128, tile * kOutputs);
        }
        ring.copy(use, 0, x, slab * 128, 0);
      }
    }
  }

  static __device__ __forceinline__ void multiply(const LinearActivationParams& p, int tiles, const Ring& ring) {
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the shuffle makes it warp-uniform for the compiler
    const int slabs = (p.k - 1) / 64 + 1;
    int use = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      float sums[kWeightRows / 8][4];
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        ring.consumer_wait(use);
        warpgroup_fence_operand(sums);
        wgmma_fence();
        const uint64_t a = wgmma_rows(ring.stage(use) + group * 64 * 128);
        const uint64_t b = wgmma_rows(ring.stage(use) + kRowsBytes);
#pragma unroll
        for (int step = 0; step < 4; ++step) HeadWgmma<Element>::scores(sums, a + 2 * step, b + 2 * step, slab + step > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (slab > 0) ring.consumer_release(use - 1);
      }
      wgmma_wait<0>();
      warpgroup_fence_operand(sums);
      ring.consumer_release(use - 1);
      Epilogue::prepare(p, sums, tile * kOutputs);
      store(p, sums, tile * kOutputs);
    }
  }

  // Stores directly from registers: the results are small compared with the weight.
  static __device__ __forceinline__ void store(const LinearActivationParams& p, const float (&sums)[kWeightRows / 8][4],
                                               int first_output) {
    const int lane = threadIdx.x % 32;
    const bool pairs = p.n % 2 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = threadIdx.x / 32 * 16 + lane / 4 + 8 * half;
      if (row >= p.m) continue;
      Element* const to = static_cast<Element*>(p.out) + static_cast<int64_t>(row) * p.n;
#pragma unroll
      for (int t = 0; t < kOutputs / 8; ++t) {
        const int n = first_output + 8 * t + lane % 4 * 2;
        const float first = Epilogue::result(sums, t, 2 * half), second = Epilogue::result(sums, t, 2 * half + 1);
        if (pairs) {
          if (n < p.n) store_pair(to + n, first, second);
        } else {
          if (n < p.n) from_float(first, to[n]);
          if (n + 1 < p.n) from_float(second, to[n + 1]);
        }
      }
    }
  }
};

template <typename Epilogue, int kGroups, int kOutputs, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    linear_activation_few_rows(const LinearActivationParams p, const int tiles, const int stage_bytes,
                               const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight,
                               const __grid_constant__ CUtensorMap up_weight) {
  FewRowsProduct<Epilogue, kGroups, kOutputs>::run(p, tiles, stage_bytes, x, weight, up_weight);
}

template <typename Epilogue, int kGroups, int kOutputs>
cudaError_t launch(const LinearActivationParams& p, int processors, cudaStream_t stream) {
  using Product = FewRowsProduct<Epilogue, kGroups, kOutputs>;
  using Shape = typename Product::Shape;
  const auto kernel = linear_activation_few_rows<Epilogue, kGroups, kOutputs, Shape>;
  const int64_t row_bytes = p.k * int64_t{2};
  CUtensorMap x, weight, up_weight;
  const int rows = rows_of_tile(p.m, Product::kRows);
  cudaError_t status = map_tiles(x, p.x, p.m, row_bytes, p.x_stride * 2, rows);
  if (status == cudaSuccess) status = map_tiles(weight, p.weight, p.n, row_bytes, p.weight_stride * 2, kOutputs);
  up_weight = weight;
  if (status == cudaSuccess && Epilogue::kSumsEach == 2) {
    status = map_tiles(up_weight, p.up_weight, p.n, row_bytes, p.up_weight_stride * 2, kOutputs);
  }
  if (status == cudaSuccess) status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  const int tiles = (p.n - 1) / kOutputs + 1;
  const int stage_bytes = (rows + Product::kWeightRows) * 128;
  kernel<<<std::min(tiles, processors), Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p, tiles, stage_bytes, x, weight,
                                                                                               up_weight);
  return cudaGetLastError();
}

template <typename Epilogue>
cudaError_t launch_tile(const LinearActivationParams& p, cudaStream_t stream) {
  int processors = 0;
  if (cudaError_t error = device_attribute(cudaDevAttrMultiProcessorCount, processors); error != cudaSuccess) return error;
  if (FewRowsTiles(p.n, processors).outputs == 96) {
    return p.m <= 64 ? launch<Epilogue, 1, 96>(p, processors, stream) : launch<Epilogue, 2, 96>(p, processors, stream);
  }
  return p.m <= 64 ? launch<Epilogue, 1, 128>(p, processors, stream) : launch<Epilogue, 2, 128>(p, processors, stream);
}

template <typename Element>
cudaError_t launch_layer(const LinearActivationParams& p, cudaStream_t stream) {
  return p.up_weight == nullptr ? launch_tile<LayerEpilogue<Element>>(p, stream)
                                : launch_tile<GatedEpilogue<Element>>(p, stream);
}

}  // namespace

cudaError_t linear_activation_few_rows_sm90a(const LinearActivationParams& p, cudaStream_t stream) {
  if (p.m > kMostFewRows) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_layer<__half>(p, stream);
    case Dtype::kBFloat16: return launch_layer<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
