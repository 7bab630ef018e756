// Weights of few bits times many rows of x: out's transpose, weight times x, by wgmma; weights go from shared memory through
// registers, where they become numbers of 16 bits, x is read out of shared memory. Hopper alone (sm_90a).
//
// A tile is 128 outputs for 256 rows of x, so that a weight becomes a number once for as many rows as registers have sums for.
// As many blocks as fit on the GPU share the tiles, and while a block stores one tile's sums, the next one's operands arrive.
// A stage holds 64 of k: what the format has of weights, then 256 swizzled rows of 128 bytes of x. Beyond all ends lie zeros.
//
// Format says what weights are. kBytes: of a stage, a multiple of 1024; Params: with x, out, m, n, k and x_stride; map(): of the
// weights; copy(): a stage's weights, by the thread that copies. A thread that multiplies makes one of each tile, has load()
// look at a stage that has arrived, numbers() make A of the wgmma over 16 of its k, and finish() of each sum what is stored.
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
#include "primitives/tile_store.cuh"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma.cuh"

namespace warpwatch {

template <typename Element, typename Format>
struct TallProduct {
  using Params = typename Format::Params;
  static constexpr int kOutputs = kTallOutputs, kRows = kTallRows, kThreads = 2 * kOutputs;  // that multiply
  // More than the latency of DRAM: a stage keeps the tensor cores busy for 1024 cycles.
  static constexpr int kStages = 5;
  using Ring = TmaRing<kStages, Format::kBytes + kRows * 128, kThreads / 32>;
  static constexpr int kStagedRows = 64;  // of x at a time on their way out
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
    if (status == cudaSuccess) status = map_tiles(x, p.x, p.m, p.k * int64_t{2}, p.x_stride * 2, kRows);
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
    const int slabs = tiles_along(p.k, 64);
    int use = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const TileCoord place = place_of(p, tile);
      for (int slab = 0; slab < slabs; ++slab, ++use) {
        ring.producer_acquire(use);
        Format::copy(ring, use, weight, slab, place.n * kOutputs);
        ring.copy(use, Format::kBytes, x, slab * 128, place.m * kRows);
      }
    }
  }

  static __device__ __forceinline__ void multiply(const Params& p, int tiles, const Ring& ring, unsigned char* staged) {
    constexpr int kAtOnce = 2;  // wgmmas run while the weights of the next ones become numbers
    const int slabs = tiles_along(p.k, 64);
    int use = 0;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const TileCoord place = place_of(p, tile);
      Format weights(p, place.n * kOutputs + threadIdx.x / 32 * 16);
      float sums[kRows / 8][4] = {};
      uint32_t a[2][kAtOnce][4] = {};
      warpgroup_fence_operand(sums);  // the zeros are there before the first wgmma is
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
          wgmma_wait<1>();  // for those that read the other numbers
          // Which ptxas forgets from one turn of the loop over slabs to the next: their registers are in use until here.
          warpgroup_fence_operand(a[1 - turn % 2]);
          if (turn == 0 && slab > 0) ring.consumer_release(use - 1);
        }
      }
      wgmma_wait<0>();
      warpgroup_fence_operand(sums);
      ring.consumer_release(use - 1);
#pragma unroll
      for (int part = 0; part < kRows / kStagedRows; ++part) {
        barrier_of_first_threads<kThreads>();  // what was staged before has left
        stage(weights, sums, part * (kStagedRows / 8), staged);
        barrier_of_first_threads<kThreads>();
        store_staged_rows<Element, kOutputs, kThreads>(staged, kStagedRows, static_cast<Element*>(p.out), p.m, p.n,
                                                       place.m * kRows + part * kStagedRows, place.n * kOutputs, threadIdx.x);
      }
    }
  }

  // A warp's sums of 16 outputs by kStagedRows rows of x, from tile `first` of 8 rows on, turned around: a staged row for each
  // row of x, of kOutputs outputs.
  static __device__ __forceinline__ void stage(const Format& weights, const float (&sums)[kRows / 8][4], int first,
                                               unsigned char* staged) {
    const int lane = threadIdx.x % 32;
    // The rows of 16 bytes that lanes 0 to 15 name: of outputs 0 to 7, then of 8 to 15.
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
