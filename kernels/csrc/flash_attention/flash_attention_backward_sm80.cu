// flash_attention_backward for sm_80 and newer: mma m16n8k16 on fp16 or bf16, tiles by cp.async.
//
// Three kernels, one after the other on the stream. `delta` needs a warp a query. `dq` is the forward pass over again: a
// block owns queries and walks over keys. `dkdv` is its mirror image: a block owns keys and walks over the queries of all
// heads that share them, with scores transposed (rows are keys), so that weights and ds are A operands as they are.
// Every tile is waited for; blocks beside each other on the SM fill the gaps.
#include <cuda_runtime.h>

#include <climits>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_tiles.h"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_tile_copies.cuh"
#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

// What scores are shifted by, in powers of two: a query that is not there or sees no key gets weights 2^-inf.
__device__ __forceinline__ float shift_of(float lse) { return lse == -INFINITY ? INFINITY : lse * kLog2E; }

// In the place of store_out's softmax: all rows by one factor.
struct Factor {
  float value;
  __device__ __forceinline__ float normalizer(int, int) const { return value; }
};

// delta[row] = sum_d d_out[row, d] out[row, d]; a warp a row, 16 bytes a lane.
template <typename Element>
__global__ void __launch_bounds__(kFlashAttentionDeltaThreads)
    flash_attention_delta_kernel(const FlashAttentionBackwardParams p) {
  const FlashAttentionParams& f = p.forward;
  const int64_t row = int64_t{blockIdx.x} * (kFlashAttentionDeltaThreads / 32) + threadIdx.x / 32;
  if (row >= int64_t{f.batch} * f.heads_q * f.seq_q) return;
  const int64_t query = row % f.seq_q;
  const int head = static_cast<int>(row / f.seq_q % f.heads_q);
  const int batch = static_cast<int>(row / f.seq_q / f.heads_q);
  const int lane = threadIdx.x % 32;
  float sum = 0.0f;
  if (8 * lane < f.head_dim) {
    const Element* out = head_pointer(static_cast<const Element*>(f.out), f.out_strides, batch, head);
    const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, batch, head);
    const uint4 a = *reinterpret_cast<const uint4*>(out + query * f.out_strides.row + 8 * lane);
    const uint4 b = *reinterpret_cast<const uint4*>(d_out + query * p.d_out_strides.row + 8 * lane);
    const Element* a_elements = reinterpret_cast<const Element*>(&a);
    const Element* b_elements = reinterpret_cast<const Element*>(&b);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(static_cast<float>(a_elements[i]), static_cast<float>(b_elements[i]), sum);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) p.delta[row] = sum;
}

template <typename Element, int HeadDim, int Warps, int Keys, bool Windowed>
struct QueryGradient {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kQueries = 16 * Warps;
  static constexpr int kRowBytes = 2 * HeadDim;
  static constexpr int kSharedBytes = 2 * (kQueries + Keys) * kRowBytes;  // queries, d_out, keys, values
  using Shape = LaunchShape<kThreads, kSharedBytes>;
  using Mma = Mma16x8x16<Element>;

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

    const FlashAttentionWork work = work_of_block<Windowed>(f, schedule, blockIdx.x, kQueries);
    const int first_query = work.first_query + warp_row;
    int first_key = ((work.keys + Keys - 1) / Keys - 1) * Keys;  // negative when no key is seen
    const int stop = Windowed ? work.first_key / Keys * Keys : 0;
    const Element* q = head_pointer(static_cast<const Element*>(f.q), f.q_strides, work.batch, work.head);
    const Element* k = head_pointer(static_cast<const Element*>(f.k), f.k_strides, work.batch, work.head_kv);
    const Element* v = head_pointer(static_cast<const Element*>(f.v), f.v_strides, work.batch, work.head_kv);
    const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, work.batch, work.head);
    const TileCopies<kQueries, HeadDim, kThreads, Element> q_copies(q + work.first_query * f.q_strides.row,
                                                                   f.q_strides.row, queries_at);
    const TileCopies<kQueries, HeadDim, kThreads, Element> d_out_copies(
        d_out + work.first_query * p.d_out_strides.row, p.d_out_strides.row, d_out_at);
    TileCopies<Keys, HeadDim, kThreads, Element> k_copies(k + first_key * f.k_strides.row, f.k_strides.row, keys_at);
    TileCopies<Keys, HeadDim, kThreads, Element> v_copies(v + first_key * f.v_strides.row, f.v_strides.row, values_at);
    if (first_key >= stop) {
      q_copies.start(f.q_strides.row, f.seq_q - work.first_query);
      d_out_copies.start(p.d_out_strides.row, f.seq_q - work.first_query);
    }

    float shift[2];  // of the lane's two rows
    float delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + lane / 4 + 8 * half;
      const int64_t row = (int64_t{work.batch} * f.heads_q + work.head) * f.seq_q + query;
      shift[half] = query < f.seq_q ? shift_of(f.lse[row]) : INFINITY;
      delta[half] = query < f.seq_q ? p.delta[row] : 0.0f;
    }
    QueriesInShared<1, HeadDim> queries;
    QueriesInShared<1, HeadDim> d_outs;
    queries.take(queries_at + warp_row * kRowBytes);
    d_outs.take(d_out_at + warp_row * kRowBytes);
    const uint32_t lane_keys = lane_address_chunks_first<HeadDim>(keys_at);
    const uint32_t lane_values = lane_address_chunks_first<HeadDim>(values_at);
    const uint32_t lane_key_rows = lane_address_rows_first<HeadDim>(keys_at);
    const float scale_log2 = f.scale * kLog2E;

    float dq[1][HeadDim / 8][4] = {};
    for (; first_key >= stop; first_key -= Keys) {
      __syncthreads();  // every warp has left the tile before
      k_copies.start(f.k_strides.row, f.seq_kv - first_key);
      v_copies.start(f.v_strides.row, f.seq_kv - first_key);
      k_copies.to_previous_tile(f.k_strides.row);
      v_copies.to_previous_tile(f.v_strides.row);
      cp_async_wait<0>();
      __syncthreads();  // this tile has landed, and with the first one the queries

      float scores[1][Keys / 8][4];
      multiply_keys<Mma, HeadDim>(scores, queries, lane_keys);
      mask_scores<Windowed>(scores, first_query, first_key, f.seq_kv, work.diagonal, f.causal, f.window);
      float d_weights[1][Keys / 8][4];
      multiply_keys<Mma, HeadDim>(d_weights, d_outs, lane_values);
#pragma unroll
      for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const float weight = exp2_approximate(fmaf(scores[0][n][c], scale_log2, -shift[c / 2]));
          scores[0][n][c] = weight * (d_weights[0][n][c] - delta[c / 2]);
        }
      }
      multiply_values<Mma, HeadDim>(dq, scores, lane_key_rows);
    }

    Element* to = head_pointer(static_cast<Element*>(p.dq), p.dq_strides, work.batch, work.head) +
                  first_query * p.dq_strides.row;
    __syncwarp();  // the rows of queries that this warp writes over were read by this warp alone
    store_out<Element, HeadDim>(dq, Factor{f.scale}, shared + warp_row * kRowBytes, to, p.dq_strides.row,
                                f.seq_q - first_query);
  }
};

template <typename Element, int HeadDim, int Warps, int Keys, bool Windowed, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dq_sm80_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule) {
  QueryGradient<Element, HeadDim, Warps, Keys, Windowed>::run(p, schedule);
}

// Which of dk and dv a block works out. Together they are 2 * HeadDim registers a thread: too many of head_dim 256.
enum class KeyGradients { kBoth, kKeys, kValues };

template <typename Element, int HeadDim, int Warps, int Queries, bool Windowed, KeyGradients Which>
struct KeyGradient {
  static constexpr int kThreads = 32 * Warps;
  static constexpr int kKeys = 16 * Warps;
  static constexpr int kRowBytes = 2 * HeadDim;
  // Keys, values, queries, d_out, and of each query the shift and delta.
  static constexpr int kSharedBytes = 2 * (kKeys + Queries) * kRowBytes + 2 * Queries * int(sizeof(float));
  static constexpr bool kWithKeys = Which != KeyGradients::kValues;
  static constexpr bool kWithValues = Which != KeyGradients::kKeys;
  static_assert(Queries <= kThreads, "a thread brings one query's shift and delta");
  using Shape = LaunchShape<kThreads, kSharedBytes>;
  using Mma = Mma16x8x16<Element>;

  // Sets to -inf what is hidden: rows are keys from first_key on, columns queries from first_query on. Keys and queries
  // that are not there need no mask: the former's rows are not stored, the latter's shift is infinite.
  static __device__ __forceinline__ void mask(float (&scores)[1][Queries / 8][4], int first_key, int first_query,
                                              int diagonal, int window) {
    const bool all_new_seen = first_key + 15 <= first_query + diagonal;
    const bool all_old_seen = !Windowed || first_key > first_query + Queries - 1 + diagonal - window;
    if (all_new_seen && all_old_seen) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < Queries / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        // How many keys this one is behind the newest that the query sees.
        const int behind = first_query + 8 * n + 2 * (lane % 4) + c % 2 + diagonal - first_key - lane / 4 - 8 * (c / 2);
        if (behind < 0 || (Windowed && behind >= window)) scores[0][n][c] = -INFINITY;
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
    float* const shift = reinterpret_cast<float*>(shared + 2 * (kKeys + Queries) * kRowBytes);
    float* const delta = shift + Queries;
    const int warp_row = threadIdx.x / 32 * 16;
    const int lane = threadIdx.x % 32;

    // Heads run fastest. Under the causal mask the first keys are seen most, and come first.
    const int heads = f.batch * f.heads_kv;
    const int tile = blockIdx.x / heads;
    const int batch = (blockIdx.x - tile * heads) / f.heads_kv;
    const int head_kv = blockIdx.x - tile * heads - batch * f.heads_kv;
    const int group = f.heads_q / f.heads_kv;
    const int first_key = tile * kKeys;
    const int last_key = min(first_key + kKeys, f.seq_kv) - 1;
    const int diagonal = f.seq_kv - f.seq_q;
    // Queries begin .. end - 1 see one of the keys: i >= j - diagonal of the first, i < j - diagonal + window of the last.
    const int begin = f.causal ? max(first_key - diagonal, 0) / Queries * Queries : 0;
    const int end = Windowed ? min(f.seq_q, last_key - diagonal + f.window) : f.seq_q;

    const Element* k = head_pointer(static_cast<const Element*>(f.k), f.k_strides, batch, head_kv);
    const Element* v = head_pointer(static_cast<const Element*>(f.v), f.v_strides, batch, head_kv);
    const TileCopies<kKeys, HeadDim, kThreads, Element> k_copies(k + first_key * f.k_strides.row, f.k_strides.row,
                                                                keys_at);
    const TileCopies<kKeys, HeadDim, kThreads, Element> v_copies(v + first_key * f.v_strides.row, f.v_strides.row,
                                                                values_at);
    k_copies.start(f.k_strides.row, f.seq_kv - first_key);
    v_copies.start(f.v_strides.row, f.seq_kv - first_key);
    QueriesInShared<1, HeadDim> keys;
    QueriesInShared<1, HeadDim> values;
    keys.take(keys_at + warp_row * kRowBytes);
    values.take(values_at + warp_row * kRowBytes);
    const uint32_t lane_queries = lane_address_chunks_first<HeadDim>(queries_at);
    const uint32_t lane_d_out = lane_address_chunks_first<HeadDim>(d_out_at);
    const uint32_t lane_query_rows = lane_address_rows_first<HeadDim>(queries_at);
    const uint32_t lane_d_out_rows = lane_address_rows_first<HeadDim>(d_out_at);
    const float scale_log2 = f.scale * kLog2E;

    float dk[1][kWithKeys ? HeadDim / 8 : 1][4] = {};
    float dv[1][kWithValues ? HeadDim / 8 : 1][4] = {};
    for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
      const Element* q = head_pointer(static_cast<const Element*>(f.q), f.q_strides, batch, head);
      const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, batch, head);
      const int64_t first_row = (int64_t{batch} * f.heads_q + head) * f.seq_q;
      for (int first_query = begin; first_query < end; first_query += Queries) {
        __syncthreads();  // every warp has left the tile before
        const TileCopies<Queries, HeadDim, kThreads, Element> q_copies(q + first_query * f.q_strides.row,
                                                                      f.q_strides.row, queries_at);
        q_copies.start(f.q_strides.row, f.seq_q - first_query);
        const TileCopies<Queries, HeadDim, kThreads, Element> d_out_copies(d_out + first_query * p.d_out_strides.row,
                                                                          p.d_out_strides.row, d_out_at);
        d_out_copies.start(p.d_out_strides.row, f.seq_q - first_query);
        if (threadIdx.x < Queries) {
          const int query = first_query + threadIdx.x;
          shift[threadIdx.x] = query < f.seq_q ? shift_of(f.lse[first_row + query]) : INFINITY;
          delta[threadIdx.x] = query < f.seq_q ? p.delta[first_row + query] : 0.0f;
        }
        cp_async_wait<0>();
        __syncthreads();  // this tile has landed, and with the first one the keys and values

        float weights[1][Queries / 8][4];
        multiply_keys<Mma, HeadDim>(weights, keys, lane_queries);
        if (f.causal) mask(weights, first_key + warp_row, first_query, diagonal, f.window);
#pragma unroll
        for (int n = 0; n < Queries / 8; ++n) {
          const float2 shifts = *reinterpret_cast<const float2*>(shift + 8 * n + 2 * (lane % 4));
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            weights[0][n][c] =
                exp2_approximate(fmaf(weights[0][n][c], scale_log2, -(c % 2 == 0 ? shifts.x : shifts.y)));
          }
        }
        if constexpr (kWithValues) multiply_values<Mma, HeadDim>(dv, weights, lane_d_out_rows);
        if constexpr (kWithKeys) {
          float d_scores[1][Queries / 8][4];
          multiply_keys<Mma, HeadDim>(d_scores, values, lane_d_out);
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

    cp_async_wait<0>();
    __syncthreads();  // where no query came by, the keys still had to land before their rows are written over
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

template <typename Element, int HeadDim, int Warps, int Queries, bool Windowed, KeyGradients Which, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dkdv_sm80_kernel(const FlashAttentionBackwardParams p) {
  KeyGradient<Element, HeadDim, Warps, Queries, Windowed, Which>::run(p);
}

template <typename Shape, typename Kernel, typename... Arguments>
cudaError_t launch_shape(Kernel* kernel, int blocks, cudaStream_t stream, const Arguments&... arguments) {
  if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               Shape::kDynamicSharedBytes);
      error != cudaSuccess) {
    return error;
  }
  kernel<<<blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(arguments...);
  return cudaGetLastError();
}

template <typename Element>
cudaError_t launch_delta(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  const int64_t rows = int64_t{p.forward.batch} * p.forward.heads_q * p.forward.seq_q;
  const int64_t blocks = ceil_div(rows, kFlashAttentionDeltaThreads / 32);
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  flash_attention_delta_kernel<Element><<<static_cast<int>(blocks), kFlashAttentionDeltaThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename Element, int HeadDim, bool Windowed, KeyGradients Which>
cudaError_t launch_key_gradients(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  constexpr FlashAttentionBackwardTile tile = flash_attention_dkdv_tile(HeadDim);
  using K = KeyGradient<Element, HeadDim, tile.warps, tile.columns, Windowed, Which>;
  const int64_t blocks = ceil_div(p.forward.seq_kv, K::kKeys) * p.forward.batch * p.forward.heads_kv;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  using Shape = typename K::Shape;
  return launch_shape<Shape>(
      flash_attention_dkdv_sm80_kernel<Element, HeadDim, tile.warps, tile.columns, Windowed, Which, Shape>,
      static_cast<int>(blocks), stream, p);
}

template <typename Element, int HeadDim, bool Windowed>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<Element>(p, stream); error != cudaSuccess) return error;
  constexpr FlashAttentionBackwardTile tile = flash_attention_dq_tile(HeadDim);
  using Q = QueryGradient<Element, HeadDim, tile.warps, tile.columns, Windowed>;
  using Shape = typename Q::Shape;
  FlashAttentionSchedule schedule;
  if (cudaError_t error = make_schedule(p.forward, Q::kQueries, sizeof(Element), &schedule); error != cudaSuccess) {
    return error;
  }
  if (schedule.blocks > 0) {
    cudaError_t error =
        launch_shape<Shape>(flash_attention_dq_sm80_kernel<Element, HeadDim, tile.warps, tile.columns, Windowed, Shape>,
                            schedule.blocks, stream, p, schedule);
    if (error != cudaSuccess) return error;
  }
  if constexpr (HeadDim <= 128) {
    return launch_key_gradients<Element, HeadDim, Windowed, KeyGradients::kBoth>(p, stream);
  } else {
    cudaError_t error = launch_key_gradients<Element, HeadDim, Windowed, KeyGradients::kKeys>(p, stream);
    if (error != cudaSuccess) return error;
    return launch_key_gradients<Element, HeadDim, Windowed, KeyGradients::kValues>(p, stream);
  }
}

template <typename Element, int HeadDim>
cudaError_t launch_windowed(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  return p.forward.window > 0 ? launch<Element, HeadDim, true>(p, stream) : launch<Element, HeadDim, false>(p, stream);
}

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  switch (p.forward.head_dim) {
    case 64: return launch_windowed<Element, 64>(p, stream);
    case 96: return launch_windowed<Element, 96>(p, stream);
    case 128: return launch_windowed<Element, 128>(p, stream);
    case 256: return launch_windowed<Element, 256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t flash_attention_backward_sm80(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
