// tiled_attention: a block owns 32 queries and loops over tiles of keys and values in shared memory with an online softmax;
// fp32 on the FP32 cores.
//
// Eight lanes share a query. Lane x of them computes the scores of keys x, x + 8, ... of a tile, then accumulates output
// columns x, x + 8, ...; weights pass between the lanes through shared memory. Keys and values are loaded once for 32 queries:
// 16 FLOP per byte at fp16, from L2, and more. The bound is shared memory, two loads of 4 bytes per FMA, then the FP32 cores.
// flash_attention improves on that: one tensor-core instruction computes 16 x 8 x 16 products on fragments that ldmatrix loads
// 16 bytes at a time, and copies overlap the computation.
// Rows in shared memory are padded by one float, so that 8 rows read at one column hit 8 banks.
#include <cuda_runtime.h>

#include <climits>
#include <cmath>

#include "attention_ladder/attention_ladder.h"
#include "primitives/attributes.h"
#include "primitives/element.cuh"
#include "primitives/launch_shape.h"

namespace warpwatch {
namespace {

constexpr int kQueries = 32;
constexpr int kLanes = 8;  // lanes per query
constexpr int kThreads = kQueries * kLanes;

// At most 64 KB per block, which sm_75 has.
template <int HeadDim>
constexpr int kKeys = HeadDim == 256 ? 16 : 32;

template <int HeadDim>
struct Tiles {
  float queries[kQueries][HeadDim + 1];
  float keys_or_values[kKeys<HeadDim>][HeadDim + 1];
  float weights[kQueries][kKeys<HeadDim> + 1];
};

// Copies rows from global to shared memory; rows from live_rows on are filled with zeros.
template <typename Element, int Rows, int Padded>
__device__ __forceinline__ void load_rows(float (&tile)[Rows][Padded], const Element* global, int64_t row_stride,
                                          int live_rows) {
  constexpr int kWidth = Padded - 1;
  for (int i = threadIdx.x; i < Rows * kWidth; i += kThreads) {
    const int row = i / kWidth;
    const int column = i % kWidth;
    tile[row][column] = row < live_rows ? as_float(global[row * row_stride + column]) : 0.0f;
  }
}

template <typename Element, int HeadDim, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads) tiled_attention_kernel(const FlashAttentionParams p) {
  constexpr int kTileKeys = kKeys<HeadDim>;
  constexpr int kKeysPerLane = kTileKeys / kLanes;
  constexpr int kColumns = HeadDim / kLanes;  // of the output, per lane
  extern __shared__ __align__(16) unsigned char raw[];
  auto& tiles = *reinterpret_cast<Tiles<HeadDim>*>(raw);
  const int x = threadIdx.x % kLanes;
  const int row = threadIdx.x / kLanes;

  const int query_tiles = (p.seq_q + kQueries - 1) / kQueries;
  const int first_query = static_cast<int>(blockIdx.x % query_tiles) * kQueries;
  const int64_t head = blockIdx.x / query_tiles % p.heads_q;
  const int64_t batch = blockIdx.x / query_tiles / p.heads_q;
  const int64_t head_kv = head / (p.heads_q / p.heads_kv);
  const Element* q = static_cast<const Element*>(p.q) + batch * p.q_strides.batch + head * p.q_strides.head;
  const Element* k = static_cast<const Element*>(p.k) + batch * p.k_strides.batch + head_kv * p.k_strides.head;
  const Element* v = static_cast<const Element*>(p.v) + batch * p.v_strides.batch + head_kv * p.v_strides.head;
  load_rows(tiles.queries, q + first_query * p.q_strides.row, p.q_strides.row, p.seq_q - first_query);

  // This query sees the keys below `seen`, the block's last query those below `keys`; both may be negative.
  const int query = first_query + row;
  const int diagonal = p.seq_kv - p.seq_q + 1;
  const int seen = p.causal ? min(p.seq_kv, query + diagonal) : p.seq_kv;
  const int keys = p.causal ? min(p.seq_kv, min(first_query + kQueries, p.seq_q) - 1 + diagonal) : p.seq_kv;
  float row_max = -INFINITY;
  float row_sum = 0.0f;
  float out[kColumns] = {};
  for (int first_key = 0; first_key < keys; first_key += kTileKeys) {
    __syncthreads();  // queries are stored, and all threads have read the previous tile's values
    load_rows(tiles.keys_or_values, k + first_key * p.k_strides.row, p.k_strides.row, p.seq_kv - first_key);
    __syncthreads();
    float scores[kKeysPerLane] = {};
#pragma unroll 8
    for (int d = 0; d < HeadDim; ++d) {
#pragma unroll
      for (int j = 0; j < kKeysPerLane; ++j) {
        scores[j] = fmaf(tiles.queries[row][d], tiles.keys_or_values[x + kLanes * j][d], scores[j]);
      }
    }

    float top = row_max;
#pragma unroll
    for (int j = 0; j < kKeysPerLane; ++j) {
      if (first_key + x + kLanes * j >= seen) scores[j] = -INFINITY;
      top = fmaxf(top, scores[j]);
    }
    for (int step = kLanes / 2; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    // A row that has seen no key has the maximum -inf. Subtracting 0 instead gives weights 0, not exp(-inf + inf).
    // The maximum is subtracted before scaling: scaling first would round large scores by more than they differ.
    const float base = top == -INFINITY ? 0.0f : top;
    const float factor = expf((row_max - base) * p.scale);
    row_max = top;
    row_sum *= factor;
#pragma unroll
    for (int j = 0; j < kKeysPerLane; ++j) {
      const float weight = expf((scores[j] - base) * p.scale);
      row_sum += weight;
      tiles.weights[row][x + kLanes * j] = weight;
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) out[c] *= factor;

    __syncthreads();  // weights are stored, and all threads have read the keys
    load_rows(tiles.keys_or_values, v + first_key * p.v_strides.row, p.v_strides.row, p.seq_kv - first_key);
    __syncthreads();
    for (int key = 0; key < kTileKeys; ++key) {
      const float weight = tiles.weights[row][key];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) out[c] = fmaf(weight, tiles.keys_or_values[key][x + kLanes * c], out[c]);
    }
  }

  for (int step = kLanes / 2; step > 0; step /= 2) row_sum += __shfl_xor_sync(0xffffffffu, row_sum, step);
  const float normalizer = row_sum == 0.0f ? 0.0f : 1.0f / row_sum;
  if (query >= p.seq_q) return;
  Element* to = static_cast<Element*>(p.out) + batch * p.out_strides.batch + head * p.out_strides.head +
                query * p.out_strides.row;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) from_float(out[c] * normalizer, (to + x)[kLanes * c]);
}

template <typename Element, int HeadDim>
cudaError_t launch(const FlashAttentionParams& p, cudaStream_t stream) {
  using Shape = LaunchShape<kThreads, sizeof(Tiles<HeadDim>)>;
  const auto kernel = tiled_attention_kernel<Element, HeadDim, Shape>;
  const int64_t blocks = int64_t{p.batch} * p.heads_q * ((int64_t{p.seq_q} + kQueries - 1) / kQueries);
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  if (cudaError_t error = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
      error != cudaSuccess) {
    return error;
  }
  kernel<<<static_cast<int>(blocks), Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

template <typename Element>
cudaError_t launch_head_dim(const FlashAttentionParams& p, cudaStream_t stream) {
  switch (p.head_dim) {
    case 64: return launch<Element, 64>(p, stream);
    case 96: return launch<Element, 96>(p, stream);
    case 128: return launch<Element, 128>(p, stream);
    case 256: return launch<Element, 256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t tiled_attention_cuda(const FlashAttentionParams& p, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_head_dim<__half>(p, stream);
    case Dtype::kBFloat16: return launch_head_dim<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_head_dim<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
