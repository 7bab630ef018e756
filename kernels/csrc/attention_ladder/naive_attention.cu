// naive_attention: one warp per query, three passes over its keys, with the scores in global memory between them.
//
// Each query reads all keys and values that it sees: 2 seq_kv head_dim elements for 4 seq_kv head_dim FLOP, 1 FLOP per byte at
// fp16, from L2. tiled_attention improves on that: a block of queries shares each load of keys and values, and the scores' 16
// bytes per query-key pair are not moved at all.
#include <cuda_runtime.h>

#include <climits>
#include <cmath>

#include "attention_ladder/attention_ladder.h"
#include "primitives/element.cuh"

namespace warpwatch {
namespace {

constexpr int kWarps = 4;

__device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

template <typename Element>
__global__ void __launch_bounds__(32 * kWarps)
    naive_attention_kernel(const FlashAttentionParams p, float* all_scores) {
  const int lane = threadIdx.x % 32;
  const int64_t queries = int64_t{p.batch} * p.heads_q * p.seq_q;
  const int64_t query = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (query >= queries) return;
  const int i = static_cast<int>(query % p.seq_q);
  const int64_t head = query / p.seq_q % p.heads_q;
  const int64_t batch = query / p.seq_q / p.heads_q;
  const int64_t head_kv = head / (p.heads_q / p.heads_kv);

  const Element* q = static_cast<const Element*>(p.q) + batch * p.q_strides.batch + head * p.q_strides.head +
                     i * p.q_strides.row;
  const Element* k = static_cast<const Element*>(p.k) + batch * p.k_strides.batch + head_kv * p.k_strides.head;
  const Element* v = static_cast<const Element*>(p.v) + batch * p.v_strides.batch + head_kv * p.v_strides.head;
  Element* out = static_cast<Element*>(p.out) + batch * p.out_strides.batch + head * p.out_strides.head +
                 i * p.out_strides.row;
  float* scores = all_scores + query * p.seq_kv;
  const int seen = p.causal ? min(p.seq_kv, i + 1 + p.seq_kv - p.seq_q) : p.seq_kv;  // may be negative: the query sees nothing

  // Pass 1: scores, one key at a time with its columns spread over the lanes, and their maximum.
  float top = -INFINITY;
  for (int j = 0; j < seen; ++j) {
    float dot = 0.0f;
    for (int d = lane; d < p.head_dim; d += 32) dot = fmaf(as_float(q[d]), as_float(k[j * p.k_strides.row + d]), dot);
    const float score = warp_sum(dot);
    if (lane == 0) scores[j] = score;
    top = fmaxf(top, score);
  }
  __syncwarp();  // makes lane 0's scores visible to all lanes
  if (top == -INFINITY) top = 0.0f;  // no score, or all NaN: exp(score - top) is unused, or NaN

  // Pass 2: weights in place of scores, and their sum. The maximum is subtracted before scaling: scaling first would round
  // large scores by more than they differ.
  float sum = 0.0f;
  for (int j = lane; j < seen; j += 32) {
    const float weight = expf((scores[j] - top) * p.scale);
    scores[j] = weight;
    sum += weight;
  }
  sum = warp_sum(sum);
  __syncwarp();  // makes every lane's weights visible to all lanes

  // Pass 3: the weighted values; each lane owns its columns.
  const float normalizer = sum == 0.0f ? 0.0f : 1.0f / sum;
  for (int d = lane; d < p.head_dim; d += 32) {
    float total = 0.0f;
    for (int j = 0; j < seen; ++j) total = fmaf(scores[j], as_float(v[j * p.v_strides.row + d]), total);
    from_float(total * normalizer, out[d]);
  }
}

template <typename Element>
cudaError_t launch(const FlashAttentionParams& p, float* scores, cudaStream_t stream) {
  const int64_t queries = int64_t{p.batch} * p.heads_q * p.seq_q;
  const int64_t blocks = (queries + kWarps - 1) / kWarps;
  if (blocks > INT_MAX) return cudaErrorInvalidValue;
  if (blocks == 0) return cudaSuccess;
  naive_attention_kernel<Element><<<static_cast<int>(blocks), 32 * kWarps, 0, stream>>>(p, scores);
  return cudaGetLastError();
}

}  // namespace

cudaError_t naive_attention_cuda(const FlashAttentionParams& p, float* scores, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, scores, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, scores, stream);
    case Dtype::kFloat32: return launch<float>(p, scores, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
