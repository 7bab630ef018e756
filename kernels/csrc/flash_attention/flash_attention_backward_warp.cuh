// The backward pass on mma tensor cores; shared by sm_75 and sm_80.
//
// `QueryGradient` has the structure of the forward pass: a block owns queries and loops over keys. `KeyGradient` mirrors it: a
// block owns keys and loops over the queries of all heads that share them. There the scores are transposed (rows are keys), so
// weights and ds are already laid out as A operands.
// Every problem has a window; without one the window spans all keys.
// No software pipeline: a block waits for each tile. Other blocks on the same SM hide that latency.
//
// Family is an architecture's policy: Element; Mma, as in flash_attention_warp.cuh; Copies<Rows, HeadDim, Threads>, a thread's
// share of copying tiles to shared memory, as TileCopies in flash_attention_tile_copies.cuh; wait(), which returns when the
// copies that the thread started have landed.
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

// Takes the place of the softmax in store_out: multiplies all rows by one factor.
struct Factor {
  float value;
  __device__ __forceinline__ float normalizer(int, int) const { return value; }
};

template <typename Family, int HeadDim, int Warps, int Keys>
struct QueryGradient {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kQueries = 16 * Warps;
  static constexpr int kRowBytes = 2 * HeadDim;
  static constexpr int kSharedBytes = 2 * (kQueries + Keys) * kRowBytes;  // queries, d_out, keys, values
  using Shape = LaunchShape<kThreads, kSharedBytes>;
  using Element = typename Family::Element;
  using Mma = typename Family::Mma;
  template <int TileRows>
  using Copies = typename Family::template Copies<TileRows, HeadDim, kThreads>;

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p,
                                             const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const FlashAttentionParams& f = p.forward;
    const uint32_t queries_at = shared_address(shared);
    const uint32_t d_out_at = queries_at + kQueries * kRowBytes;
    const uint32_t keys_at = d_out_at + kQueries * kRowBytes;
    const uint32_t values_at = keys_at + Keys * kRowBytes;
    const int warp_row = threadIdx.x / 32 * 16;
    const int lane = threadIdx.x % 32;

    const FlashAttentionWork work = work_of_block<true>(f, schedule, blockIdx.x, kQueries);
    const int first_query = work.first_query + warp_row;
    int first_key = ((work.keys + Keys - 1) / Keys - 1) * Keys;  // negative if no key is seen
    const int stop = work.first_key / Keys * Keys;
    const Element* q = head_pointer(static_cast<const Element*>(f.q), f.q_strides, work.batch, work.head);
    const Element* k = head_pointer(static_cast<const Element*>(f.k), f.k_strides, work.batch, work.head_kv);
    const Element* v = head_pointer(static_cast<const Element*>(f.v), f.v_strides, work.batch, work.head_kv);
    const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, work.batch, work.head);
    const Copies<kQueries> q_copies(q + work.first_query * f.q_strides.row,
                                                                   f.q_strides.row, queries_at);
    const Copies<kQueries> d_out_copies(
        d_out + work.first_query * p.d_out_strides.row, p.d_out_strides.row, d_out_at);
    Copies<Keys> k_copies(k + first_key * f.k_strides.row, f.k_strides.row, keys_at);
    Copies<Keys> v_copies(v + first_key * f.v_strides.row, f.v_strides.row, values_at);
    if (first_key >= stop) {
      q_copies.start(f.q_strides.row, f.seq_q - work.first_query);
      d_out_copies.start(p.d_out_strides.row, f.seq_q - work.first_query);
    }

    Shift shift[2];  // of the lane's two rows
    float delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + lane / 4 + 8 * half;
      const int64_t row = (int64_t{work.batch} * f.heads_q + work.head) * f.seq_q + query;
      if (query < f.seq_q) shift[half] = Shift(f.lse[row]);
      delta[half] = query < f.seq_q ? p.delta[row] : 0.0f;
    }
    QueriesInShared<1, HeadDim> queries;
    QueriesInShared<1, HeadDim> d_outs;
    queries.take(queries_at + warp_row * kRowBytes);
    d_outs.take(d_out_at + warp_row * kRowBytes);
    const uint32_t lane_keys = lane_address_chunks_first<HeadDim>(keys_at);
    const uint32_t lane_values = lane_address_chunks_first<HeadDim>(values_at);
    const uint32_t lane_key_rows = lane_address_rows_first<HeadDim>(keys_at);

    float dq[1][HeadDim / 8][4] = {};
    for (; first_key >= stop; first_key -= Keys) {
      __syncthreads();  // all warps are done with the previous tile
      k_copies.start(f.k_strides.row, f.seq_kv - first_key);
      v_copies.start(f.v_strides.row, f.seq_kv - first_key);
      k_copies.to_previous_tile(f.k_strides.row);
      v_copies.to_previous_tile(f.v_strides.row);
      Family::wait();
      __syncthreads();  // this tile has landed, and before the first one the queries

      float scores[1][Keys / 8][4];
      multiply_keys<Mma, HeadDim>(scores, queries, lane_keys);
      mask_seen(scores, f.causal ? first_query + work.diagonal + 1 : f.seq_kv, first_key, f.causal, f.window);
      float d_weights[1][Keys / 8][4];
      multiply_keys<Mma, HeadDim>(d_weights, d_outs, lane_values);
#pragma unroll
      for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const float weight = exp2_approximate(shift[c / 2].exponent(scores[0][n][c], f.scale));
          scores[0][n][c] = weight * (d_weights[0][n][c] - delta[c / 2]);
        }
      }
      multiply_values<Mma, HeadDim>(dq, scores, lane_key_rows);
    }

    Element* to = head_pointer(static_cast<Element*>(p.dq), p.dq_strides, work.batch, work.head) +
                  first_query * p.dq_strides.row;
    __syncwarp();  // only this warp has read the rows of queries that it overwrites
    store_out<Element, HeadDim>(dq, Factor{f.scale}, shared + warp_row * kRowBytes, to, p.dq_strides.row,
                                f.seq_q - first_query);
  }
};

// Which of dk and dv a block computes. Both together take 2 * HeadDim registers per thread: too many at head_dim 256.
enum class KeyGradients { kBoth, kKeys, kValues };

template <typename Family, int HeadDim, int Warps, int Queries, KeyGradients Which>
struct KeyGradient {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kKeys = 16 * Warps;
  static constexpr int kRowBytes = 2 * HeadDim;
  // Keys, values, queries, d_out; shift and delta of each query.
  static constexpr int kSharedBytes = 2 * (kKeys + Queries) * kRowBytes + Queries * int(sizeof(Shift) + sizeof(float));
  static constexpr bool kWithKeys = Which != KeyGradients::kValues;
  static constexpr bool kWithValues = Which != KeyGradients::kKeys;
  static_assert(Queries <= kThreads, "a thread brings one query's shift and delta");
  using Shape = LaunchShape<kThreads, kSharedBytes>;
  using Element = typename Family::Element;
  using Mma = typename Family::Mma;
  template <int TileRows>
  using Copies = typename Family::template Copies<TileRows, HeadDim, kThreads>;

  // Sets masked scores to -inf; rows are keys from first_key on, columns are queries from first_query on. Keys past the
  // end need no mask, as their rows are not stored; nor do queries past the end, whose shift is infinite.
  static __device__ __forceinline__ void mask(float (&scores)[1][Queries / 8][4], int first_key, int first_query,
                                              int diagonal, int window) {
    const bool all_new_seen = first_key + 15 <= first_query + diagonal;
    const bool all_old_seen = first_key > first_query + Queries - 1 + diagonal - window;
    if (all_new_seen && all_old_seen) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < Queries / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        // Distance of this key from the newest key that the query sees.
        const int behind = first_query + 8 * n + 2 * (lane % 4) + c % 2 + diagonal - first_key - lane / 4 - 8 * (c / 2);
        if (unsigned(behind) >= unsigned(window)) scores[0][n][c] = -INFINITY;
      }
    }
  }

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const FlashAttentionParams& f = p.forward;
    const uint32_t keys_at = shared_address(shared);
    const uint32_t values_at = keys_at + kKeys * kRowBytes;
    const uint32_t queries_at = values_at + kKeys * kRowBytes;
    const uint32_t d_out_at = queries_at + Queries * kRowBytes;
    Shift* const shift = reinterpret_cast<Shift*>(shared + 2 * (kKeys + Queries) * kRowBytes);
    float* const delta = reinterpret_cast<float*>(shift + Queries);
    const int warp_row = threadIdx.x / 32 * 16;
    const int lane = threadIdx.x % 32;

    const KeyWork work = key_work_of_block(f, blockIdx.x, kKeys, Queries);
    const int batch = work.batch;
    const int head_kv = work.head_kv;
    const int first_key = work.first_key;
    const int group = f.heads_q / f.heads_kv;

    const Element* k = head_pointer(static_cast<const Element*>(f.k), f.k_strides, batch, head_kv);
    const Element* v = head_pointer(static_cast<const Element*>(f.v), f.v_strides, batch, head_kv);
    const Copies<kKeys> k_copies(k + first_key * f.k_strides.row, f.k_strides.row,
                                                                keys_at);
    const Copies<kKeys> v_copies(v + first_key * f.v_strides.row, f.v_strides.row,
                                                                values_at);
    k_copies.start(f.k_strides.row, f.seq_kv - first_key);
    v_copies.start(f.v_strides.row, f.seq_kv - first_key);
    QueriesInShared<1, HeadDim> keys;
    QueriesInShared<1, HeadDim> values;
    keys.take(keys_at + warp_row * kRowBytes);
    values.take(values_at + warp_row * kRowBytes);
    const uint32_t lane_queries = lane_address_chunks_first<HeadDim>(queries_at);
    const uint32_t lane_query_rows = lane_address_rows_first<HeadDim>(queries_at);
    constexpr uint32_t kToDOut = Queries * kRowBytes;  // byte offset from the tile of queries to that of d_out

    float dk[1][kWithKeys ? HeadDim / 8 : 1][4] = {};
    float dv[1][kWithValues ? HeadDim / 8 : 1][4] = {};
    for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
      const Element* q = head_pointer(static_cast<const Element*>(f.q), f.q_strides, batch, head);
      const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, batch, head);
      const int64_t first_row = (int64_t{batch} * f.heads_q + head) * f.seq_q;
      for (int first_query = work.begin; first_query < work.end; first_query += Queries) {
        __syncthreads();  // all warps are done with the previous tile
        const Copies<Queries> q_copies(q + first_query * f.q_strides.row,
                                                                      f.q_strides.row, queries_at);
        q_copies.start(f.q_strides.row, f.seq_q - first_query);
        const Copies<Queries> d_out_copies(d_out + first_query * p.d_out_strides.row,
                                                                          p.d_out_strides.row, d_out_at);
        d_out_copies.start(p.d_out_strides.row, f.seq_q - first_query);
        if (threadIdx.x < Queries) {
          const int query = first_query + threadIdx.x;
          shift[threadIdx.x] = query < f.seq_q ? Shift(f.lse[first_row + query]) : Shift();
          delta[threadIdx.x] = query < f.seq_q ? p.delta[first_row + query] : 0.0f;
        }
        Family::wait();
        __syncthreads();  // this tile has landed, and before the first one the keys and values

        float weights[1][Queries / 8][4];
        multiply_keys<Mma, HeadDim>(weights, keys, lane_queries);
        if (f.causal) mask(weights, first_key + warp_row, first_query, work.diagonal, f.window);
#pragma unroll
        for (int n = 0; n < Queries / 8; ++n) {
          const Shift shifts[2] = {shift[8 * n + 2 * (lane % 4)], shift[8 * n + 2 * (lane % 4) + 1]};
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            weights[0][n][c] = exp2_approximate(shifts[c % 2].exponent(weights[0][n][c], f.scale));
          }
        }
        if constexpr (kWithValues) multiply_values<Mma, HeadDim>(dv, weights, lane_query_rows + kToDOut);
        if constexpr (kWithKeys) {
          float d_scores[1][Queries / 8][4];
          multiply_keys<Mma, HeadDim>(d_scores, values, lane_queries + kToDOut);
#pragma unroll
          for (int n = 0; n < Queries / 8; ++n) {
            const float2 deltas = *reinterpret_cast<const float2*>(delta + 8 * n + 2 * (lane % 4));
#pragma unroll
            for (int c = 0; c < 4; ++c) {
              d_scores[0][n][c] = weights[0][n][c] * (d_scores[0][n][c] - (c % 2 == 0 ? deltas.x : deltas.y));
            }
          }
          multiply_values<Mma, HeadDim>(dk, d_scores, lane_query_rows);
        }
      }
    }

    Family::wait();
    __syncthreads();  // without any query tile, the copies of keys must still land before their rows are overwritten
    const int live_rows = f.seq_kv - first_key - warp_row;
    if constexpr (kWithKeys) {
      Element* to = head_pointer(static_cast<Element*>(p.dk), p.dk_strides, batch, head_kv) +
                    (first_key + warp_row) * p.dk_strides.row;
      store_out<Element, HeadDim>(dk, Factor{f.scale}, shared + warp_row * kRowBytes, to, p.dk_strides.row, live_rows);
    }
    if constexpr (kWithValues) {
      Element* to = head_pointer(static_cast<Element*>(p.dv), p.dv_strides, batch, head_kv) +
                    (first_key + warp_row) * p.dv_strides.row;
      store_out<Element, HeadDim>(dv, Factor{1.0f}, shared + (kKeys + warp_row) * kRowBytes, to, p.dv_strides.row,
                                  live_rows);
    }
  }
};

}  // namespace
}  // namespace warpwatch
