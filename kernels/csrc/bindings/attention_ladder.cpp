// torch.ops.warpwatch.naive_attention and tiled_attention: the steps before flash_attention, with its signature.
#include "attention_ladder/attention_ladder.h"

#include <optional>

#include "bindings/attention_scale.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr const char* kNaive = "naive_attention";
constexpr const char* kTiled = "tiled_attention";
constexpr int64_t kLongest = int64_t{1} << 30;  // sums of two lengths stay within an int

FlashAttentionStrides strides(const Tensor& tensor) {
  return {.batch = tensor.stride(0), .head = tensor.stride(1), .row = tensor.stride(2)};
}

void check(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, std::optional<double> scale) {
  const Checks checks{op};
  checks.rank({"q", q}, 4, "(batch, heads_q, seq_q, head_dim)");
  checks.rank({"k", k}, 4, "(batch, heads_kv, seq_kv, head_dim)");
  checks.same_shape({"k", k}, {"v", v});
  checks.dtype({"q", q}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  for (const Argument& other : {Argument{"k", k}, Argument{"v", v}}) {
    checks.same_dtype({"q", q}, other);
    checks.same_device({"q", q}, other);
  }
  for (const Argument& each : {Argument{"q", q}, Argument{"k", k}, Argument{"v", v}}) {
    checks.last_dimension_contiguous(each);
    for (int d = 0; d < 3; ++d) {
      WARPWATCH_CHECK(each.tensor.size(d) <= kLongest, op, each.name, " has shape ", shape_text(each.tensor),
                      "; batch, heads and seq go up to ", kLongest);
    }
  }
  WARPWATCH_CHECK(q.size(0) == k.size(0), op, "q and k differ in batch: ", shape_text(q), " against ", shape_text(k));
  WARPWATCH_CHECK(q.size(3) == k.size(3), op, "q and k differ in head_dim: ", shape_text(q), " against ",
                  shape_text(k));
  WARPWATCH_CHECK(q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0, op,
                  "heads_q must be a positive multiple of heads_kv, got ", q.size(1), " and ", k.size(1));
  WARPWATCH_CHECK(q.size(3) > 0 && q.size(3) % 8 == 0 && q.size(3) <= 256, op,
                  "head_dim must be a multiple of 8 up to 256, got ", q.size(3));
  check_attention_scale(op, scale);
}

FlashAttentionParams parameters(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& out, bool causal,
                                std::optional<double> scale) {
  FlashAttentionParams p{};  // what flash_attention has beyond these stays off
  p.q = q.data_ptr();
  p.k = k.data_ptr();
  p.v = v.data_ptr();
  p.out = out.data_ptr();
  p.q_strides = strides(q);
  p.k_strides = strides(k);
  p.v_strides = strides(v);
  p.out_strides = strides(out);
  p.batch = static_cast<int>(q.size(0));
  p.heads_q = static_cast<int>(q.size(1));
  p.heads_kv = static_cast<int>(k.size(1));
  p.seq_q = static_cast<int>(q.size(2));
  p.seq_kv = static_cast<int>(k.size(2));
  p.head_dim = static_cast<int>(q.size(3));
  p.scale = attention_scale(scale, q.size(3));
  p.dtype = kernel_dtype(q);
  p.causal = causal;
  return p;
}

Tensor naive_attention_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                              std::optional<double> scale) {
  check(kNaive, q, k, v, scale);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  naive_attention_cpu(parameters(q, k, v, out, causal, scale));
  return out;
}

Tensor tiled_attention_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                              std::optional<double> scale) {
  check(kTiled, q, k, v, scale);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  flash_attention_cpu(parameters(q, k, v, out, causal, scale));
  return out;
}

#if WARPWATCH_WITH_CUDA

Tensor naive_attention_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale) {
  check(kNaive, q, k, v, scale);
  const OnDeviceOf gpu(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  const Tensor scores = torch::stable::new_empty(q, {q.size(0), q.size(1), q.size(2), k.size(2)}, ScalarType::Float);
  check_launch(kNaive, naive_attention_cuda(parameters(q, k, v, out, causal, scale),
                                            static_cast<float*>(scores.data_ptr()), gpu.stream()));
  return out;
}

Tensor tiled_attention_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale) {
  check(kTiled, q, k, v, scale);
  const int64_t head_dim = q.size(3);
  WARPWATCH_CHECK(head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256, kTiled,
                  "head_dim must be 64, 96, 128 or 256 on a GPU, got ", head_dim);
  const OnDeviceOf gpu(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  check_launch(kTiled, tiled_attention_cuda(parameters(q, k, v, out, causal, scale), gpu.stream()));
  return out;
}

#else
constexpr auto& naive_attention_on_cuda = WithoutCuda<decltype(naive_attention_on_cpu)>::refuse;
constexpr auto& tiled_attention_on_cuda = WithoutCuda<decltype(tiled_attention_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("naive_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> Tensor");
  m.def("tiled_attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("naive_attention", TORCH_BOX(&warpwatch::naive_attention_on_cpu));
  m.impl("tiled_attention", TORCH_BOX(&warpwatch::tiled_attention_on_cpu));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("naive_attention", TORCH_BOX(&warpwatch::naive_attention_on_cuda));
  m.impl("tiled_attention", TORCH_BOX(&warpwatch::tiled_attention_on_cuda));
}
