// Epilogue of a block: merges the maxima, sums and outputs of its warps, each of which has processed its own keys.
//
// Outputs are exchanged through shared memory, some columns at a time, as [warp][row][Columns + 8] floats. The padding of 8
// puts the rows that a half-warp writes, two columns per lane, into different banks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "decode_attention/decode_attention_launch.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/mma.cuh"

namespace warpwatch {

// Columns exchanged at a time: about 20 KB, which also fits sm_75.
template <int HeadDim, int RowTiles>
constexpr int kMergeColumns = HeadDim % 64 == 0 && RowTiles == 1 ? 64 : 32;

template <int Warps, int Rows, int Columns>
struct MergeSpace {
  float out[Warps][Rows][Columns + 8];  // not normalized
  float row_max[Warps][Rows];           // of the raw scores, -inf if the warp saw no key
  float row_sum[Warps][Rows];           // of weights relative to row_max, as RawScores::line gives them
};

__device__ __forceinline__ void store_four(float* to, float4 x) { *reinterpret_cast<float4*>(to) = x; }

template <typename Element>
__device__ __forceinline__ void store_four(Element* to, float4 x) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack<Element>(x.x, x.y), pack<Element>(x.z, x.w));
}

__device__ __forceinline__ void add_weighted(float4& sum, float weight, float4 x) {
  sum.x = fmaf(weight, x.x, sum.x);
  sum.y = fmaf(weight, x.y, sum.y);
  sum.z = fmaf(weight, x.z, sum.z);
  sum.w = fmaf(weight, x.w, sum.w);
}

__device__ __forceinline__ float4 scaled(float factor, float4 x) {
  return make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
}

// Stores columns first_column .. of the block's rows, into out or as a part. All threads of the
// block call it, between two __syncthreads().
template <typename Element, int HeadDim, int Warps, int Rows, int Columns>
__device__ __forceinline__ void merge_columns(const MergeSpace<Warps, Rows, Columns>& space,
                                              const DecodeAttentionParams& p, const DecodeAttentionWork& work,
                                              const RawScores& exponents, int first_column) {
  constexpr int kFours = Columns / 4;
  for (int i = threadIdx.x; i < work.rows * kFours; i += 32 * Warps) {
    const int row = i / kFours;
    const int column = i % kFours * 4;
    float top = -INFINITY;
#pragma unroll
    for (int w = 0; w < Warps; ++w) top = fmaxf(top, space.row_max[w][row]);
    float total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < Warps; ++w) {
      const float weight = exp2f(exponents.exact_rescaling(space.row_max[w][row], top));
      total = fmaf(weight, space.row_sum[w][row], total);
      add_weighted(sum, weight, *reinterpret_cast<const float4*>(&space.out[w][row][column]));
    }
    const float4 mean = scaled(total == 0.0f ? 0.0f : 1.0f / total, sum);
    const int64_t out_row = work.out_row + row;
    if (p.splits == 1) {
      store_four(static_cast<Element*>(p.out) + out_row * HeadDim + first_column + column, mean);
    } else {
      const int64_t rows = int64_t{p.batch} * p.heads_q * p.seq_q;
      const int64_t part_row = work.split * rows + out_row;
      store_four(p.partial_out + part_row * HeadDim + first_column + column, mean);
      if (first_column + column == 0) {
        p.partial_max[part_row] = top;
        p.partial_sum[part_row] = total;
      }
    }
  }
}

}  // namespace warpwatch
