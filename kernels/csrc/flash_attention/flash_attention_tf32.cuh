// flash_attention in fp32 on tensor cores, where three TF32 products take less time than one fp32 product on the CUDA cores:
// compute capability 8.0 and 9.0 (A100, H100, H200), with 5 to 8 times the rate. On 8.6, 8.9 and 12.0 the rate is one to two
// times that of the CUDA cores, which are used there.
//
// Each operand is split into two TF32 parts (primitives/mma_tf32.cuh) and accumulated in fp32. A warp owns 16 RowTiles queries
// and keeps scores, weights and output in registers. Keys and values have a buffer each: values load during the scores, the
// next keys during softmax and values.
// The split turns an infinity into NaN in every sum it enters. Output rows that are not finite are therefore recomputed on the
// FP32 cores, one at a time, so that they equal the fp32 result.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_bias.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tf32_products.cuh"
#include "flash_attention/flash_attention_tiles.h"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

// Attention of one query by one warp on the CUDA cores: the fallback for rows where the tensor cores met a non-finite value.
//
// Lane l computes the scores of keys l, l + 32, ... and output columns l + 32 c. Slow, but only infinities and NaN reach it,
// and it stops as soon as the result can only be NaN.

namespace {

template <typename Combine>
__device__ __forceinline__ float over_warp(float value, Combine combine) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// `to`: the row of the output; lse may be null.
template <int HeadDim, bool Windowed, typename Params>
__device__ __forceinline__ void attend_row(const Params& p, const FlashAttentionWork& work, int query, float* to,
                                           double* lse) {
  const int lane = threadIdx.x % 32;
  const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work) + query * p.q_strides.row;
  const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
  const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
  const int end = keys_seen(query, work.seq_kv, work.diagonal, p.causal);
  const int begin = Windowed ? max(first_key_seen(query, work.diagonal, p.window), 0) : 0;
  const auto exponents = exponents_of(p);
  float row_max = -INFINITY;
  float row_sum = 0.0f;
  float out[HeadDim / 32] = {};
  for (int first = begin; first < end; first += 32) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key < end) {
      score = 0.0f;
#pragma unroll 4
      for (int d = 0; d < HeadDim; d += 4) {
        const float4 a = *reinterpret_cast<const float4*>(q + d);
        const float4 b = *reinterpret_cast<const float4*>(k + key * p.k_strides.row + d);
        score = fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, score))));
      }
      if constexpr (kBiased<Params>) score = fmaf(score, p.scale, bias_row(p, work, query)[key]);
    }
    const float top = over_warp(fmaxf(row_max, score), [](float a, float b) { return fmaxf(a, b); });
    const float factor = exp2f(exponents.rescaling(row_max, top));
    const float weight = exp2f(exponents.exponent(score, exponents.line(top)));
    row_max = top;
    row_sum = fmaf(row_sum, factor, over_warp(weight, [](float a, float b) { return a + b; }));
#pragma unroll
    for (int c = 0; c < HeadDim / 32; ++c) out[c] *= factor;
    for (int j = 0; j < min(end - first, 32); ++j) {
      const float of_key = __shfl_sync(0xffffffffu, weight, j);
#pragma unroll
      for (int c = 0; c < HeadDim / 32; ++c) {
        out[c] = fmaf(of_key, v[(first + j) * p.v_strides.row + lane + 32 * c], out[c]);
      }
    }
    // A NaN in the query or in a key that it sees makes the rest NaN too: stop early.
    if (isnan(row_sum)) break;
  }
  const float normalizer = row_sum == 0.0f ? 0.0f : __frcp_rn(row_sum);
  __syncwarp();  // orders the other lanes' stores to this row before ours
#pragma unroll
  for (int c = 0; c < HeadDim / 32; ++c) to[lane + 32 * c] = out[c] * normalizer;
  if (lse != nullptr && lane == 0) {
    *lse = exponents.log_sum_exp(row_max, p.scale, row_sum);
  }
}

}  // namespace

namespace {

template <int HeadDim, int Warps, int RowTiles, int Keys, int Steps, bool Windowed, typename Params>
struct Tf32Attention {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 16 * RowTiles;
  static constexpr int kQueries = Warps * kWarpRows;
  using Products = Tf32Products<HeadDim, RowTiles, Keys, Steps>;
  static constexpr int kPitch = Products::kPitch;
  // The ends of a packed sequence are reloaded for each key tile: they come from memory, not from the kernel's parameters, and
  // head_dim 128 and 256 leave no registers to keep them.
  struct alignas(16) PackedEnds {
    int seq_kv, diagonal;
  };
  struct NoEnds {};
  struct Shared : std::conditional_t<kPacked<Params>, PackedEnds, NoEnds> {
    float queries[kQueries][kPitch];
    float keys[Keys][kPitch];
    float values[Keys][kPitch];
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;

  static __device__ __forceinline__ int seq_kv(const Shared& shared, const FlashAttentionWork& work) {
    if constexpr (kPacked<Params>) return shared.seq_kv;
    return work.seq_kv;
  }
  static __device__ __forceinline__ int diagonal(const Shared& shared, const FlashAttentionWork& work) {
    if constexpr (kPacked<Params>) return shared.diagonal;
    return work.diagonal;
  }

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(16) unsigned char raw[];
    Shared& shared = *reinterpret_cast<Shared*>(raw);
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 * kWarpRows;

    const FlashAttentionWork work = work_of_block<Windowed>(p, schedule, blockIdx.x, kQueries);
    if constexpr (kPacked<Params>) {
      zero_uncovered_rows<float>(p, schedule, work, kQueries);
      if (work.first_query >= work.seq_q) return;
    }
    const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work);
    const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
    const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
    int first_key = work.first_key / 2 * 2;  // even, since biases are read in pairs
    RowCopies<HeadDim, kThreads, Keys> k_copies(k + first_key * p.k_strides.row, p.k_strides.row, shared.keys);
    RowCopies<HeadDim, kThreads, Keys> v_copies(v + first_key * p.v_strides.row, p.v_strides.row, shared.values);
    if (first_key < work.keys) {
      RowCopies<HeadDim, kThreads, kQueries>(q + work.first_query * p.q_strides.row, p.q_strides.row, shared.queries)
          .start(p.q_strides.row, work.seq_q - work.first_query);
      k_copies.start(p.k_strides.row, work.seq_kv - first_key);
      cp_async_commit();
    }
    if constexpr (kPacked<Params>) {
      if (threadIdx.x == 0) {
        shared.seq_kv = work.seq_kv;
        shared.diagonal = work.diagonal;
      }
    }
    const uint32_t lane_queries = Products::lane_rows(shared.queries[warp_row]);
    const uint32_t lane_keys = Products::lane_columns(shared.keys[0]);

    const auto exponents = exponents_of(p);
    OnlineSoftmax<RowTiles> softmax;
    typename Products::Sums out = {};
    for (; first_key < work.keys; first_key += Keys) {
      cp_async_wait<0>();
      __syncthreads();  // this tile's keys have landed, and all warps have read the previous tile's values
      v_copies.start(p.v_strides.row, seq_kv(shared, work) - first_key);
      cp_async_commit();

      typename Products::Scores scores;
      Products::score(scores, lane_queries, lane_keys);
      if constexpr (kBiased<Params>) {
        const int first_query = work.first_query + warp_row;
        add_bias(scores, bias_row(p, work, first_query) + first_key, p.bias_strides.row, work.seq_q - first_query,
                 work.seq_kv - first_key, p.bias_in_pairs, p.scale);
      }
      mask_scores<Windowed>(scores, work.first_query + warp_row, first_key, seq_kv(shared, work), diagonal(shared, work),
                            p.causal, p.window);

      cp_async_wait<0>();
      __syncthreads();  // this tile's values have landed, and all warps have read its keys
      const int next_key = first_key + Keys;
      if (next_key < work.keys) {
        k_copies.start(p.k_strides.row, seq_kv(shared, work) - next_key);
        cp_async_commit();
      }
      softmax.step(scores, out, exponents);

      Products::add(out, scores, shared.values[0]);
    }

    // Recomputed: keeping it across the loop would cost registers.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const FlashAttentionWork done = work_of_block<Windowed>(p, schedule, block, kQueries);
    const int first_query = done.first_query + warp_row;
    float* to = query_rows(static_cast<float*>(p.out), p.out_strides, done);
    unsigned not_finite = 0;  // bit 2 r + half: that row of the lane is not finite
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float normalizer = softmax.normalizer(r, half);
        const double lse = softmax.log_sum_exp(r, half, p.scale, exponents);
        const int query = first_query + 16 * r + 8 * half + lane / 4;
        float nothing = 0.0f;  // becomes NaN if any element of the row is not finite
        if (query < done.seq_q) {
          if (p.lse != nullptr && lane % 4 == 0) lse_rows(p, done)[query] = lse;
#pragma unroll
          for (int f = 0; f < Products::kFours; ++f) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              const int e = 2 * half + c;
              const float4 sums = make_float4(out[r][4 * f][e] * normalizer, out[r][4 * f + 1][e] * normalizer,
                                              out[r][4 * f + 2][e] * normalizer, out[r][4 * f + 3][e] * normalizer);
              *reinterpret_cast<float4*>(to + query * p.out_strides.row + 32 * f + lane % 4 * 8 + 4 * c) = sums;
              nothing += (sums.x + sums.y + sums.z + sums.w) * 0.0f;
            }
          }
        }
        if (nothing != 0.0f) not_finite |= 1u << (2 * r + half);
      }
    }
    if (!__any_sync(0xffffffffu, not_finite != 0)) return;
#pragma unroll 1
    for (int row = 0; row < kWarpRows; ++row) {
      const bool again = lane / 4 == row % 8 && (not_finite >> row / 8 & 1) != 0;
      if (!__any_sync(0xffffffffu, again)) continue;
      const int query = first_query + row;
      attend_row<HeadDim, Windowed>(p, done, query, to + query * p.out_strides.row,
                                    p.lse == nullptr ? nullptr : lse_rows(p, done) + query);
    }
  }
};

template <int HeadDim, int Warps, int RowTiles, int Keys, int Steps, int Blocks, bool Windowed, typename Shape,
          typename Params>
__global__ void __launch_bounds__(Shape::kThreads, Blocks)
    flash_attention_tf32_kernel(const Params p, const FlashAttentionSchedule schedule) {
  Tf32Attention<HeadDim, Warps, RowTiles, Keys, Steps, Windowed, Params>::run(p, schedule);
}

template <int HeadDim, bool Windowed, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  constexpr FlashAttentionTf32Tile tile = flash_attention_tf32_tile(HeadDim, kBiased<Params>);
  using A = Tf32Attention<HeadDim, tile.warps, tile.row_tiles, tile.keys, tile.steps, Windowed, Params>;
  using Shape = typename A::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_tf32_kernel<HeadDim, tile.warps, tile.row_tiles, tile.keys, tile.steps, tile.blocks, Windowed, Shape,
                                  Params>,
      p, A::kQueries, sizeof(float), stream);
}

template <bool Windowed, typename Params>
cudaError_t launch_tf32(const Params& p, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch_tile<64, Windowed>(p, stream);
    case 96: return launch_tile<96, Windowed>(p, stream);
    case 128: return launch_tile<128, Windowed>(p, stream);
    case 256: return launch_tile<256, Windowed>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace warpwatch
