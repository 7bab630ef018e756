// naive_attention on the CPU: queries are distributed over PyTorch's threads; each
// computes its scores, softmax and weighted sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_ladder/attention_ladder.h"
#include "framework/parallel.h"

namespace warpwatch {
namespace {

template <class Element>
void attend(const FlashAttentionParams& p, int64_t batch, int64_t head, int64_t query, std::vector<float>& weights,
            std::vector<float>& sums) {
  const int64_t head_kv = head / (p.heads_q / p.heads_kv);
  const auto row = [](const void* tensor, const FlashAttentionStrides& strides, int64_t b, int64_t h, int64_t r) {
    return static_cast<const Element*>(tensor) + b * strides.batch + h * strides.head + r * strides.row;
  };
  const Element* q = row(p.q, p.q_strides, batch, head, query);
  const int64_t seen = p.causal ? std::min<int64_t>(p.seq_kv, query + 1 + p.seq_kv - p.seq_q) : p.seq_kv;
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < seen; ++j) {
    const Element* k = row(p.k, p.k_strides, batch, head_kv, j);
    float dot = 0.0f;
    for (int d = 0; d < p.head_dim; ++d) dot += static_cast<float>(q[d]) * static_cast<float>(k[d]);
    weights[j] = dot;
    top = std::max(top, weights[j]);
  }
  float sum = 0.0f;
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (int64_t j = 0; j < seen; ++j) {
    const Element* v = row(p.v, p.v_strides, batch, head_kv, j);
    // The maximum is subtracted before scaling: scaling first would round large scores by more than they differ.
    const float weight = std::exp((weights[j] - top) * p.scale);
    sum += weight;
    for (int d = 0; d < p.head_dim; ++d) sums[d] += weight * static_cast<float>(v[d]);
  }
  Element* out = static_cast<Element*>(p.out) + batch * p.out_strides.batch + head * p.out_strides.head +
                 query * p.out_strides.row;
  for (int d = 0; d < p.head_dim; ++d) out[d] = static_cast<Element>(sum == 0.0f ? 0.0f : sums[d] / sum);
}

template <class Element>
void attend_all(const FlashAttentionParams& p) {
  const int64_t queries = int64_t{p.batch} * p.heads_q * p.seq_q;
  parallel_for(0, queries, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> weights(p.seq_kv);
    std::vector<float> sums(p.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      attend<Element>(p, i / p.seq_q / p.heads_q, i / p.seq_q % p.heads_q, i % p.seq_q, weights, sums);
    }
  });
}

}  // namespace

void naive_attention_cpu(const FlashAttentionParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return attend_all<Half>(p);
    case Dtype::kBFloat16: return attend_all<BFloat16>(p);
    case Dtype::kFloat32: return attend_all<float>(p);
  }
}

}  // namespace warpwatch
