// decode_attention in fp32 on the FP32 cores of any GPU: keys and values are loaded straight into registers.
//
// kLanes neighbouring lanes of a warp share a key; lane x of them holds columns 4 x + 4 kLanes c .. of the queries, the key,
// the value and the output. A warp thus processes 32 / kLanes keys at once, one per lane group, and loads two rounds of keys
// before it computes. Each lane group has its own running maximum, sums and output. Scores are reduced by shuffles within a
// group; groups, then warps, are merged at the end.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "decode_attention/decode_attention_cache.h"
#include "decode_attention/decode_attention_launch.cuh"
#include "decode_attention/decode_attention_merge.cuh"
#include "decode_attention/decode_attention_tiles.h"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {

template <int HeadDim, typename Cache>
struct DecodeAttentionFp32 {
  static constexpr int kRows = kDecodeAttentionFp32Rows;
  static constexpr int kWarps = kDecodeAttentionFp32Warps;
  static constexpr int kLanes = HeadDim == 256 ? 16 : 8;
  static constexpr int kFours = HeadDim / 4 / kLanes;  // groups of 4 columns, per lane and row
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kRounds = 2;
  static_assert(HeadDim % (4 * kLanes) == 0, "each lane holds whole fours");
  using Shape = LaunchShape<32 * kWarps, 0>;  // shared memory is static
  static constexpr float scale_log2(const DecodeAttentionParams& p) { return p.scale * kLog2E; }
  using Space = MergeSpace<kWarps, kRows, HeadDim>;
  using Head = typename HeadOf<Cache, float>::Type;

  static __device__ __forceinline__ float4 at(const float* row, int four) {
    return *reinterpret_cast<const float4*>(row + 4 * (threadIdx.x % kLanes) + 4 * kLanes * four);
  }
  static __device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
  }

  static __device__ __forceinline__ void run(const DecodeAttentionParams& p, const Cache& cache) {
    __shared__ Space space;
    const int warp = threadIdx.x / 32;
    const int group = threadIdx.x % 32 / kLanes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows>(p, blockIdx.x);
    const Head head(cache, work.batch, work.head_kv);
    const RawScores exponents{scale_log2(p)};

    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 queries[kRows][kFours];
    float4 out[kRows][kFours];
    float row_max[kRows], row_sum[kRows];
    int seen[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float* row = query_row<float>(p, work, r < work.rows ? r : 0);
#pragma unroll
      for (int c = 0; c < kFours; ++c) {
        queries[r][c] = r < work.rows ? at(row, c) : zero;
        out[r][c] = zero;
      }
      row_max[r] = -INFINITY;
      row_sum[r] = 0.0f;
      seen[r] = min(keys_seen_by_row(p, work, r), work.end_key);  // this part's keys only
    }

    constexpr int kWarpKeys = kRounds * kGroups;
    for (int first = work.first_key + warp * kWarpKeys; first < work.end_key; first += kWarps * kWarpKeys) {
      float4 keys[kRounds][kFours], values[kRounds][kFours];
#pragma unroll
      for (int j = 0; j < kRounds; ++j) {
        const int key = first + j * kGroups + group;
        if (key < work.end_key) {
          const int page = head.page_of(key);
          const float* key_row = head.key_row(page, key);
          const float* value_row = head.value_row(page, key);
#pragma unroll
          for (int c = 0; c < kFours; ++c) keys[j][c] = at(key_row, c);
#pragma unroll
          for (int c = 0; c < kFours; ++c) values[j][c] = at(value_row, c);
        } else {
#pragma unroll
          for (int c = 0; c < kFours; ++c) keys[j][c] = values[j][c] = zero;
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float scores[kRounds];
        float top = row_max[r];
#pragma unroll
        for (int j = 0; j < kRounds; ++j) {
          scores[j] = 0.0f;
#pragma unroll
          for (int c = 0; c < kFours; ++c) scores[j] = dot(queries[r][c], keys[j][c], scores[j]);
#pragma unroll
          for (int step = kLanes / 2; step > 0; step /= 2) scores[j] += __shfl_xor_sync(0xffffffffu, scores[j], step);
          if (first + j * kGroups + group >= seen[r]) scores[j] = -INFINITY;
          top = fmaxf(top, scores[j]);
        }
        const float factor = exp2f(exponents.rescaling(row_max[r], top));  // exactly 1 if the maximum has not risen
        const ExponentLine line = exponents.line(top);
        row_max[r] = top;
        row_sum[r] *= factor;
#pragma unroll
        for (int c = 0; c < kFours; ++c) out[r][c] = scaled(factor, out[r][c]);
#pragma unroll
        for (int j = 0; j < kRounds; ++j) {
          const float weight = exp2f(exponents.exponent(scores[j], line));
          row_sum[r] += weight;
#pragma unroll
          for (int c = 0; c < kFours; ++c) add_weighted(out[r][c], weight, values[j][c]);
        }
      }
    }

#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float top = row_max[r];
#pragma unroll
      for (int step = kLanes; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
      const float weight = exp2f(exponents.rescaling(row_max[r], top));
      float sum = weight * row_sum[r];
#pragma unroll
      for (int step = kLanes; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (threadIdx.x % 32 == 0) {
        space.row_max[warp][r] = top;
        space.row_sum[warp][r] = sum;
      }
#pragma unroll
      for (int c = 0; c < kFours; ++c) {
        float4 mine = scaled(weight, out[r][c]);
#pragma unroll
        for (int step = kLanes; step < 32; step *= 2) {
          mine.x += __shfl_xor_sync(0xffffffffu, mine.x, step);
          mine.y += __shfl_xor_sync(0xffffffffu, mine.y, step);
          mine.z += __shfl_xor_sync(0xffffffffu, mine.z, step);
          mine.w += __shfl_xor_sync(0xffffffffu, mine.w, step);
        }
        if (group == 0) {
          *reinterpret_cast<float4*>(&space.out[warp][r][4 * (threadIdx.x % kLanes) + 4 * kLanes * c]) = mine;
        }
      }
    }
    __syncthreads();
    merge_columns<float, HeadDim>(space, p, work, exponents, 0);
  }
};

}  // namespace warpwatch
