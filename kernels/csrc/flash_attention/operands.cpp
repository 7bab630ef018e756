#include "flash_attention/operands.h"

#include <cstdint>

#include "framework/attention_scale.h"
#if WARPWATCH_WITH_CUDA
#include "primitives/attributes.h"
#endif

namespace warpwatch {

void check_attention_options(const char* op, bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  check_attention_scale(op, scale);
  WARPWATCH_CHECK(!window || *window > 0, op, "window must be positive, got ", *window);
  WARPWATCH_CHECK(!window || causal, op, "a window counts keys back from the query's own place, so it needs ",
                  "causal=True; got window ", *window, " with causal=False");
}

void check_attention_tensors(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  const Checks checks{op};
  checks.same_shape({"k", k}, {"v", v});
  checks.dtype({"q", q}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  for (const Argument& other : {Argument{"k", k}, Argument{"v", v}}) {
    checks.same_dtype({"q", q}, other);
    checks.same_device({"q", q}, other);
  }
  for (const Argument& each : {Argument{"q", q}, Argument{"k", k}, Argument{"v", v}}) {
    checks.last_dimension_contiguous(each);
    for (int d = 0; d + 1 < each.tensor.dim(); ++d) {
      WARPWATCH_CHECK(each.tensor.size(d) <= kLongestAttention, op, each.name, " has shape ", shape_text(each.tensor),
                      "; batch, heads and seq go up to ", kLongestAttention);
    }
  }
}

void check_attention(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                     std::optional<double> scale, std::optional<int64_t> window) {
  const Checks checks{op};
  checks.rank({"q", q}, 4, "(batch, heads_q, seq_q, head_dim)");
  checks.rank({"k", k}, 4, "(batch, heads_kv, seq_kv, head_dim)");
  check_attention_tensors(op, q, k, v);
  WARPWATCH_CHECK(q.size(0) == k.size(0), op, "q and k differ in batch: ", shape_text(q), " against ", shape_text(k));
  WARPWATCH_CHECK(q.size(3) == k.size(3), op, "q and k differ in head_dim: ", shape_text(q), " against ",
                  shape_text(k));
  WARPWATCH_CHECK(q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0, op,
                  "heads_q must be a positive multiple of heads_kv, got ", q.size(1), " and ", k.size(1));
  check_attention_options(op, causal, scale, window);
}

void check_head_dim_on_cpu(const char* op, int64_t head_dim) {
  WARPWATCH_CHECK(head_dim > 0 && head_dim % 8 == 0 && head_dim <= kFlashAttentionCpuHeadDim, op,
                  "head_dim must be a multiple of 8 up to ", kFlashAttentionCpuHeadDim, " on the CPU, got ", head_dim);
}

Tensor empty_like_queries(const Tensor& q) {
  const Tensor tokens = torch::stable::transpose(q, 1, 2);
  if (q.is_contiguous() || !tokens.is_contiguous()) return torch::stable::new_empty(q, q.sizes());
  return torch::stable::transpose(torch::stable::new_empty(q, tokens.sizes()), 1, 2);
}

FlashAttentionStrides attention_strides(const Tensor& tensor) {
  // A single row may have any stride; the kernels compute addresses of rows past it, so it becomes 0.
  return {.batch = tensor.stride(0), .head = tensor.stride(1), .row = tensor.size(2) > 1 ? tensor.stride(2) : 0};
}

FlashAttentionParams attention_parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, Tensor* lse,
                                          bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  const int64_t head_dim = q.size(3);
  return {
      .q = q.data_ptr(),
      .k = k.data_ptr(),
      .v = v.data_ptr(),
      .out = out.data_ptr(),
      .lse = lse == nullptr ? nullptr : static_cast<double*>(lse->data_ptr()),
      .q_strides = attention_strides(q),
      .k_strides = attention_strides(k),
      .v_strides = attention_strides(v),
      .out_strides = attention_strides(out),
      .batch = static_cast<int>(q.size(0)),
      .heads_q = static_cast<int>(q.size(1)),
      .heads_kv = static_cast<int>(k.size(1)),
      .seq_q = static_cast<int>(q.size(2)),
      .seq_kv = static_cast<int>(k.size(2)),
      .head_dim = static_cast<int>(head_dim),
      .scale = attention_scale(scale, head_dim),
      .dtype = kernel_dtype(q),
      .causal = causal,
      .window = window && *window < k.size(2) ? static_cast<int>(*window) : 0,
  };
}

#if WARPWATCH_WITH_CUDA

void check_head_dim_on_cuda(const char* op, int64_t head_dim) {
  WARPWATCH_CHECK(head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256, op,
                  "head_dim must be 64, 96, 128 or 256 on a GPU, got ", head_dim);
}

cudaError_t takes_tf32(int compute_capability, bool& takes) {
  takes = compute_capability == 80 || compute_capability == 90;
  if (!takes) return cudaSuccess;
  int shared_bytes = 0;
  const cudaError_t status = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, shared_bytes);
  takes = shared_bytes >= kTf32SharedBytes;
  return status;
}

#endif

}  // namespace warpwatch
