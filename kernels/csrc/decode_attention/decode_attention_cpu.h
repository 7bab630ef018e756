// decode_attention on the CPU, over any cache: key heads are distributed over PyTorch's threads; each loops over blocks of keys
// with all of its packed queries.
//
// All arithmetic is in fp32. Keys are stored transposed, so the inner loop over scores runs along keys and that over values
// along columns: both add along a row, in an order that the compiler can vectorize without changing a sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "decode_attention/decode_attention.h"
#include "decode_attention/decode_attention_cache.h"
#include "framework/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// The dynamic loader picks the clone with the widest vectors that the machine supports.
#define WARPWATCH_WIDEST_VECTORS __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define WARPWATCH_WIDEST_VECTORS
#endif

namespace warpwatch {
namespace {

constexpr int kDecodeCpuKeys = 64;
constexpr float kDecodeCpuNothing = -std::numeric_limits<float>::infinity();

// sum[i] += factor * row[i]
WARPWATCH_WIDEST_VECTORS void decode_add_scaled(float* __restrict__ sum, float factor, const float* __restrict__ row,
                                                int count) {
  for (int i = 0; i < count; ++i) sum[i] += factor * row[i];
}

// Working set of one thread: a key head's packed queries with running maximum, sum and
// output, and one block of keys and values.
struct DecodeCpuBlock {
  std::vector<float> q, out, row_max, row_sum;  // (rows, head_dim), as q, (rows), (rows)
  std::vector<float> keys, values;              // (head_dim, keys), (keys, head_dim)

  DecodeCpuBlock(int rows, int head_dim)
      : q(size_t(rows) * head_dim),
        out(size_t(rows) * head_dim),
        row_max(rows),
        row_sum(rows),
        keys(head_dim * kDecodeCpuKeys),
        values(kDecodeCpuKeys * head_dim) {}

  // Adds `seen` keys of the block to row r.
  void add_keys(int r, int seen, int head_dim, float scale) {
    float scores[kDecodeCpuKeys] = {};
    for (int d = 0; d < head_dim; ++d) {
      decode_add_scaled(scores, q[size_t(r) * head_dim + d], &keys[d * kDecodeCpuKeys], kDecodeCpuKeys);
    }
    float top = row_max[r];
    for (int j = 0; j < seen; ++j) top = std::max(top, scores[j]);
    // A row whose scores are all NaN keeps the maximum -inf; its weights become NaN, as they should.
    const float base = top == kDecodeCpuNothing ? 0.0f : top;
    // The maximum is subtracted before scaling: scaling first would round large scores by more than they differ.
    const float factor = std::exp((row_max[r] - base) * scale);  // 0 for the first keys: exp(-inf)
    float* row = &out[size_t(r) * head_dim];
    for (int d = 0; d < head_dim; ++d) row[d] *= factor;
    float sum = row_sum[r] * factor;
    for (int j = 0; j < seen; ++j) {
      const float weight = std::exp((scores[j] - base) * scale);
      sum += weight;
      decode_add_scaled(row, weight, &values[j * head_dim], head_dim);
    }
    row_max[r] = top;
    row_sum[r] = sum;
  }
};

// Computes all new tokens of one key head of one sequence.
template <class Element, class Cache>
void decode_on_cpu(const DecodeAttentionParams& p, const Cache& cache, DecodeCpuBlock& block, int batch, int head_kv) {
  const int rows = p.group * p.seq_q;
  const int head_dim = p.head_dim;
  const int length = p.lengths == nullptr ? p.capacity : std::clamp(p.lengths[batch], 0, p.capacity);
  const typename HeadOf<Cache, Element>::Type head(cache, batch, head_kv);

  for (int r = 0; r < rows; ++r) {
    const Element* from = static_cast<const Element*>(p.q) + batch * p.q_batch_stride +
                          (head_kv * p.group + r / p.seq_q) * p.q_head_stride + r % p.seq_q * p.q_row_stride;
    std::copy_n(from, head_dim, &block.q[size_t(r) * head_dim]);
  }
  std::fill(block.out.begin(), block.out.end(), 0.0f);
  std::fill(block.row_max.begin(), block.row_max.end(), kDecodeCpuNothing);
  std::fill(block.row_sum.begin(), block.row_sum.end(), 0.0f);

  for (int first_key = 0; first_key < length; first_key += kDecodeCpuKeys) {
    const int live = std::min(kDecodeCpuKeys, length - first_key);
    for (int j = 0; j < live; ++j) {
      const int page = head.page_of(first_key + j);
      const auto key = head.key_row(page, first_key + j);  // a pointer, or a type with operator[] over the elements
      const auto value = head.value_row(page, first_key + j);
      for (int d = 0; d < head_dim; ++d) {
        block.keys[d * kDecodeCpuKeys + j] = key[d];
        block.values[j * head_dim + d] = value[d];
      }
    }
    for (int r = 0; r < rows; ++r) {
      const int seen = std::min(live, length - p.seq_q + 1 + r % p.seq_q - first_key);
      if (seen > 0) block.add_keys(r, seen, head_dim, p.scale);
    }
  }

  Element* to = static_cast<Element*>(p.out) + (int64_t{batch} * p.heads_kv + head_kv) * rows * head_dim;
  for (int r = 0; r < rows; ++r) {
    const float normalizer = block.row_sum[r] == 0.0f ? 0.0f : 1.0f / block.row_sum[r];
    for (int d = 0; d < head_dim; ++d) {
      const size_t i = size_t(r) * head_dim + d;
      to[i] = static_cast<Element>(block.out[i] * normalizer);
    }
  }
}

template <class Element, class Cache>
void decode_all_on_cpu(const DecodeAttentionParams& p, const Cache& cache) {
  parallel_for(0, int64_t{p.batch} * p.heads_kv, 1, [&](int64_t begin, int64_t end) {
    DecodeCpuBlock block(p.group * p.seq_q, p.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      decode_on_cpu<Element>(p, cache, block, static_cast<int>(i / p.heads_kv), static_cast<int>(i % p.heads_kv));
    }
  });
}

template <class Cache>
void decode_any_dtype_on_cpu(const DecodeAttentionParams& p, const Cache& cache) {
  switch (p.dtype) {
    case Dtype::kFloat16: return decode_all_on_cpu<Half>(p, cache);
    case Dtype::kBFloat16: return decode_all_on_cpu<BFloat16>(p, cache);
    case Dtype::kFloat32: return decode_all_on_cpu<float>(p, cache);
  }
}

}  // namespace
}  // namespace warpwatch
