// flash_attention in fp32 on the CUDA cores of sm_86 and newer: cp.async, tiles within 99 KB of shared memory per block.
#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tiles.h"
#include "primitives/cp_async.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"

namespace warpwatch {

// flash_attention in fp32 on the CUDA cores, for GPUs whose TF32 rate is too low for the three-product emulation: compute
// capability 8.6, 8.9 and 12.0 (flash_attention_tf32.cuh covers 8.0 and 9.0).
//
// Two register-tiled matrix products. `Sharing` warps own the same 4 Rows queries: each computes the scores of its share of a
// tile's keys, then its share of the output columns over all keys of the tile.
// Layout: a lane has coordinates y in 0 .. 3 and x in 0 .. 7. Its query rows are 4 y + 16 f .. 4 y + 16 f + 3,
// f = 0 .. Rows / 4 - 1; its keys x + 8 j; its output columns 4 x + 32 c .. 4 x + 32 c + 3 of the warp's share.
// Shared-memory traffic: 4 elements of head_dim take Rows + KeysPerLane reads of 16 bytes for 4 Rows KeysPerLane FMAs; 4 keys
// take Rows + 4 Chunks reads for 16 Rows Chunks FMAs.
// Two neighbouring lanes share x, and lanes two apart share y: the 16 lanes of a half-warp then read at most 128 distinct
// bytes, so a 16-byte read takes 2 cycles of the SM instead of the 4 that a row-major lane order would take.
// Queries and weights are stored transposed, a lane's rows contiguous: one read returns the factors of four rows for one column
// or key. These fall into different register banks; four columns of one query would conflict with four columns of a key.
// Keys and values have a buffer each: values load during the scores; the next keys load during softmax and values.
// Weights are exchanged through shared memory between the lanes that computed them and those that need them.
// Rows in shared memory are padded by 4 floats, so that 8 rows accessed at one column hit 8 x 4 banks.

namespace {

template <int HeadDim, int Warps, int Sharing, int Rows, int KeysPerLane, typename Params>
struct Fp32Attention {
  static constexpr int kLanes = 8;  // lanes per row
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kWarpRows = 4 * Rows;
  static constexpr int kQueries = Warps / Sharing * kWarpRows;
  static constexpr int kWarpKeys = kLanes * KeysPerLane;
  static constexpr int kKeys = Sharing * kWarpKeys;
  static constexpr int kFours = Rows / 4;                    // groups of 4 query rows, per lane
  static constexpr int kWidth = HeadDim / 4;                 // 16-byte vectors per row
  static constexpr int kChunks = kWidth / kLanes / Sharing;  // of 4 output columns, per lane and row
  static constexpr int kUnrolled = 32 / Rows;                // the next columns' loads overlap these columns' FMAs
  static constexpr int kAcross = kWidth & -kWidth;           // threads across a row when copying: a power of two
  static constexpr int kRowsAtOnce = kThreads / kAcross;
  static_assert(kChunks * kLanes * Sharing == kWidth && Warps % Sharing == 0, "warps have the same share");
  static_assert(kFours * 4 == Rows && kKeys % kRowsAtOnce == 0, "lanes have whole fours, threads whole rows to copy");
  struct Shared {
    float queries[HeadDim][kQueries + 4];
    float4 keys[kKeys][kWidth + 1];
    float4 values[kKeys][kWidth];
    float weights[kKeys][kQueries + 4];
    float part[kQueries][Sharing];  // per row: each warp's maximum, at the end each warp's sum
  };
  using Shape = LaunchShape<kThreads, sizeof(Shared)>;

  // Copies rows from global to shared memory; rows from live_rows on are filled with zeros.
  template <int Padded>
  static __device__ __forceinline__ void start_rows(float4 (&tile)[kKeys][Padded], const float* global,
                                                    int64_t row_stride, int live_rows) {
    const int row = threadIdx.x / kAcross;
    const int column = threadIdx.x % kAcross;
    const float* from = global + row * row_stride + 4 * column;
    const uint32_t to = shared_address(&tile[row][column]);
#pragma unroll
    for (int i = 0; i < kKeys; i += kRowsAtOnce) {
#pragma unroll
      for (int m = 0; m < kWidth; m += kAcross) {
        cp_async_16(to + 16 * (i * Padded + m), from + 4 * m, row + i < live_rows);
      }
      from += kRowsAtOnce * row_stride;
    }
    cp_async_commit();
  }

  // The same for queries, stored transposed.
  static __device__ __forceinline__ void copy_queries(Shared& shared, const float* global, int64_t row_stride,
                                                      int live_rows) {
#pragma unroll 4
    for (int i = threadIdx.x; i < kQueries * kWidth; i += kThreads) {
      const int row = i % kQueries;
      const int column = i / kQueries * 4;
      float4 query = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row < live_rows) query = *reinterpret_cast<const float4*>(global + row * row_stride + column);
      shared.queries[column][row] = query.x;
      shared.queries[column + 1][row] = query.y;
      shared.queries[column + 2][row] = query.z;
      shared.queries[column + 3][row] = query.w;
    }
  }

  // Row r of the lane, relative to the lane's first row.
  static __device__ __forceinline__ constexpr int row_of(int r) { return r / 4 * 16 + r % 4; }

  // Loads the elements of a lane's rows in one row of `fours`, starting at the lane's first.
  static __device__ __forceinline__ void load_fours(const float* fours, float (&to)[Rows]) {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      *reinterpret_cast<float4*>(&to[4 * f]) = *reinterpret_cast<const float4*>(fours + 16 * f);
    }
  }

  // Reduces over the lanes of a row.
  template <typename Combine>
  static __device__ __forceinline__ float combined(float value, Combine combine) {
#pragma unroll
    for (int step = kLanes; step > 1; step /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
  }

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule) {
    extern __shared__ __align__(16) unsigned char raw[];
    Shared& shared = *reinterpret_cast<Shared*>(raw);
    const int lane = threadIdx.x % 32;
    const int x = lane / 2 % kLanes;
    const int y = lane % 2 + lane / 16 * 2;
    const int warp = threadIdx.x / 32;
    const int part = warp % Sharing;  // of keys and of output columns
    const int warp_row = warp / Sharing * kWarpRows;
    const int first_row = warp_row + 4 * y;
    const int lane_key = part * kWarpKeys + x;
    const int lane_column = part * kChunks * kLanes + x;  // in 16-byte units

    const FlashAttentionWork work = work_of_block<true>(p, schedule, blockIdx.x, kQueries);
    if constexpr (kPacked<Params>) {
      zero_uncovered_rows<float>(p, schedule, work, kQueries);
      if (work.first_query >= work.seq_q) return;
    }
    const float* q = query_rows(static_cast<const float*>(p.q), p.q_strides, work);
    const float* k = key_rows(static_cast<const float*>(p.k), p.k_strides, work);
    const float* v = key_rows(static_cast<const float*>(p.v), p.v_strides, work);
    int first_key = work.first_key;
    if (first_key < work.keys) {
      copy_queries(shared, q + work.first_query * p.q_strides.row, p.q_strides.row, work.seq_q - work.first_query);
      start_rows(shared.keys, k + first_key * p.k_strides.row, p.k_strides.row, work.seq_kv - first_key);
    }

    const auto exponents = exponents_of(p);
    float row_max[Rows];
    float row_sum[Rows] = {};  // of this lane's weights only
    float4 out[Rows][kChunks] = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) row_max[r] = -INFINITY;
    for (; first_key < work.keys; first_key += kKeys) {
      cp_async_wait<0>();
      __syncthreads();  // this tile's keys have landed, and all warps have read the previous tile's values
      start_rows(shared.values, v + first_key * p.v_strides.row, p.v_strides.row, work.seq_kv - first_key);

      float scores[Rows][KeysPerLane] = {};
#pragma unroll kUnrolled
      for (int column = 0; column < kWidth; ++column) {
        float query[4][Rows];  // [d][row]
#pragma unroll
        for (int d = 0; d < 4; ++d) load_fours(&shared.queries[4 * column + d][first_row], query[d]);
        float key[KeysPerLane][4];  // [key][d]
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) {
          *reinterpret_cast<float4*>(key[j]) = shared.keys[lane_key + kLanes * j][column];
        }
#pragma unroll
        for (int d = 0; d < 4; ++d) {
#pragma unroll
          for (int j = 0; j < KeysPerLane; ++j) {
#pragma unroll
            for (int r = 0; r < Rows; ++r) scores[r][j] = fmaf(query[d][r], key[j][d], scores[r][j]);
          }
        }
      }
      if constexpr (kBiased<Params>) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const int query = work.first_query + first_row + row_of(r);
          const float* bias = bias_row(p, work, query) + first_key + lane_key;
          const int keys = query < work.seq_q ? work.seq_kv - first_key - lane_key : 0;
#pragma unroll
          for (int j = 0; j < KeysPerLane; ++j) {
            scores[r][j] = fmaf(scores[r][j], p.scale, kLanes * j < keys ? __ldg(bias + kLanes * j) : 0.0f);
          }
        }
      }
      // Most tiles are visible to all of the warp's queries and need no mask.
      const int warp_query = work.first_query + warp_row;
      const bool all_new_seen = first_key + kKeys <= keys_seen(warp_query, work.seq_kv, work.diagonal, p.causal);
      if (!all_new_seen || first_key < first_key_seen(warp_query + kWarpRows - 1, work.diagonal, p.window)) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const int query = work.first_query + first_row + row_of(r);
          const int seen = keys_seen(query, work.seq_kv, work.diagonal, p.causal) - first_key - lane_key;
          // Distance of the lane's first key from the query's newest key.
          const int behind = query + work.diagonal - first_key - lane_key;
#pragma unroll
          for (int j = 0; j < KeysPerLane; ++j) {
            const bool hidden = kLanes * j >= seen || behind - kLanes * j >= p.window;
            if (hidden) scores[r][j] = -INFINITY;
          }
        }
      }
      float top[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        top[r] = row_max[r];
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) top[r] = fmaxf(top[r], scores[r][j]);
        top[r] = combined(top[r], [](float a, float b) { return fmaxf(a, b); });
        if (Sharing > 1 && x == 0) shared.part[first_row + row_of(r)][part] = top[r];
      }
      cp_async_wait<0>();
      __syncthreads();  // this tile's values have landed, all maxima are written, and all warps have read the keys
      const int next_key = first_key + kKeys;
      if (next_key < work.keys) {
        start_rows(shared.keys, k + next_key * p.k_strides.row, p.k_strides.row, work.seq_kv - next_key);
      }

#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        if constexpr (Sharing > 1) {
#pragma unroll
          for (int other = 0; other < Sharing; ++other) top[r] = fmaxf(top[r], shared.part[first_row + row_of(r)][other]);
        }
        const float factor = exp2f(exponents.rescaling(row_max[r], top[r]));  // exactly 1 if the maximum has not risen
        const ExponentLine line = exponents.line(top[r]);
        row_max[r] = top[r];
        row_sum[r] *= factor;
#pragma unroll
        for (int j = 0; j < KeysPerLane; ++j) {
          scores[r][j] = exp2f(exponents.exponent(scores[r][j], line));
          row_sum[r] += scores[r][j];
        }
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          out[r][c].x *= factor;
          out[r][c].y *= factor;
          out[r][c].z *= factor;
          out[r][c].w *= factor;
        }
      }
#pragma unroll
      for (int j = 0; j < KeysPerLane; ++j) {
#pragma unroll
        for (int f = 0; f < kFours; ++f) {
          *reinterpret_cast<float4*>(&shared.weights[lane_key + kLanes * j][first_row + 16 * f]) =
              make_float4(scores[4 * f][j], scores[4 * f + 1][j], scores[4 * f + 2][j], scores[4 * f + 3][j]);
        }
      }
      if constexpr (Sharing > 1) {
        __syncthreads();  // all warps that share these rows have stored their weights
      } else {
        __syncwarp();
      }
#pragma unroll 2 * kUnrolled
      for (int key = 0; key < kKeys; ++key) {
        float weight[Rows];
        load_fours(&shared.weights[key][first_row], weight);
#pragma unroll
        for (int c = 0; c < kChunks; ++c) {
          const float4 value = shared.values[key][lane_column + kLanes * c];
          // Column by column, so that a value stays in its register while the rows go by.
#pragma unroll
          for (int r = 0; r < Rows; ++r) out[r][c].x = fmaf(weight[r], value.x, out[r][c].x);
#pragma unroll
          for (int r = 0; r < Rows; ++r) out[r][c].y = fmaf(weight[r], value.y, out[r][c].y);
#pragma unroll
          for (int r = 0; r < Rows; ++r) out[r][c].z = fmaf(weight[r], value.z, out[r][c].z);
#pragma unroll
          for (int r = 0; r < Rows; ++r) out[r][c].w = fmaf(weight[r], value.w, out[r][c].w);
        }
      }
    }

    // Recomputed: keeping it across the loop would cost registers.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const FlashAttentionWork done = work_of_block<true>(p, schedule, block, kQueries);
    float* to = query_rows(static_cast<float*>(p.out), p.out_strides, done);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      row_sum[r] = combined(row_sum[r], [](float a, float b) { return a + b; });
      if (Sharing > 1 && x == 0) shared.part[first_row + row_of(r)][part] = row_sum[r];
    }
    if constexpr (Sharing > 1) __syncthreads();
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      float sum = row_sum[r];
      if constexpr (Sharing > 1) {
        sum = 0.0f;
#pragma unroll
        for (int other = 0; other < Sharing; ++other) sum += shared.part[first_row + row_of(r)][other];
      }
      const float normalizer = sum == 0.0f ? 0.0f : __frcp_rn(sum);
      const int query = done.first_query + first_row + row_of(r);
      if (query >= done.seq_q) continue;
      if (p.lse != nullptr && x == 0 && part == 0) {
        lse_rows(p, done)[query] = exponents.log_sum_exp(row_max[r], p.scale, sum);
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

template <int HeadDim, int Warps, int Sharing, int Rows, int KeysPerLane, typename Shape,
          typename Params>
__global__ void __launch_bounds__(Shape::kThreads)
    flash_attention_fp32_kernel(const Params p, const FlashAttentionSchedule schedule) {
  Fp32Attention<HeadDim, Warps, Sharing, Rows, KeysPerLane, Params>::run(p, schedule);
}

}  // namespace

namespace {

template <int HeadDim, typename Params>
cudaError_t launch_tile(const Params& p, cudaStream_t stream) {
  constexpr FlashAttentionFp32Tile tile = flash_attention_fp32_sm80_tile(HeadDim);
  using A = Fp32Attention<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Params>;
  using Shape = typename A::Shape;
  return launch_flash_attention<Shape>(
      flash_attention_fp32_kernel<HeadDim, tile.warps, tile.sharing, tile.rows, tile.keys, Shape, Params>, p,
      A::kQueries, sizeof(float), stream);
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

cudaError_t flash_attention_fp32_sm80(const FlashAttentionParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm80(const FlashAttentionPackedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

cudaError_t flash_attention_fp32_sm80(const FlashAttentionBiasedParams& p, cudaStream_t stream) {
  return launch(with_window(p), stream);
}

}  // namespace warpwatch
