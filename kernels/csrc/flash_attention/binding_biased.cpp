// Bindings of torch.ops.warpwatch.flash_attention_biased, which flash_attention(bias=...) calls, and
// flash_attention_biased_with_lse. They check the tensors, fill the params struct and call
// the CPU version or the kernel for this GPU.
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "flash_attention/operands.h"
#include "flash_attention/flash_attention.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kOp = "flash_attention";  // the name that the user called
constexpr Checks kChecks{kOp};

struct Options {
  bool causal;
  std::optional<double> scale;
  std::optional<int64_t> window;
};

void check_bias(const Tensor& q, const Tensor& k, const Tensor& bias) {
  kChecks.same_dtype({"q", q}, {"bias", bias});
  kChecks.same_device({"q", q}, {"bias", bias});
  const std::array<int64_t, 4> scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  const int64_t rank = bias.dim();
  bool fits = rank >= 2 && rank <= 4;
  for (int64_t d = 0; fits && d < rank; ++d) {
    fits = bias.size(d) == 1 || bias.size(d) == scores[4 - rank + d];
  }
  WARPWATCH_CHECK(fits, kOp, "bias must broadcast to (batch, heads_q, seq_q, seq_kv), which is [", scores[0], ", ",
                  scores[1], ", ", scores[2], ", ", scores[3], "], got shape ", shape_text(bias));
}

// Returns the bias, or a copy if its rows are not contiguous or shorter than seq_kv.
Tensor with_rows(const Tensor& bias, int64_t seq_kv) {
  const int64_t last = bias.dim() - 1;
  if (bias.size(last) == seq_kv && (seq_kv <= 1 || bias.stride(last) == 1)) return bias;
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < last; ++d) sizes.push_back(bias.size(d));
  sizes.push_back(seq_kv);
  Tensor copy = torch::stable::new_empty(bias, sizes);
  torch::stable::copy_(copy, bias);
  return copy;
}

FlashAttentionBiasedParams parameters(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, Tensor& out,
                                      Tensor* lse, const Options& options) {
  // Stride in dimension d of the scores; 0 where the bias is broadcast.
  const auto stride = [&](int64_t d) {
    const int64_t own = bias.dim() - 4 + d;
    return own < 0 || bias.size(own) == 1 ? int64_t{0} : bias.stride(own);
  };
  const FlashAttentionStrides strides{.batch = stride(0), .head = stride(1), .row = stride(2)};
  const auto pair_bytes = static_cast<uintptr_t>(2 * bias.element_size());
  const bool in_pairs = reinterpret_cast<uintptr_t>(bias.data_ptr()) % pair_bytes == 0 && strides.batch % 2 == 0 &&
                        strides.head % 2 == 0 && strides.row % 2 == 0;
  return {attention_parameters(q, k, v, out, lse, options.causal, options.scale, options.window), bias.data_ptr(),
          strides, in_pairs};
}

Tensor run_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, Tensor* lse,
                  const Options& options) {
  check_head_dim_on_cpu(kOp, q.size(3));
  Tensor out = empty_like_queries(q);
  flash_attention_cpu(parameters(q, k, v, bias, out, lse, options));
  return out;
}

#if WARPWATCH_WITH_CUDA
Tensor run_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, Tensor* lse,
                   const Options& options) {
  check_head_dim_on_cuda(kOp, q.size(3));
  const OnDeviceOf gpu(q);
  const Tensor q_aligned = with_rows_on(16, q);
  const Tensor k_aligned = with_rows_on(16, k);
  const Tensor v_aligned = with_rows_on(16, v);
  Tensor out = empty_like_queries(q);
  const FlashAttentionBiasedParams p = parameters(q_aligned, k_aligned, v_aligned, bias, out, lse, options);
  check_launch(kOp, launch_attention(kOp, p, gpu.compute_capability(), gpu.stream()));
  return out;
}
#endif

// Run: run_on_cpu or run_on_cuda.
template <auto& Run>
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, Tensor* lse, const Options& options) {
  check_attention(kOp, q, k, v, options.causal, options.scale, options.window);
  check_bias(q, k, bias);
  if (lse != nullptr) *lse = torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2)}, ScalarType::Double);
  return Run(q, k, v, with_rows(bias, k.size(2)), lse, options);
}

template <auto& Run>
Tensor flash_attention_biased(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, bool causal,
                              std::optional<double> scale, std::optional<int64_t> window) {
  return attend<Run>(q, k, v, bias, nullptr, {causal, scale, window});
}

template <auto& Run>
std::tuple<Tensor, Tensor> flash_attention_biased_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                                           const Tensor& bias, bool causal, std::optional<double> scale,
                                                           std::optional<int64_t> window) {
  Tensor lse;
  Tensor out = attend<Run>(q, k, v, bias, &lse, {causal, scale, window});
  return {out, lse};
}

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(flash_attention_biased<warpwatch::run_on_cpu>, flash_attention_biased<warpwatch::run_on_cuda>,
                   "flash_attention_biased(Tensor q, Tensor k, Tensor v, Tensor bias, bool causal=False, "
                   "float? scale=None, int? window=None) -> Tensor");
WARPWATCH_OPERATOR(flash_attention_biased_with_lse<warpwatch::run_on_cpu>,
                   flash_attention_biased_with_lse<warpwatch::run_on_cuda>,
                   "flash_attention_biased_with_lse(Tensor q, Tensor k, Tensor v, Tensor bias, bool causal=False, "
                   "float? scale=None, int? window=None) -> (Tensor, Tensor)");
