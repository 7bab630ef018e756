// flash_attention for sm_80 and newer: mma m16n8k16 on fp16 or bf16, keys and values by cp.async.
//
// A block loops over its keys from the last tile to the first, so the masked tiles come first. With one stage, keys and values
// have one buffer each: values load during the scores, the next keys during softmax and values. With two stages there are two
// buffers of each: a whole tile loads while the previous one is computed, and the warps synchronise once per tile.
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_bias.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tile_copies.cuh"
#include "flash_attention/flash_attention_tiles.h"
#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

template <typename Element, int HeadDim, int Warps, int RowsPerWarp, int Keys, bool QInRegisters, int Stages,
          bool Windowed, typename Params>
struct Kernel {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kQueries = Warps * RowsPerWarp;
  static constexpr int kRowTiles = RowsPerWarp / 16;
  static constexpr int kRowBytes = 2 * HeadDim;
  static constexpr int kStageBytes = 2 * Keys * kRowBytes;  // keys, then values
  static constexpr int kSharedBytes = kQueries * kRowBytes + Stages * kStageBytes;  // queries, then the stages
  static_assert(RowsPerWarp % 16 == 0 && Keys % 16 == 0, "tiles of an mma");
  static_assert(Stages == 1 || Stages == 2, "one buffer or two");
  using Shape = LaunchShape<kThreads, kSharedBytes>;

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t queries_at = shared_address(shared);
    const uint32_t keys_at = queries_at + kQueries * kRowBytes;
    const uint32_t values_at = keys_at + Keys * kRowBytes;
    const int warp_row = threadIdx.x / 32 * RowsPerWarp;

    const FlashAttentionWork work = work_of_block<Windowed>(p, schedule, blockIdx.x, kQueries);
    if constexpr (kPacked<Params>) {
      zero_uncovered_rows<Element>(p, schedule, work, kQueries);
      if (work.first_query >= work.seq_q) return;
    }
    const int key_tiles = (work.keys + Keys - 1) / Keys;
    const int origin = Windowed ? work.first_key / Keys * Keys : 0;  // first key of the last tile; keys count from it
    const int keys_there = work.seq_kv - origin;
    int first_key = (key_tiles - 1) * Keys - origin;
    const Element* q = query_rows(static_cast<const Element*>(p.q), p.q_strides, work);
    const Element* k = key_rows(static_cast<const Element*>(p.k), p.k_strides, work) + origin * p.k_strides.row;
    const Element* v = key_rows(static_cast<const Element*>(p.v), p.v_strides, work) + origin * p.v_strides.row;
    const TileCopies<kQueries, HeadDim, kThreads, Element> q_copies(q + work.first_query * p.q_strides.row,
                                                                   p.q_strides.row, queries_at);
    TileCopies<Keys, HeadDim, kThreads, Element> k_copies(k + first_key * p.k_strides.row, p.k_strides.row, keys_at);
    TileCopies<Keys, HeadDim, kThreads, Element> v_copies(v + first_key * p.v_strides.row, p.v_strides.row, values_at);

    float out[kRowTiles][HeadDim / 8][4] = {};
    OnlineSoftmax<kRowTiles> softmax;
    const auto exponents = exponents_of(p);
    typename QueriesChoice<QInRegisters, kRowTiles, HeadDim>::Type queries;
    uint32_t lane_keys = lane_address_chunks_first<HeadDim>(keys_at);
    uint32_t lane_values = lane_address_rows_first<HeadDim>(values_at);

    // Bound for mask_seen: it takes one register where mask_scores takes three, and none is spare.
    int limit = (p.causal ? work.first_query + warp_row + work.diagonal + 1 : work.seq_kv) - origin;
    if constexpr (Windowed) asm volatile("" : "+r"(limit));

    if (first_key >= 0) {
      q_copies.start(p.q_strides.row, work.seq_q - work.first_query);
      k_copies.start(p.k_strides.row, keys_there - first_key);
      cp_async_wait<0>();
      __syncthreads();
      queries.take(queries_at + warp_row * kRowBytes);
      if constexpr (Stages == 2) v_copies.start(p.v_strides.row, keys_there - first_key);
    }
    uint32_t stage = 0;  // byte offset of the stage that holds this tile's keys and values
    for (; first_key >= 0; first_key -= Keys) {
      cp_async_wait<0>();
      __syncthreads();  // this tile's keys (2 stages: and values) have landed; all warps are done with the previous tile
      if constexpr (Stages == 2) {
        k_copies.to_previous_tile(p.k_strides.row);
        v_copies.to_previous_tile(p.v_strides.row);
        const uint32_t next = stage ^ 1;
        if (first_key > 0) {  // only the first tile of the loop can be partial
          k_copies.start(p.k_strides.row, Keys, next * kStageBytes);
          v_copies.start(p.v_strides.row, Keys, next * kStageBytes);
        }
      } else {
        v_copies.start(p.v_strides.row, keys_there - first_key);
        v_copies.to_previous_tile(p.v_strides.row);
      }

      // Hides from the compiler that these are loop-invariant: it would keep all derived addresses in 16 registers.
      asm volatile("" : "+r"(lane_keys), "+r"(lane_values));
      float scores[kRowTiles][Keys / 8][4];
      multiply_keys<Mma16x8x16<Element>, HeadDim>(scores, queries, lane_keys + stage * kStageBytes);
      if constexpr (kBiased<Params>) {
        const int live_rows = work.seq_q - work.first_query - warp_row;
        const Element* bias = head_pointer(static_cast<const Element*>(p.bias), p.bias_strides, work.batch, work.head) +
                              (work.first_query + warp_row) * p.bias_strides.row + origin + first_key;
        add_bias(scores, bias, p.bias_strides.row, live_rows, keys_there - first_key, p.bias_in_pairs, p.scale);
        if (first_key > 0) prefetch_bias<Keys>(bias - Keys, p.bias_strides.row, min(live_rows, RowsPerWarp));
      }
      if constexpr (Windowed) {
        mask_seen(scores, limit, first_key, p.causal, p.window);
      } else {
        mask_scores<false>(scores, work.first_query + warp_row, first_key, work.seq_kv, work.diagonal, p.causal, p.window);
      }

      if constexpr (Stages == 1) {
        cp_async_wait<0>();
        __syncthreads();  // this tile's values have landed, and all warps have read its keys
        k_copies.to_previous_tile(p.k_strides.row);
        if (first_key > 0) k_copies.start(p.k_strides.row, Keys);
      }
      softmax.step(scores, out, exponents);
      multiply_values<Mma16x8x16<Element>, HeadDim>(out, scores, lane_values + stage * kStageBytes);
      if constexpr (Stages == 2) stage ^= 1;
    }

    // Recomputed: the loop has no register to spare for it.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const FlashAttentionWork done = work_of_block<Windowed>(p, schedule, block, kQueries);
    const int first_query = done.first_query + warp_row;
    Element* to = query_rows(static_cast<Element*>(p.out), p.out_strides, done) +
                  first_query * p.out_strides.row;
    __syncwarp();  // only this warp has read the rows of queries that it overwrites
    store_out<Element, HeadDim>(out, softmax, shared + warp_row * kRowBytes, to, p.out_strides.row,
                                done.seq_q - first_query);
    if (p.lse != nullptr) {
      store_log_sum_exp<kRowTiles>(softmax, p.scale, exponents, lse_rows(p, done) + first_query,
                                   done.seq_q - first_query);
    }
  }
};

template <typename Element, int HeadDim, int Warps, int RowsPerWarp, int Keys, bool QInRegisters, int Stages,
          bool Windowed, typename Shape, typename Params>
__global__ void __launch_bounds__(Shape::kThreads, 8 / Warps)
    flash_attention_sm80_kernel(const Params p, const FlashAttentionSchedule schedule) {
  Kernel<Element, HeadDim, Warps, RowsPerWarp, Keys, QInRegisters, Stages, Windowed, Params>::run(p, schedule);
}

template <FlashAttentionTile kTile, typename Element, int HeadDim, bool Windowed, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  using K = Kernel<Element, HeadDim, kTile.warps, kTile.rows_per_warp, kTile.keys, kTile.q_in_registers, kTile.stages,
                   Windowed, Params>;
  using Shape = typename K::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_sm80_kernel<Element, HeadDim, kTile.warps, kTile.rows_per_warp, kTile.keys, kTile.q_in_registers,
                                  kTile.stages, Windowed, Shape, Params>,
      p, K::kQueries, sizeof(Element), stream);
}

template <typename Params>
constexpr FlashAttentionTile tile_of(int head_dim) {
  return kBiased<Params> ? flash_attention_biased_sm80_tile(head_dim) : flash_attention_sm80_tile(head_dim);
}

template <typename Element, bool Windowed, typename Params>
cudaError_t launch_head_dim(const Params& p, cudaStream_t stream) {
  switch (p.head_dim) {
    case 64: return launch_tile<tile_of<Params>(64), Element, 64, Windowed>(p, stream);
    case 96: return launch_tile<tile_of<Params>(96), Element, 96, Windowed>(p, stream);
    case 128: return launch_tile<tile_of<Params>(128), Element, 128, Windowed>(p, stream);
    case 256: return launch_tile<tile_of<Params>(256), Element, 256, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

template <bool Windowed, typename Params>
cudaError_t launch(const Params& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half, Windowed>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace warpwatch
