// flash_attention in fp32 for sm_80 and newer: the ordinary units, so about 1 / 15 of the tensor cores' throughput.
//
// Two matrix products in registers. `Sharing` warps have the same 4 Rows queries: each scores its part of a tile's keys, and
// then works out its part of the output's columns over all of them. Lane 8 y + x of a warp has query rows y + 4 r, r = 0 ..
// Rows - 1, keys x + 8 j and columns 4 x + 32 c .. 4 x + 32 c + 3 of the warp's part. For 4 of head_dim that is
// Rows + KeysPerLane reads of 16 bytes for 4 Rows KeysPerLane products, and for 4 keys Rows + 4 Chunks reads for 16 Rows Chunks.
// A read of 16 bytes a lane takes 4 cycles of the SM, broadcast or not, in which it could do 16 products a lane: the more
// rows, keys and columns a lane has, the less shared memory stands in the way.
// Keys and values have a buffer each: values arrive while scores are computed, the next keys while softmax and values are.
// Weights pass from the lanes that scored them to those that need them through shared memory.
// Rows of queries and keys are 4 floats longer than they must be, so that 8 rows read at the same column hit 8 x 4 banks;
// rows of weights are 8 floats longer, so that 4 rows x 8 keys written together hit 4 x 8.
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"

namespace warpwatch {
namespace {

__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void add_scaled(float4& sum, float weight, float4 value) {
  sum.x = fmaf(weight, value.x, sum.x);
  sum.y = fmaf(weight, value.y, sum.y);
  sum.z = fmaf(weight, value.z, sum.z);
  sum.w = fmaf(weight, value.w, sum.w);
}

template <int HeadDim, int Warps, int Sharing, int Rows, int KeysPerLane, bool Windowed, typename Params>
struct Fp32Attention {
  static constexpr int kLanes = 8;  // that share a row
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 4 * Rows;
  static constexpr int kQueries = Warps / Sharing * kWarpRows;
  static constexpr int kWarpKeys = kLanes * KeysPerLane;
  static constexpr int kKeys = Sharing * kWarpKeys;
  static constexpr int kWidth = HeadDim / 4;                  // of a row, in 16 bytes
  static constexpr int kChunks = kWidth / kLanes / Sharing;  // of 4 output columns, per lane and row
  static_assert(kChunks * kLanes * Sharing == kWidth && Warps % Sharing == 0, "warps have the same share");
  struct Shared {
    float4 queries[kQueries][kWidth + 1];
    float4 keys[kKeys][kWidth + 1];
    float4 values[kKeys][kWidth];
    float weights[kQueries][kKeys + 8];
    float part[kQueries][Sharing];  // of a row: each warp's maximum, in the end each warp's sum
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;

  // Copies rows of global memory to shared memory; rows from live_rows on become zeros.
  template <int TileRows, int Padded>
  static __device__ __forceinline__ void start_rows(float4 (&tile)[TileRows][Padded], const float* global,
                                                    int64_t row_stride, int live_rows) {
#pragma unroll 4
    for (int i = threadIdx.x; i < TileRows * kWidth; i += kThreads) {
      const int row = i / kWidth;
      const int column = i % kWidth;
      cp_async_16(shared_address(&tile[row][column]), global + row * row_stride + 4 * column, row < live_rows);
    }
    cp_async_commit();
  }

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(16) unsigned char raw[];
    Shared& shared = *reinterpret_cast<Shared*>(raw);
    const int x = threadIdx.x % kLanes;
    const int warp = threadIdx.x / 32;
    const int part = warp % Sharing;  // of keys and columns
    const int first_row = warp / Sharing * kWarpRows + threadIdx.x % 32 / kLanes;  // this lane's are 4 apart
    const int lane_key = part * kWarpKeys + x;
    const int lane_column = part * kChunks * kLanes + x;  // in 16 bytes

    const FlashAttentionWork work = work_of_block<Windowed>(p, schedule, blockIdx.x, kQueries);
    if (kPacked<Params> && work.first_query >= work.seq_q) return;
    const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work);
    const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
    const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
    int first_key = work.first_key;
    if (first_key < work.keys) {
      start_rows(shared.queries, q + work.first_query * p.q_strides.row, p.q_strides.row, work.seq_q - work.first_query);
      start_rows(shared.keys, k + first_key * p.k_strides.row, p.k_strides.row, work.seq_kv - first_key);
    }

    const auto exponents = exponents_of(p);
    float row_max[Rows];
    float row_sum[Rows] = {};  // of this lane's weights alone
    float4 out[Rows][kChunks] = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) row_max[r] = -INFINITY;
    for (; first_key < work.keys; first_key += kKeys) {
      cp_async_wait<0>();
      __syncthreads();  // this tile's keys have landed, and every warp has left the values of the tile before
      start_rows(shared.values, v + first_key * p.v_strides.row, p.v_strides.row, work.seq_kv - first_key);

      float scores[Rows][KeysPerLane] = {};
#pragma unroll 2
      for (int column = 0; column < kWidth; ++column) {
        float4 query[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) query[r] = shared.queries[first_row + 4 * r][column];
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) {
          const float4 key = shared.keys[lane_key + kLanes * j][column];
#pragma unroll
          for (int r = 0; r < Rows; ++r) scores[r][j] = dot(query[r], key, scores[r][j]);
        }
      }
      float top[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const int query = work.first_query + first_row + 4 * r;
        const int seen = keys_seen(query, work.seq_kv, work.diagonal, p.causal) - first_key - lane_key;
        // How far the lane's first key is behind the query's newest one; without a window nobody asks.
        const int behind = query + work.diagonal - first_key - lane_key;
        top[r] = row_max[r];
        if constexpr (kBiased<Params>) {
          const float* bias = bias_row(p, work, query) + first_key + lane_key;
          const int keys = query < work.seq_q ? work.seq_kv - first_key - lane_key : 0;
#pragma unroll
          for (int j = 0; j < KeysPerLane; ++j) {
            scores[r][j] = fmaf(scores[r][j], p.scale, kLanes * j < keys ? __ldg(bias + kLanes * j) : 0.0f);
          }
        }
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) {
          const bool hidden = kLanes * j >= seen || (Windowed && behind - kLanes * j >= p.window);
          if (hidden) scores[r][j] = -INFINITY;
          top[r] = fmaxf(top[r], scores[r][j]);
        }
#pragma unroll
        for (int step = kLanes / 2; step > 0; step /= 2) top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], step));
        if (Sharing > 1 && x == 0) shared.part[first_row + 4 * r][part] = top[r];
      }
      cp_async_wait<0>();
      __syncthreads();  // this tile's values and maxima are there, and every warp has left its keys
      const int next_key = first_key + kKeys;
      if (next_key < work.keys) {
        start_rows(shared.keys, k + next_key * p.k_strides.row, p.k_strides.row, work.seq_kv - next_key);
      }

#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        if constexpr (Sharing > 1) {
#pragma unroll
          for (int other = 0; other < Sharing; ++other) top[r] = fmaxf(top[r], shared.part[first_row + 4 * r][other]);
        }
        const float base = top[r] == -INFINITY ? 0.0f : exponents.base(top[r]);  // as in OnlineSoftmax::step
        const float shrink = exp2f(exponents.shrink(row_max[r], base));  // exactly 1 while the maximum stays
        row_max[r] = top[r];
        row_sum[r] *= shrink;
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) {
          const float weight = exp2f(exponents.exponent(scores[r][j], base));
          row_sum[r] += weight;
          shared.weights[first_row + 4 * r][lane_key + kLanes * j] = weight;
        }
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          out[r][c].x *= shrink;
          out[r][c].y *= shrink;
          out[r][c].z *= shrink;
          out[r][c].w *= shrink;
        }
      }
      if constexpr (Sharing > 1) {
        __syncthreads();  // the weights are stored by all who share the rows
      } else {
        __syncwarp();
      }
#pragma unroll 1
      for (int key = 0; key < kKeys; key += 4) {
        float4 weights[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          weights[r] = *reinterpret_cast<const float4*>(&shared.weights[first_row + 4 * r][key]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int c = 0; c < kChunks; ++c) {
            const float4 value = shared.values[key + i][lane_column + kLanes * c];
#pragma unroll
            for (int r = 0; r < Rows; ++r) {
              add_scaled(out[r][c], i == 0 ? weights[r].x : i == 1 ? weights[r].y : i == 2 ? weights[r].z : weights[r].w,
                         value);
            }
          }
        }
      }
    }

    // Worked out again rather than kept in registers through the loop.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const FlashAttentionWork done = work_of_block<Windowed>(p, schedule, block, kQueries);
    float* to = query_rows(static_cast<float*>(p.out), p.out_strides, done);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2) row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], step);
      if (Sharing > 1 && x == 0) shared.part[first_row + 4 * r][part] = row_sum[r];
    }
    if constexpr (Sharing > 1) __syncthreads();
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      float sum = row_sum[r];
      if constexpr (Sharing > 1) {
        sum = 0.0f;
#pragma unroll
        for (int other = 0; other < Sharing; ++other) sum += shared.part[first_row + 4 * r][other];
      }
      const float normalizer = sum == 0.0f ? 0.0f : __frcp_rn(sum);
      const int query = done.first_query + first_row + 4 * r;
      if (query >= done.seq_q) continue;
      if (p.lse != nullptr && x == 0 && part == 0) {
        lse_rows(p, done)[query] = fmaf(row_max[r], kBiased<Params> ? 1.0f : p.scale, logf(sum));
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float4 sums = out[r][c];
        *reinterpret_cast<float4*>(to + query * p.out_strides.row + 4 * (lane_column + kLanes * c)) =
            make_float4(sums.x * normalizer, sums.y * normalizer, sums.z * normalizer, sums.w * normalizer);
      }
    }
  }
};

template <int HeadDim, int Warps, int Sharing, int Rows, int KeysPerLane, bool Windowed, typename Shape,
          typename Params>
__global__ void __launch_bounds__(Shape::kThreads)
    flash_attention_fp32_kernel(const Params p, const FlashAttentionSchedule schedule) {
  Fp32Attention<HeadDim, Warps, Sharing, Rows, KeysPerLane, Windowed, Params>::run(p, schedule);
}

}  // namespace
}  // namespace warpwatch
