// flash_attention for sm_75: mma m16n8k8 on fp16. No cp.async: keys and values pass through registers to shared memory. Values
// are loaded while the scores are computed, the next keys during softmax and values.
//
// A block loops over its keys from the last tile to the first, so the masked tiles come first.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_bias.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tiles.h"
#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

struct Mma16x8x16 {
  using Element = __half;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k8(c, a[0], a[1], b0);
    mma_m16n8k8(c, a[2], a[3], b1);
  }
};

// A thread's share of copying Rows rows from global memory, through registers, to a swizzled tile.
template <int Rows, int HeadDim, int Threads>
struct TileInFlight {
  using Share = RowShare<HeadDim>;
  static constexpr int kRowsAtOnce = Threads / Share::kAcross;
  static_assert(Rows % kRowsAtOnce == 0, "every thread carries the same number of chunks");
  uint4 held[Rows / kRowsAtOnce][Share::kEach];

  // `global` is the tile's first row; rows from live_rows on are filled with zeros.
  __device__ __forceinline__ void load(const __half* global, int64_t row_stride, int live_rows) {
    const int first = threadIdx.x / Share::kAcross;
    const __half* from = global + first * row_stride + threadIdx.x % Share::kAcross * 8;
#pragma unroll
    for (int i = 0; i < Rows / kRowsAtOnce; ++i) {
      const bool live = first + i * kRowsAtOnce < live_rows;
#pragma unroll
      for (int m = 0; m < Share::kEach; ++m) {
        held[i][m] = live ? *reinterpret_cast<const uint4*>(from + m * 8 * Share::kAcross) : make_uint4(0, 0, 0, 0);
      }
      from += kRowsAtOnce * row_stride;
    }
  }
  __device__ __forceinline__ void store(unsigned char* tile) const {
    const int first = threadIdx.x / Share::kAcross;
#pragma unroll
    for (int i = 0; i < Rows / kRowsAtOnce; ++i) {
#pragma unroll
      for (int m = 0; m < Share::kEach; ++m) {
        const int chunk = threadIdx.x % Share::kAcross + m * Share::kAcross;
        *reinterpret_cast<uint4*>(tile + swizzled<2 * HeadDim>(first + i * kRowsAtOnce, chunk)) = held[i][m];
      }
    }
  }
};

template <int HeadDim, int Warps, int RowsPerWarp, int Keys, bool QInRegisters, bool Windowed, typename Params>
struct Kernel {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kQueries = Warps * RowsPerWarp;
  static constexpr int kRowTiles = RowsPerWarp / 16;
  static constexpr int kRowBytes = 2 * HeadDim;
  // Shared memory: keys, values, then the queries unless they are held in registers. In that case the queries pass through the
  // space of keys and values before the first tile. The output is staged there after the last tile.
  static constexpr int kQueriesFrom = QInRegisters ? 0 : 2 * Keys;
  static constexpr int kRows = kQueries + kQueriesFrom > 2 * Keys ? kQueries + kQueriesFrom : 2 * Keys;
  static constexpr int kSharedBytes = kRows * kRowBytes;
  static_assert(RowsPerWarp % 16 == 0 && Keys % 16 == 0, "tiles of an mma");
  using Shape = LaunchShape<kThreads, kSharedBytes>;

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char* const key_tile = shared;
    unsigned char* const value_tile = shared + Keys * kRowBytes;
    const int warp_row = threadIdx.x / 32 * RowsPerWarp;

    const FlashAttentionWork work = work_of_block<Windowed>(p, schedule, blockIdx.x, kQueries);
    if constexpr (kPacked<Params>) {
      zero_uncovered_rows<__half>(p, schedule, work, kQueries);
      if (work.first_query >= work.seq_q) return;
    }
    const int first_query = work.first_query + warp_row;  // of the warp
    const __half* q = query_rows(static_cast<const __half*>(p.q), p.q_strides, work);
    const __half* k = key_rows(static_cast<const __half*>(p.k), p.k_strides, work);
    const __half* v = key_rows(static_cast<const __half*>(p.v), p.v_strides, work);
    int first_key = ((work.keys + Keys - 1) / Keys - 1) * Keys;  // negative if no key is seen
    const int stop = Windowed ? work.first_key / Keys * Keys : 0;  // first key of the last tile in the loop

    float out[kRowTiles][HeadDim / 8][4] = {};
    OnlineSoftmax<kRowTiles> softmax;
    const auto exponents = exponents_of(p);
    typename QueriesChoice<QInRegisters, kRowTiles, HeadDim>::Type queries;
    const uint32_t lane_keys = lane_address_chunks_first<HeadDim>(shared_address(key_tile));
    const uint32_t lane_values = lane_address_rows_first<HeadDim>(shared_address(value_tile));

    TileInFlight<Keys, HeadDim, kThreads> in_flight;
    if (first_key >= stop) {
      // Beside a large output, staging all queries at once takes too many registers: they are copied a few rows at a time.
      constexpr int kAtOnce = QInRegisters ? kQueries : Keys;
      static_assert(kQueries % kAtOnce == 0, "whole pieces");
#pragma unroll 1
      for (int row = 0; row < kQueries; row += kAtOnce) {
        const int first = work.first_query + row;
        TileInFlight<kAtOnce, HeadDim, kThreads> q_in_flight;
        q_in_flight.load(q + first * p.q_strides.row, p.q_strides.row, work.seq_q - first);
        q_in_flight.store(shared + (kQueriesFrom + row) * kRowBytes);
      }
      in_flight.load(k + first_key * p.k_strides.row, p.k_strides.row, work.seq_kv - first_key);
      __syncthreads();
      queries.take(shared_address(shared) + (kQueriesFrom + warp_row) * kRowBytes);
      if constexpr (QInRegisters) __syncthreads();  // all warps hold their queries: keys may overwrite them
      in_flight.store(key_tile);
    }
    for (; first_key >= stop; first_key -= Keys) {
      __syncthreads();  // this tile's keys are stored, and all warps have read the previous tile's values
      in_flight.load(v + first_key * p.v_strides.row, p.v_strides.row, work.seq_kv - first_key);

      float scores[kRowTiles][Keys / 8][4];
      multiply_keys<Mma16x8x16, HeadDim>(scores, queries, lane_keys);
      if constexpr (kBiased<Params>) {
        const __half* bias = head_pointer(static_cast<const __half*>(p.bias), p.bias_strides, work.batch, work.head) +
                             first_query * p.bias_strides.row + first_key;
        add_bias(scores, bias, p.bias_strides.row, work.seq_q - first_query, work.seq_kv - first_key, p.bias_in_pairs,
                 p.scale);
      }
      mask_scores<Windowed>(scores, first_query, first_key, work.seq_kv, work.diagonal, p.causal, p.window);

      in_flight.store(value_tile);
      __syncthreads();  // this tile's values are stored, and all warps have read its keys
      const int next_key = first_key - Keys;
      if (next_key >= stop) in_flight.load(k + next_key * p.k_strides.row, p.k_strides.row, Keys);
      softmax.step(scores, out, exponents);
      multiply_values<Mma16x8x16, HeadDim>(out, scores, lane_values);
      if (next_key >= stop) in_flight.store(key_tile);
    }

    __syncthreads();  // all warps have read the last values: the output may overwrite them
    __half* to = query_rows(static_cast<__half*>(p.out), p.out_strides, work) +
                 first_query * p.out_strides.row;
    store_out<__half, HeadDim>(out, softmax, shared + warp_row * kRowBytes, to, p.out_strides.row,
                               work.seq_q - first_query);
    if (p.lse != nullptr) {
      store_log_sum_exp<kRowTiles>(softmax, p.scale, exponents, lse_rows(p, work) + first_query,
                                   work.seq_q - first_query);
    }
  }
};

template <int HeadDim, int Warps, int RowsPerWarp, int Keys, bool QInRegisters, bool Windowed, typename Shape,
          typename Params>
__global__ void __launch_bounds__(Shape::kThreads, 8 / Warps)
    flash_attention_sm75_kernel(const Params p, const FlashAttentionSchedule schedule) {
  Kernel<HeadDim, Warps, RowsPerWarp, Keys, QInRegisters, Windowed, Params>::run(p, schedule);
}

template <int HeadDim, bool Windowed, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  constexpr FlashAttentionTile tile = flash_attention_sm75_tile(HeadDim);
  using K = Kernel<HeadDim, tile.warps, tile.rows_per_warp, tile.keys, tile.q_in_registers, Windowed, Params>;
  using Shape = typename K::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_sm75_kernel<HeadDim, tile.warps, tile.rows_per_warp, tile.keys, tile.q_in_registers, Windowed,
                                  Shape, Params>,
      p, K::kQueries, sizeof(__half), stream);
}

template <bool Windowed, typename Params>
cudaError_t launch(const Params& p, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat16) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch_tile<64, Windowed>(p, stream);
    case 96: return launch_tile<96, Windowed>(p, stream);
    case 128: return launch_tile<128, Windowed>(p, stream);
    case 256: return launch_tile<256, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_sm75(const FlashAttentionParams& p, cudaStream_t stream) {
  return p.window > 0 ? launch<true>(p, stream) : launch<false>(p, stream);
}

cudaError_t flash_attention_sm75(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch<true>(with_window(p), stream);
}

cudaError_t flash_attention_sm75(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  return launch<true>(with_window(p), stream);
}

}  // namespace warpwatch
