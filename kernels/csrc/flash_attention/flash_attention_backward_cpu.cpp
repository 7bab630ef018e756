// flash_attention_backward on the CPU: key heads are distributed over PyTorch's threads. All arithmetic is in fp32.
#include <algorithm>
#include <cmath>
#include <vector>

#include "flash_attention/flash_attention_backward.h"
#include "framework/parallel.h"

namespace warpwatch {
namespace {

constexpr int kLanes = 8;  // partial sums of a dot product: a fixed order that the compiler can vectorize

float dot(const float* a, const float* b, int count) {
  float lanes[kLanes] = {};
  for (int d = 0; d < count; d += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[d + i] * b[d + i];
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// sum[i] += factor * row[i]
void add_scaled(float* __restrict__ sum, float factor, const float* __restrict__ row, int count) {
  for (int i = 0; i < count; ++i) sum[i] += factor * row[i];
}

template <class Element>
const Element* rows_of(const void* tensor, const FlashAttentionStrides& strides, int64_t batch, int64_t head) {
  return static_cast<const Element*>(tensor) + batch * strides.batch + head * strides.head;
}

template <class Element>
void read_row(float* to, const Element* from, int count) {
  for (int d = 0; d < count; ++d) to[d] = from[d];
}

template <class Element>
void write_row(Element* to, const float* from, float factor, int count) {
  for (int d = 0; d < count; ++d) to[d] = static_cast<Element>(factor * from[d]);
}

// dk and dv of one key head, and dq of the query heads that share it.
template <class Element>
void differentiate(const FlashAttentionBackwardParams& p, int64_t batch, int64_t head_kv) {
  const FlashAttentionParams& f = p.forward;
  const int dim = f.head_dim;
  const int group = f.heads_q / f.heads_kv;
  const int diagonal = f.seq_kv - f.seq_q;
  const auto matrix = [&](int64_t rows) { return std::vector<float>(rows * dim); };
  std::vector<float> keys = matrix(f.seq_kv), values = matrix(f.seq_kv), dk = matrix(f.seq_kv), dv = matrix(f.seq_kv);
  for (int64_t j = 0; j < f.seq_kv; ++j) {
    read_row(&keys[j * dim], rows_of<Element>(f.k, f.k_strides, batch, head_kv) + j * f.k_strides.row, dim);
    read_row(&values[j * dim], rows_of<Element>(f.v, f.v_strides, batch, head_kv) + j * f.v_strides.row, dim);
  }
  std::vector<float> query = matrix(1), out = matrix(1), d_out = matrix(1), dq = matrix(1);
  for (int64_t head = head_kv * group; head < (head_kv + 1) * group; ++head) {
    for (int64_t i = 0; i < f.seq_q; ++i) {
      read_row(query.data(), rows_of<Element>(f.q, f.q_strides, batch, head) + i * f.q_strides.row, dim);
      read_row(out.data(), rows_of<Element>(f.out, f.out_strides, batch, head) + i * f.out_strides.row, dim);
      read_row(d_out.data(), rows_of<Element>(p.d_out, p.d_out_strides, batch, head) + i * p.d_out_strides.row, dim);
      std::fill(dq.begin(), dq.end(), 0.0f);
      const double lse = f.lse[(batch * f.heads_q + head) * f.seq_q + i];
      const float delta = dot(d_out.data(), out.data(), dim);
      const int64_t end = f.causal ? std::min<int64_t>(f.seq_kv, i + diagonal + 1) : f.seq_kv;
      const int64_t begin = f.window > 0 ? std::max<int64_t>(i + diagonal + 1 - f.window, 0) : 0;
      for (int64_t j = begin; j < end; ++j) {
        // Subtract in fp64: scaling a large score in fp32 rounds by more than the difference between scores.
        const double score = dot(query.data(), &keys[j * dim], dim);
        const float weight = std::exp(static_cast<float>(f.scale * score - lse));
        const float d_score = weight * (dot(d_out.data(), &values[j * dim], dim) - delta);
        add_scaled(dq.data(), d_score, &keys[j * dim], dim);
        add_scaled(&dk[j * dim], d_score, query.data(), dim);
        add_scaled(&dv[j * dim], weight, d_out.data(), dim);
      }
      write_row(const_cast<Element*>(rows_of<Element>(p.dq, p.dq_strides, batch, head)) + i * p.dq_strides.row,
                dq.data(), f.scale, dim);
    }
  }
  for (int64_t j = 0; j < f.seq_kv; ++j) {
    write_row(const_cast<Element*>(rows_of<Element>(p.dk, p.dk_strides, batch, head_kv)) + j * p.dk_strides.row,
              &dk[j * dim], f.scale, dim);
    write_row(const_cast<Element*>(rows_of<Element>(p.dv, p.dv_strides, batch, head_kv)) + j * p.dv_strides.row,
              &dv[j * dim], 1.0f, dim);
  }
}

template <class Element>
void differentiate_all(const FlashAttentionBackwardParams& p) {
  const int64_t heads_kv = p.forward.heads_kv;
  parallel_for(0, p.forward.batch * heads_kv, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) differentiate<Element>(p, i / heads_kv, i % heads_kv);
  });
}

}  // namespace

void flash_attention_backward_cpu(const FlashAttentionBackwardParams& p) {
  switch (p.forward.dtype) {
    case Dtype::kFloat16: return differentiate_all<Half>(p);
    case Dtype::kBFloat16: return differentiate_all<BFloat16>(p);
    case Dtype::kFloat32: return differentiate_all<float>(p);
  }
}

}  // namespace warpwatch
