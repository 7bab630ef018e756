// flash_attention in fp32 for sm_75, with 64 KB of shared memory per block: keys and values share one buffer.
//
// Lanes 8 y .. 8 y + 7 of a block own query rows 2 y and 2 y + 1. Lane x of them computes the scores of keys x, x + 8,
// x + 16, ... of a tile, then output columns 4 x + 32 c .. 4 x + 32 c + 3. The buffer holds the tile's keys, then its values.
// Weights are exchanged through shared memory between the lanes that computed them and those that need them.
// Rows in shared memory are padded by 4 floats, so that 8 rows read at one column hit 8 x 4 banks.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tiles.h"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

constexpr int kQueries = kFlashAttentionFp32Sm75Queries;
constexpr int kLanes = 8;                           // lanes per pair of rows
constexpr int kThreads = kQueries / 2 * kLanes;

template <int HeadDim>
struct Shared {
  static constexpr int kKeys = flash_attention_fp32_sm75_keys(HeadDim);
  float4 queries[kQueries][HeadDim / 4 + 1];
  float4 keys_or_values[kKeys][HeadDim / 4 + 1];
  float weights[kQueries][kKeys + 4];
};

// Copies rows from global to shared memory; rows from live_rows on are filled with zeros.
template <int Rows, int Padded>
__device__ __forceinline__ void load_rows(float4 (&tile)[Rows][Padded], const float* global, int64_t row_stride,
                                          int live_rows) {
  constexpr int kWidth = Padded - 1;
  for (int i = threadIdx.x; i < Rows * kWidth; i += kThreads) {
    const int row = i / kWidth;
    const int column = i % kWidth;
    tile[row][column] = row < live_rows ? *reinterpret_cast<const float4*>(global + row * row_stride + 4 * column)
                                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void add_scaled(float4& sum, float weight, float4 value) {
  sum.x = fmaf(weight, value.x, sum.x);
  sum.y = fmaf(weight, value.y, sum.y);
  sum.z = fmaf(weight, value.z, sum.z);
  sum.w = fmaf(weight, value.w, sum.w);
}

template <int HeadDim, typename Shape, typename Params>
__global__ void __launch_bounds__(Shape::kThreads)
    flash_attention_fp32_kernel(const Params p, const FlashAttentionSchedule schedule) {
  constexpr int kKeys = Shared<HeadDim>::kKeys;
  constexpr int kKeysPerLane = kKeys / kLanes;
  constexpr int kChunks = HeadDim / 4 / kLanes;  // of 4 output columns, per lane and row
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<HeadDim>*>(raw);
  const int x = threadIdx.x % kLanes;
  const int rows = 2 * (threadIdx.x / kLanes);  // the lane owns rows `rows` and `rows + 1`

  const FlashAttentionWork work = work_of_block<true>(p, schedule, blockIdx.x, kQueries);
  if constexpr (kPacked<Params>) {
    zero_uncovered_rows<float>(p, schedule, work, kQueries);
    if (work.first_query >= work.seq_q) return;
  }
  const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work);
  const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
  const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
  load_rows(shared.queries, q + work.first_query * p.q_strides.row, p.q_strides.row, work.seq_q - work.first_query);

  // Distance of the lane's first key from the newest key that its first query sees. Keys past the last one are zeros, and no
  // live query sees them.
  int newest = (p.causal ? work.first_query + rows + work.diagonal : work.seq_kv - 1) - x;
  asm volatile("" : "+r"(newest));
  const auto exponents = exponents_of(p);
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.0f, 0.0f};
  float4 out[2][kChunks] = {};
  for (int first_key = work.first_key; first_key < work.keys; first_key += kKeys) {
    __syncthreads();  // queries are stored, and all warps have read the previous tile's values
    load_rows(shared.keys_or_values, k + first_key * p.k_strides.row, p.k_strides.row, work.seq_kv - first_key);
    __syncthreads();
    float scores[2][kKeysPerLane] = {};
#pragma unroll 2
    for (int column = 0; column < HeadDim / 4; ++column) {
      const float4 q0 = shared.queries[rows][column];
      const float4 q1 = shared.queries[rows + 1][column];
#pragma unroll
      for (int j = 0; j < kKeysPerLane; ++j) {
        const float4 key = shared.keys_or_values[x + kLanes * j][column];
        scores[0][j] = dot(q0, key, scores[0][j]);
        scores[1][j] = dot(q1, key, scores[1][j]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = work.first_query + rows + r;
      const int behind = newest - first_key + (p.causal ? r : 0);
      float top = row_max[r];
      if constexpr (kBiased<Params>) {
        const float* bias = bias_row(p, work, query) + first_key + x;
        const int keys = query < work.seq_q ? work.seq_kv - first_key - x : 0;
#pragma unroll
        for (int j = 0; j < kKeysPerLane; ++j) {
          scores[r][j] = fmaf(scores[r][j], p.scale, kLanes * j < keys ? __ldg(bias + kLanes * j) : 0.0f);
        }
      }
#pragma unroll
      for (int j = 0; j < kKeysPerLane; ++j) {
        const bool hidden = unsigned(behind - kLanes * j) >= unsigned(p.window);
        if (hidden) scores[r][j] = -INFINITY;
        top = fmaxf(top, scores[r][j]);
      }
      for (int step = kLanes / 2; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
      const float factor = exp2f(exponents.rescaling(row_max[r], top));  // exactly 1 if the maximum has not risen
      const ExponentLine line = exponents.line(top);
      row_max[r] = top;
      row_sum[r] *= factor;
#pragma unroll
      for (int j = 0; j < kKeysPerLane; ++j) {
        const float weight = exp2f(exponents.exponent(scores[r][j], line));
        row_sum[r] += weight;
        shared.weights[rows + r][x + kLanes * j] = weight;
      }
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        out[r][c].x *= factor;
        out[r][c].y *= factor;
        out[r][c].z *= factor;
        out[r][c].w *= factor;
      }
    }
    __syncthreads();  // weights are stored, and all warps have read the keys
    load_rows(shared.keys_or_values, v + first_key * p.v_strides.row, p.v_strides.row, work.seq_kv - first_key);
    __syncthreads();
#pragma unroll 4
    for (int key = 0; key < kKeys; ++key) {
      const float w0 = shared.weights[rows][key];
      const float w1 = shared.weights[rows + 1][key];
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const float4 value = shared.keys_or_values[key][x + kLanes * c];
        add_scaled(out[0][c], w0, value);
        add_scaled(out[1][c], w1, value);
      }
    }
  }

  // Recomputed: keeping it across the loop would cost registers.
  int block = blockIdx.x;
  asm volatile("" : "+r"(block));
  const FlashAttentionWork done = work_of_block<true>(p, schedule, block, kQueries);
  float* to = query_rows(static_cast<float*>(p.out), p.out_strides, done);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = row_sum[r];
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const float normalizer = sum == 0.0f ? 0.0f : __frcp_rn(sum);
    const int query = done.first_query + rows + r;
    if (query >= done.seq_q) continue;
    if (p.lse != nullptr && x == 0) {
      lse_rows(p, done)[query] = exponents.log_sum_exp(row_max[r], p.scale, sum);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const float4 sums = out[r][c];
      *reinterpret_cast<float4*>(to + query * p.out_strides.row + 4 * (x + kLanes * c)) =
          make_float4(sums.x * normalizer, sums.y * normalizer, sums.z * normalizer, sums.w * normalizer);
    }
  }
}

template <int HeadDim, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  using Shape = LaunchShape<kThreads, sizeof(Shared<HeadDim>)>;
  return launch_flash_attention<Shape>(flash_attention_fp32_kernel<HeadDim, Shape, Params>, p, kQueries,
                                       sizeof(float), stream);
}

template <typename Params>
cudaError_t launch(const Params& p, cudaStream_t stream) {
  if (p.dtype != Dtype::kFloat32) return cudaErrorInvalidValue;
  switch (p.head_dim) {
    case 64: return launch_tile<64>(p, stream);
    case 96: return launch_tile<96>(p, stream);
    case 128: return launch_tile<128>(p, stream);
    case 256: return launch_tile<256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_fp32_sm75(const FlashAttentionParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm75(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm75(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

}  // namespace warpwatch
