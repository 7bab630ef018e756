// GEMM of quantized weights with many rows of x by wgmma: computes out's transpose, weight times x. The weight is the A operand
// in registers, converted to 16 bits from shared memory; x is the B operand in shared memory. Hopper only (sm_90a).
//
// A tile is 128 outputs by up to 256 rows of x, so that each weight is converted once for as many rows as the accumulators
// allow. The kernel is persistent: as many blocks as fit on the GPU share the tiles, and while a block stores one
// tile, the next one's operands load. A stage holds 64 of k: the format's weights, then the tile's swizzled rows of 128
// bytes of x; products of the rows behind them are not stored. TMA fills zeros past the other ends.
//
// Format is the weight policy. kBytes: per stage, a multiple of 1024. Params: with x, out, m, n, k and x_stride.
// map(): tensor map of the weights. copy(): copies a stage's weights, in the producer thread. Each consumer thread
// constructs one per tile; load() reads a stage that has landed, numbers() makes the A fragment for 16 of its k, and
// finish() maps a sum to the value to store.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>

#include "primitives/attributes.h"
#include "primitives/block_product.cuh"
#include "primitives/launch_shape.h"
#include "primitives/mma.cuh"
#include "primitives/tall_product.h"
#include "primitives/tensor_map.h"
#include "primitives/tile_rows.h"
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma.cuh"

namespace warpwatch {

template <typename Element, typename Format>
struct TallProduct {
  using Params = typename Format::Params;
  static constexpr int kOutputs = kTallOutputs, kRows = kTallRows, kThreads = 2 * kOutputs;  // consumer threads
  // Covers the latency of DRAM: one stage keeps the tensor cores busy for 1024 cycles.
  static constexpr int kStages = 5;
  using Ring = TmaRing<kStages, Format::kBytes + kRows * 128, kThreads / 32>;
  static constexpr int kStagedRows = 64;  // rows of x staged at a time in the epilogue
  static constexpr int kStaged = (Ring::kBytes + 15) / 16 * 16;
  using Shape = LaunchShape<kThreads + 128, kStaged + kStagedRows * kStagedRowBytes<Element, kOutputs>>;

  static __device__ __forceinline__ void run(const Params& p, int tiles, const CUtensorMap& weight, const CUtensorMap& x) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Ring ring(shared);
    if (threadIdx.x < kThreads) {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
      multiply(p, tiles, ring, shared + kStaged);
    } else {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
      if (threadIdx.x == kThreads) copy(p, tiles, weight, x, ring);
    }
  }

  static cudaError_t launch(void (*kernel)(Params, int, CUtensorMap, CUtensorMap), const Params& p, cudaStream_t stream) {
    const int64_t tiles = int64_t{tiles_along(p.m, kRows)} * tiles_along(p.n, kOutputs);
    if (tiles > INT_MAX) return cudaErrorInvalidValue;
    int processors = 0;
    CUtensorMap weight, x;
    cudaError_t status = Format::map(weight, p);
    if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, rows_of_tile(p.m, kRows));
    if (status == cudaSuccess) status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
    if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
    if (status != cudaSuccess) return status;
    const int blocks = static_cast<int>(std::min<int64_t>(tiles, processors));
    kernel<<<blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p, static_cast<int>(tiles), weight, x);
    return cudaGetLastError();
  }

 private:
  static __host__ __device__ constexpr int tiles_along(int count, int each) { return (count - 1) / each + 1; }

  static __device__ __forceinline__ TileCoord place_of(const Params& p, int tile) {
    return TileCoord::of(tile, tiles_along(p.m, kRows), tiles_along(p.n, kOutputs));
  }

  static __device__ __forceinline__ void copy(const Params& p, int tiles, const CUtensorMap& weight, const CUtensorMap& x,
                                              const Ring& ring) {
    const int slabs = tiles_along(p.k, 64), rows = rows_of_tile(p.m, kRows);
    int use = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const TileCoord place = place_of(p, tile);
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        ring.producer_acquire_bytes(use, Format::kBytes + rows * 128);
        Format::copy(ring, use, weight, slab, place.n * kOutputs);
        ring.copy(use, Format::kBytes, x, slab * 128, place.m * rows);
      }
    }
  }

  static __device__ __forceinline__ void multiply(const Params& p, int tiles, const Ring& ring, unsigned char* staged) {
    constexpr int kAtOnce = 2;  // wgmmas in flight while the next ones' weights are converted
    const int slabs = tiles_along(p.k, 64), rows = rows_of_tile(p.m, kRows);
    int use = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const TileCoord place = place_of(p, tile);
      const int first_m = place.m * rows, end_m = min(first_m + rows, p.m);
      Format weights(p, place.n * kOutputs + threadIdx.x / 32 * 16);
      float sums[kRows / 8][4] = {};
      uint32_t a[2][kAtOnce][4] = {};
      warpgroup_fence_operand(sums);  // the zeros are written before the first wgmma reads them
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        ring.consumer_wait(use);
        weights.load(ring.stage(use), slab);
#pragma unroll
        for (int turn = 0; turn < 4 / kAtOnce; ++turn) {
          uint32_t(&numbers)[kAtOnce][4] = a[turn % 2];
#pragma unroll
          for (int step = 0; step < kAtOnce; ++step) weights.numbers(turn * kAtOnce + step, numbers[step]);
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < kAtOnce; ++step) {
            FloatWgmma<Element>::run(sums, numbers[step],
                                     wgmma_rows(ring.stage(use) + Format::kBytes) + 2 * (turn * kAtOnce + step));
          }
          wgmma_commit();
          wgmma_wait<1>();  // for those that read the other register set
          // ptxas does not track wgmmas across the loop's back edge: this keeps their A registers in use until here.
          warpgroup_fence_operand(a[1 - turn % 2]);
          if (turn == 0 && slab > 0) ring.consumer_release(use - 1);
        }
      }
      wgmma_wait<0>();
      warpgroup_fence_operand(sums);
      ring.consumer_release(use - 1);
#pragma unroll
      for (int part = 0; part < kRows / kStagedRows; ++part) {
        barrier_of_first_threads<kThreads>();  // the previously staged rows have been stored
        stage(weights, sums, part * (kStagedRows / 8), staged);
        barrier_of_first_threads<kThreads>();
        store_staged_rows<Element, kOutputs, kThreads>(staged, kStagedRows, static_cast<Element*>(p.out), end_m, p.n,
                                                       first_m + part * kStagedRows, place.n * kOutputs, threadIdx.x);
      }
    }
  }

  // Transposes a warp's sums of 16 outputs by kStagedRows rows of x, from tile `first` of 8 rows on: a staged row of kOutputs
  // outputs for each row of x.
  static __device__ __forceinline__ void stage(const Format& weights, const float (&sums)[kRows / 8][4], int first,
                                               unsigned char* staged) {
    const int lane = threadIdx.x % 32;
    // Destination rows of stmatrix, named by lanes 0 to 15: outputs 0 to 7, then 8 to 15.
    const uint32_t to = shared_address(staged) + lane % 8 * kStagedRowBytes<Element, kOutputs> +
                        (threadIdx.x / 32 * 16 + lane / 8 % 2 * 8) * static_cast<int>(sizeof(Element));
#pragma unroll
    for (int j = 0; j < kStagedRows / 8; ++j) {
      uint32_t pairs[2];
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        pairs[upper] = pack<Element>(weights.finish(sums[first + j][2 * upper], upper),
                                     weights.finish(sums[first + j][2 * upper + 1], upper));
      }
      asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};\n" ::"r"(
                       to + 8 * j * kStagedRowBytes<Element, kOutputs>),
                   "r"(pairs[0]), "r"(pairs[1])
                   : "memory");
    }
  }
};

}  // namespace warpwatch
