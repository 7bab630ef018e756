// Bindings of torch.ops.warpwatch.naive_attention and tiled_attention, the steps before flash_attention, with its signature.
#include "attention_ladder/attention_ladder.h"

#include <optional>

#include "flash_attention/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kNaive = "naive_attention";
constexpr const char* kTiled = "tiled_attention";

void check(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale) {
  check_attention(op, q, k, v, causal, scale, std::nullopt);
  WARPWATCH_CHECK(q.size(3) > 0 && q.size(3) % 8 == 0 && q.size(3) <= 256, op,
                  "head_dim must be a multiple of 8 up to 256, got ", q.size(3));
}

FlashAttentionParams parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, bool causal,
                                std::optional<double> scale) {
  return attention_parameters(q, k, v, out, nullptr, causal, scale, std::nullopt);
}

Tensor naive_attention_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                              std::optional<double> scale) {
  check(kNaive, q, k, v, causal, scale);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  naive_attention_cpu(parameters(q, k, v, out, causal, scale));
  return out;
}

Tensor tiled_attention_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                              std::optional<double> scale) {
  check(kTiled, q, k, v, causal, scale);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  flash_attention_cpu(parameters(q, k, v, out, causal, scale));
  return out;
}

#if WARPWATCH_WITH_CUDA

Tensor naive_attention_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale) {
  check(kNaive, q, k, v, causal, scale);
  const OnDeviceOf gpu(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  const Tensor scores = torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2), k.size(2)}, ScalarType::Float);
  check_launch(kNaive, naive_attention_cuda(parameters(q, k, v, out, causal, scale),
                                            static_cast<float*>(scores.data_ptr()), gpu.stream()));
  return out;
}

Tensor tiled_attention_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale) {
  check(kTiled, q, k, v, causal, scale);
  check_head_dim_on_cuda(kTiled, q.size(3));
  const OnDeviceOf gpu(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  check_launch(kTiled, tiled_attention_cuda(parameters(q, k, v, out, causal, scale), gpu.stream()));
  return out;
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(naive_attention_on_cpu, naive_attention_on_cuda,
                   "naive_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> Tensor");
WARPWATCH_OPERATOR(tiled_attention_on_cpu, tiled_attention_on_cuda,
                   "tiled_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> Tensor");
