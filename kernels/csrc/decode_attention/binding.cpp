// Binding of torch.ops.warpwatch.decode_attention: checks its tensors, fills DecodeAttentionParams and calls the CPU version or
// the kernel for this GPU.
#include "decode_attention/decode_attention.h"

#include <optional>

#include "decode_attention/decode_attention_cpu.h"
#include "decode_attention/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {

void decode_attention_cpu(const DecodeAttentionParams& p, const ContiguousCache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

namespace {

constexpr DecodeAttentionOperands kOperands{"decode_attention"};
constexpr Checks kChecks{"decode_attention"};

void check(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& lengths,
           std::optional<double> scale, std::optional<int64_t> max_length) {
  kOperands.check_queries(q, scale);
  kChecks.rank({"k", k}, 4, "(batch, heads_kv, capacity, head_dim)");
  kChecks.same_shape({"k", k}, {"v", v});
  WARPWATCH_CHECK(q.size(0) == k.size(0), kChecks.op, "q and k differ in batch: ", shape_text(q), " against ",
                  shape_text(k));
  for (const Argument& cache : {Argument{"k", k}, Argument{"v", v}}) kOperands.check_cache(q, cache, k.size(1));
  WARPWATCH_CHECK(k.size(2) <= DecodeAttentionOperands::kLongest, kChecks.op, "k has shape ", shape_text(k),
                  "; capacity goes up to ", DecodeAttentionOperands::kLongest);
  if (lengths) kOperands.check_lengths(q, *lengths);
  kOperands.check_max_length(max_length, lengths.has_value(), k.size(2));
}

Tensor decode_attention_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, std::optional<Tensor> lengths,
                               std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k, v, lengths, scale, max_length);
  kOperands.check_cpu_head_dim(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  decode_attention_cpu(kOperands.parameters(q, out, lengths, k.size(1), k.size(2), scale), contiguous_cache(k, v));
  return out;
}

#if WARPWATCH_WITH_CUDA

Tensor decode_attention_on_cuda(const Tensor& q, const Tensor& k, const Tensor& v, std::optional<Tensor> lengths,
                                std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k, v, lengths, scale, max_length);
  kOperands.check_gpu_head_dim(q);
  for (const Argument& cache : {Argument{"k", k}, Argument{"v", v}}) kOperands.check_aligned(cache);
  const OnDeviceOf gpu(q);
  kOperands.check_gpu_dtype(q, gpu.compute_capability());
  const Tensor queries = with_rows_on(16, q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  if (out.numel() == 0) return out;
  DecodeAttentionParams p = kOperands.parameters(queries, out, lengths, k.size(1), k.size(2), scale);
  const std::optional<Tensor> parts = kOperands.divide(p, q, gpu, max_length);
  check_launch(kChecks.op, dispatch_decode_attention(kChecks.op, p, contiguous_cache(k, v), gpu));
  return out;
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(decode_attention_on_cpu, decode_attention_on_cuda,
                   "decode_attention(Tensor q, Tensor k, Tensor v, Tensor? lengths=None, float? scale=None, "
                   "SymInt? max_length=None) -> Tensor");
