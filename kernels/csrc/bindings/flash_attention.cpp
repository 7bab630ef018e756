// torch.ops.warpwatch.flash_attention, flash_attention_with_lse, which returns the log-sum-exp of each query's scores too,
// and flash_attention_backward, which takes both results: checks the tensors, fills the params, and calls the CPU's version
// or the one for this GPU.
#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_backward.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kOp = "flash_attention";
constexpr const char* kBackward = "flash_attention_backward";
constexpr Checks kChecks{kOp};
constexpr Checks kBackwardChecks{kBackward};
constexpr int64_t kLongest = int64_t{1} << 30;  // sums of two lengths stay within an int

FlashAttentionStrides strides(const Tensor& tensor) {
  // Of a single row the stride may be anything, and kernels work out where rows behind it would be.
  return {.batch = tensor.stride(0), .head = tensor.stride(1), .row = tensor.size(2) > 1 ? tensor.stride(2) : 0};
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale,
           std::optional<int64_t> window) {
  kChecks.rank({"q", q}, 4, "(batch, heads_q, seq_q, head_dim)");
  kChecks.rank({"k", k}, 4, "(batch, heads_kv, seq_kv, head_dim)");
  kChecks.same_shape({"k", k}, {"v", v});
  kChecks.dtype({"q", q}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  for (const Argument& other : {Argument{"k", k}, Argument{"v", v}}) {
    kChecks.same_dtype({"q", q}, other);
    kChecks.same_device({"q", q}, other);
  }
  for (const Argument& each : {Argument{"q", q}, Argument{"k", k}, Argument{"v", v}}) {
    kChecks.last_dimension_contiguous(each);
    for (int d = 0; d < 3; ++d) {
      WARPWATCH_CHECK(each.tensor.size(d) <= kLongest, kOp, each.name, " has shape ", shape_text(each.tensor),
                      "; batch, heads and seq go up to ", kLongest);
    }
  }
  WARPWATCH_CHECK(q.size(0) == k.size(0), kOp, "q and k differ in batch: ", shape_text(q), " against ", shape_text(k));
  WARPWATCH_CHECK(q.size(3) == k.size(3), kOp, "q and k differ in head_dim: ", shape_text(q), " against ",
                  shape_text(k));
  WARPWATCH_CHECK(q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0, kOp,
                  "heads_q must be a positive multiple of heads_kv, got ", q.size(1), " and ", k.size(1));
  WARPWATCH_CHECK(!scale || (std::isfinite(*scale) && *scale > 0), kOp, "scale must be positive and finite, got ",
                  *scale);
  WARPWATCH_CHECK(!window || *window > 0, kOp, "window must be positive, got ", *window);
  WARPWATCH_CHECK(!window || causal, kOp, "a window counts keys back from the query's own place, so it needs ",
                  "causal=True; got window ", *window, " with causal=False");
}

FlashAttentionParams parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, Tensor* lse,
                                bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  const int64_t head_dim = q.size(3);
  return {
      .q = q.data_ptr(),
      .k = k.data_ptr(),
      .v = v.data_ptr(),
      .out = out.data_ptr(),
      .lse = lse == nullptr ? nullptr : static_cast<float*>(lse->data_ptr()),
      .q_strides = strides(q),
      .k_strides = strides(k),
      .v_strides = strides(v),
      .out_strides = strides(out),
      .batch = static_cast<int>(q.size(0)),
      .heads_q = static_cast<int>(q.size(1)),
      .heads_kv = static_cast<int>(k.size(1)),
      .seq_q = static_cast<int>(q.size(2)),
      .seq_kv = static_cast<int>(k.size(2)),
      .head_dim = static_cast<int>(head_dim),
      .scale = static_cast<float>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(head_dim))),
      .dtype = kernel_dtype(q),
      .causal = causal,
      .window = window && *window < k.size(2) ? static_cast<int>(*window) : 0,
  };
}

Tensor empty_lse(const Tensor& q) {
  return torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2)}, ScalarType::Float);
}

void check_head_dim_on_cpu(int64_t head_dim) {
  WARPWATCH_CHECK(head_dim > 0 && head_dim % 8 == 0 && head_dim <= kFlashAttentionCpuHeadDim, kOp,
                  "head_dim must be a multiple of 8 up to ", kFlashAttentionCpuHeadDim, " on the CPU, got ", head_dim);
}

void check_backward(const Tensor& d_out, const Tensor& q, const Tensor& out, const Tensor& lse) {
  for (const Argument& each : {Argument{"d_out", d_out}, Argument{"out", out}}) {
    kBackwardChecks.same_shape({"q", q}, each);
    kBackwardChecks.same_dtype({"q", q}, each);
    kBackwardChecks.same_device({"q", q}, each);
  }
  kBackwardChecks.same_device({"q", q}, {"lse", lse});
  kBackwardChecks.dtype({"lse", lse}, {ScalarType::Float});
  kBackwardChecks.shape({"lse", lse}, {q.size(0), q.size(1), q.size(2)}, "(batch, heads_q, seq_q)");
  kBackwardChecks.contiguous({"lse", lse});
}

struct Gradients {
  Tensor dq, dk, dv;
};

Gradients empty_gradients(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {torch::stable::new_empty(q, q.sizes()), torch::stable::new_empty(k, k.sizes()),
          torch::stable::new_empty(v, v.sizes())};
}

FlashAttentionBackwardParams backward_parameters(const FlashAttentionParams& forward, const Tensor& d_out,
                                                 const Gradients& to, float* delta) {
  return {
      .forward = forward,
      .d_out = d_out.data_ptr(),
      .dq = to.dq.data_ptr(),
      .dk = to.dk.data_ptr(),
      .dv = to.dv.data_ptr(),
      .d_out_strides = strides(d_out),
      .dq_strides = strides(to.dq),
      .dk_strides = strides(to.dk),
      .dv_strides = strides(to.dv),
      .delta = delta,
  };
}

// One whose last dimension is contiguous: gradients come as they come, expanded ones too.
Tensor with_rows(const Tensor& tensor) {
  if (tensor.size(3) <= 1 || tensor.stride(3) == 1) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  torch::stable::copy_(copy, tensor);
  return copy;
}

Gradients backward_on_cpu(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, Tensor out, Tensor lse,
                          bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cpu(q.size(3));
  const Gradients to = empty_gradients(q, k, v);
  const FlashAttentionParams forward = parameters(q, k, v, out, &lse, causal, scale, window);
  flash_attention_backward_cpu(backward_parameters(forward, d_out, to, nullptr));
  return to;
}

Tensor run_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, bool causal,
                  std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cpu(q.size(3));
  Tensor out = torch::stable::new_empty(q, q.sizes());
  flash_attention_cpu(parameters(q, k, v, out, lse, causal, scale, window));
  return out;
}

#if WARPWATCH_WITH_CUDA

// The kernels copy 16 bytes at a time. What does not start its rows on such boundaries is copied to where they do.
Tensor aligned(const Tensor& tensor) {
  const int64_t elements = 16 / static_cast<int64_t>(tensor.element_size());
  bool whole = reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0;
  for (int d = 0; d < 3; ++d) whole = whole && (tensor.size(d) <= 1 || tensor.stride(d) % elements == 0);
  if (whole) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  torch::stable::copy_(copy, tensor);
  return copy;
}

cudaError_t launch(const FlashAttentionParams& p, int compute_capability, cudaStream_t stream) {
  const bool fp32 = p.dtype == Dtype::kFloat32;
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90 && fp32) return flash_attention_fp32_sm90a(p, stream);
#endif
#if WARPWATCH_HAS_SM80
  if (compute_capability >= 80) return fp32 ? flash_attention_fp32_sm80(p, stream) : flash_attention_sm80(p, stream);
#endif
#if WARPWATCH_HAS_SM75
  if (compute_capability >= 75) {
    if (fp32) return flash_attention_fp32_sm75(p, stream);
    WARPWATCH_CHECK(p.dtype == Dtype::kFloat16, kOp, "bfloat16 needs a GPU of compute capability 8.0 or newer, this is ",
                    compute_capability / 10, '.', compute_capability % 10, "; use float16");
    return flash_attention_sm75(p, stream);
  }
#endif
  fail_without_kernel(kOp, compute_capability);
}

void check_head_dim_on_cuda(int64_t head_dim) {
  WARPWATCH_CHECK(head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256, kOp,
                  "head_dim must be 64, 96, 128 or 256 on a GPU, got ", head_dim);
}

cudaError_t launch_backward(const FlashAttentionBackwardParams& p, int compute_capability, cudaStream_t stream) {
  const bool fp32 = p.forward.dtype == Dtype::kFloat32;
#if WARPWATCH_HAS_SM90A
  if (compute_capability == 90 && fp32) return flash_attention_backward_fp32_sm90a(p, stream);
#endif
#if WARPWATCH_HAS_SM80
  if (compute_capability >= 80) {
    return fp32 ? flash_attention_backward_fp32_sm80(p, stream) : flash_attention_backward_sm80(p, stream);
  }
#endif
#if WARPWATCH_HAS_SM75
  if (compute_capability >= 75) {
    if (fp32) return flash_attention_backward_fp32_sm75(p, stream);
    WARPWATCH_CHECK(p.forward.dtype == Dtype::kFloat16, kBackward,
                    "bfloat16 needs a GPU of compute capability 8.0 or newer, this is ", compute_capability / 10, '.',
                    compute_capability % 10, "; use float16");
    return flash_attention_backward_sm75(p, stream);
  }
#endif
  fail_without_kernel(kBackward, compute_capability);
}

Gradients backward_on_cuda(const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, Tensor out,
                           Tensor lse, bool causal, std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cuda(q.size(3));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = aligned(q);
  const Tensor k_aligned = aligned(k);
  const Tensor v_aligned = aligned(v);
  const Tensor d_out_aligned = aligned(d_out);
  Tensor out_aligned = aligned(out);
  const Gradients to = empty_gradients(q, k, v);
  const Tensor delta = empty_lse(q);
  const FlashAttentionParams forward =
      parameters(q_aligned, k_aligned, v_aligned, out_aligned, &lse, causal, scale, window);
  const FlashAttentionBackwardParams p =
      backward_parameters(forward, d_out_aligned, to, static_cast<float*>(delta.data_ptr()));
  check_launch(kBackward, launch_backward(p, gpu.compute_capability(), gpu.stream()));
  return to;
}

Tensor run_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, Tensor* lse, bool causal,
                   std::optional<double> scale, std::optional<int64_t> window) {
  check_head_dim_on_cuda(q.size(3));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = aligned(q);
  const Tensor k_aligned = aligned(k);
  const Tensor v_aligned = aligned(v);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  const FlashAttentionParams p = parameters(q_aligned, k_aligned, v_aligned, out, lse, causal, scale, window);
  check_launch(kOp, launch(p, gpu.compute_capability(), gpu.stream()));
  return out;
}

#else
constexpr auto& run_on_cuda = WithoutCuda<decltype(run_on_cpu)>::refuse;
constexpr auto& backward_on_cuda = WithoutCuda<decltype(backward_on_cpu)>::refuse;
#endif

// Run is run_on_cpu or run_on_cuda.
template <auto& Run>
Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale,
                       std::optional<int64_t> window) {
  check(q, k, v, causal, scale, window);
  return Run(q, k, v, nullptr, causal, scale, window);
}

template <auto& Run>
std::tuple<Tensor, Tensor> flash_attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                                    std::optional<double> scale, std::optional<int64_t> window) {
  check(q, k, v, causal, scale, window);
  Tensor lse = empty_lse(q);
  Tensor out = Run(q, k, v, &lse, causal, scale, window);
  return {out, lse};
}

template <auto& Backward>
std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(const Tensor& d_out, const Tensor& q, const Tensor& k,
                                                            const Tensor& v, const Tensor& out, const Tensor& lse,
                                                            bool causal, std::optional<double> scale,
                                                            std::optional<int64_t> window) {
  check(q, k, v, causal, scale, window);
  check_backward(d_out, q, out, lse);
  const Gradients to = Backward(with_rows(d_out), q, k, v, with_rows(out), lse, causal, scale, window);
  return {to.dq, to.dk, to.dv};
}

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def(
      "flash_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int? window=None) -> Tensor");
  m.def(
      "flash_attention_with_lse(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, int? window=None) "
      "-> (Tensor, Tensor)");
  m.def(
      "flash_attention_backward(Tensor d_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, bool causal=False, "
      "float? scale=None, int? window=None) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("flash_attention", TORCH_BOX(&warpwatch::flash_attention<warpwatch::run_on_cpu>));
  m.impl("flash_attention_with_lse", TORCH_BOX(&warpwatch::flash_attention_with_lse<warpwatch::run_on_cpu>));
  m.impl("flash_attention_backward", TORCH_BOX(&warpwatch::flash_attention_backward<warpwatch::backward_on_cpu>));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("flash_attention", TORCH_BOX(&warpwatch::flash_attention<warpwatch::run_on_cuda>));
  m.impl("flash_attention_with_lse", TORCH_BOX(&warpwatch::flash_attention_with_lse<warpwatch::run_on_cuda>));
  m.impl("flash_attention_backward", TORCH_BOX(&warpwatch::flash_attention_backward<warpwatch::backward_on_cuda>));
}
