// flash_attention on the CPU: blocks of queries are distributed over PyTorch's threads; each block loops over blocks of keys.
//
// All arithmetic is in fp32. Keys are stored transposed, so the inner loop over scores runs along keys and that over values
// along columns: both add along a row, in an order that the compiler can vectorize without changing a sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "flash_attention/flash_attention.h"
#include "framework/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// The dynamic loader picks the clone with the widest vectors that the machine supports.
#define WIDEST_VECTORS __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define WIDEST_VECTORS
#endif

namespace warpwatch {
namespace {

constexpr int kQueries = 32;
constexpr int kKeys = 64;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// sum[i] += factor * row[i]
WIDEST_VECTORS void add_scaled(float* __restrict__ sum, float factor, const float* __restrict__ row, int count) {
  for (int i = 0; i < count; ++i) sum[i] += factor * row[i];
}

// Working set of one thread: a block of queries with running maximum, sum and output, and one block of keys and values.
struct Block {
  std::vector<float> q, keys, values, out;  // (queries, head_dim), (head_dim, keys), (keys, head_dim), as q
  float row_max[kQueries];
  float row_sum[kQueries];

  explicit Block(int head_dim)
      : q(kQueries * head_dim), keys(head_dim * kKeys), values(kKeys * head_dim), out(kQueries * head_dim) {}
};

// Adds keys first .. end - 1 of the block to row r. bias[j]: key j's bias in fp32; null without a bias.
template <class Element>
void add_keys(Block& block, int r, int first, int end, int head_dim, float scale, const Element* bias) {
  float scores[kKeys] = {};
  for (int d = 0; d < head_dim; ++d) {
    add_scaled(scores, block.q[r * head_dim + d], &block.keys[d * kKeys], kKeys);
  }
  // Without a bias, scores stay unscaled and the maximum is subtracted before scaling: scaling first would round large scores
  // by more than they differ.
  if (bias != nullptr) {
    for (int j = first; j < end; ++j) scores[j] = scores[j] * scale + static_cast<float>(bias[j]);
    scale = 1.0f;
  }
  float top = block.row_max[r];
  for (int j = first; j < end; ++j) top = std::max(top, scores[j]);
  // If a bias of -inf has hidden all keys so far, subtracting 0 gives weights 0 instead of exp(-inf + inf).
  const float base = top == kNothing ? 0.0f : top;
  const float factor = std::exp((block.row_max[r] - base) * scale);  // 0 for the first keys: exp(-inf)
  float* out = &block.out[r * head_dim];
  for (int d = 0; d < head_dim; ++d) out[d] *= factor;
  float sum = block.row_sum[r] * factor;
  for (int j = first; j < end; ++j) {
    const float weight = std::exp((scores[j] - base) * scale);
    sum += weight;
    add_scaled(out, weight, &block.values[j * head_dim], head_dim);
  }
  block.row_max[r] = top;
  block.row_sum[r] = sum;
}

// Rows of the bias and of the log-sum-exp; null if there is none.
template <class Element>
struct Rows {
  const Element* bias;
  int64_t bias_stride;
  double* lse;
};

// Computes queries first_query .. first_query + rows - 1 of one head; `extra` points to the bias and lse of the first one.
template <class Element>
void attend(const FlashAttentionParams& p, Block& block, int64_t batch, int64_t head, int first_query, int rows,
            const Rows<Element>& extra) {
  const auto at = [&](const void* tensor, const FlashAttentionStrides& strides, int64_t of_head) {
    return static_cast<const Element*>(tensor) + batch * strides.batch + of_head * strides.head;
  };
  const int64_t head_kv = head / (p.heads_q / p.heads_kv);
  const Element* q = at(p.q, p.q_strides, head) + first_query * p.q_strides.row;
  const Element* k = at(p.k, p.k_strides, head_kv);
  const Element* v = at(p.v, p.v_strides, head_kv);
  Element* out = static_cast<Element*>(p.out) + batch * p.out_strides.batch + head * p.out_strides.head +
                 first_query * p.out_strides.row;

  for (int r = 0; r < rows; ++r) {
    for (int d = 0; d < p.head_dim; ++d) block.q[r * p.head_dim + d] = q[r * p.q_strides.row + d];
  }
  std::fill(block.out.begin(), block.out.end(), 0.0f);
  std::fill_n(block.row_max, kQueries, kNothing);
  std::fill_n(block.row_sum, kQueries, 0.0f);

  // Row r sees keys first_seen_by(r) .. seen_by(r) - 1; both bounds may be negative.
  const auto seen_by = [&](int r) {
    return p.causal ? std::min(p.seq_kv, first_query + r + (p.seq_kv - p.seq_q) + 1) : p.seq_kv;
  };
  const auto first_seen_by = [&](int r) {
    return p.window > 0 ? first_query + r + (p.seq_kv - p.seq_q) + 1 - p.window : 0;
  };
  for (int first_key = std::max(first_seen_by(0), 0); first_key < seen_by(rows - 1); first_key += kKeys) {
    const int live = std::min(kKeys, p.seq_kv - first_key);
    for (int j = 0; j < live; ++j) {
      const int64_t row = first_key + j;
      for (int d = 0; d < p.head_dim; ++d) {
        block.keys[d * kKeys + j] = k[row * p.k_strides.row + d];
        block.values[j * p.head_dim + d] = v[row * p.v_strides.row + d];
      }
    }
    for (int r = 0; r < rows; ++r) {
      const int first = std::max(first_seen_by(r) - first_key, 0);
      const int end = std::min(live, seen_by(r) - first_key);
      const Element* bias = extra.bias == nullptr ? nullptr : extra.bias + r * extra.bias_stride + first_key;
      if (first < end) add_keys(block, r, first, end, p.head_dim, p.scale, bias);
    }
  }

  for (int r = 0; r < rows; ++r) {
    const float normalizer = block.row_sum[r] == 0.0f ? 0.0f : 1.0f / block.row_sum[r];
    for (int d = 0; d < p.head_dim; ++d) {
      out[r * p.out_strides.row + d] = static_cast<Element>(block.out[r * p.head_dim + d] * normalizer);
    }
    if (extra.lse != nullptr) {
      const double scale = extra.bias == nullptr ? p.scale : 1.0f;
      extra.lse[r] = block.row_max[r] * scale + std::log(block.row_sum[r]);
    }
  }
}

// rows_of(batch, head, query): bias and lse from that query on.
template <class Element, class RowsOf>
void attend_all(const FlashAttentionParams& p, const RowsOf& rows_of) {
  const int64_t query_blocks = (int64_t{p.seq_q} + kQueries - 1) / kQueries;
  const int64_t blocks = query_blocks * p.batch * p.heads_q;
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    Block block(p.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      const int first_query = static_cast<int>(i % query_blocks) * kQueries;
      const int64_t head = i / query_blocks % p.heads_q;
      const int64_t batch = i / query_blocks / p.heads_q;
      attend<Element>(p, block, batch, head, first_query, std::min(kQueries, p.seq_q - first_query),
                      rows_of(batch, head, first_query));
    }
  });
}

double* lse_at(const FlashAttentionParams& p, int64_t batch, int64_t head, int64_t query) {
  return p.lse == nullptr ? nullptr : p.lse + (batch * p.heads_q + head) * p.seq_q + query;
}

template <class Element>
void attend_whole(const FlashAttentionParams& p) {
  attend_all<Element>(p, [&](int64_t batch, int64_t head, int64_t query) {
    return Rows<Element>{nullptr, 0, lse_at(p, batch, head, query)};
  });
}

template <class Element>
void attend_whole(const FlashAttentionBiasedParams& p) {
  const FlashAttentionStrides& strides = p.bias_strides;
  attend_all<Element>(p, [&](int64_t batch, int64_t head, int64_t query) {
    const Element* bias =
        static_cast<const Element*>(p.bias) + batch * strides.batch + head * strides.head + query * strides.row;
    return Rows<Element>{bias, strides.row, lse_at(p, batch, head, query)};
  });
}

// Runs one sequence after the other, each as a batch of one.
template <class Element>
void attend_whole(const FlashAttentionPackedParams& p) {
  for (int b = 0; b < p.batch; ++b) {
    FlashAttentionParams sequence = p;
    const int64_t query_row = p.cu_seqlens_q[b], key_row = p.cu_seqlens_kv[b];
    sequence.batch = 1;
    sequence.seq_q = static_cast<int>(p.cu_seqlens_q[b + 1] - query_row);
    sequence.seq_kv = static_cast<int>(p.cu_seqlens_kv[b + 1] - key_row);
    sequence.q = static_cast<const Element*>(p.q) + query_row * p.q_strides.row;
    sequence.k = static_cast<const Element*>(p.k) + key_row * p.k_strides.row;
    sequence.v = static_cast<const Element*>(p.v) + key_row * p.v_strides.row;
    sequence.out = static_cast<Element*>(p.out) + query_row * p.out_strides.row;
    attend_all<Element>(sequence, [&](int64_t, int64_t head, int64_t query) {
      return Rows<Element>{nullptr, 0, p.lse == nullptr ? nullptr : p.lse + head * p.total_q + query_row + query};
    });
  }
}

template <class Params>
void attend_of_dtype(const Params& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return attend_whole<Half>(p);
    case Dtype::kBFloat16: return attend_whole<BFloat16>(p);
    case Dtype::kFloat32: return attend_whole<float>(p);
  }
}

}  // namespace

void flash_attention_cpu(const FlashAttentionParams& p) { attend_of_dtype(p); }
void flash_attention_cpu(const FlashAttentionPackedParams& p) { attend_of_dtype(p); }
void flash_attention_cpu(const FlashAttentionBiasedParams& p) { attend_of_dtype(p); }

}  // namespace warpwatch
