// Binding of torch.ops.warpwatch.int4_decode_attention: checks its tensors, fills DecodeAttentionParams and calls the CPU
// version or the kernel for this GPU.
#include "int4_decode_attention/int4_decode_attention.h"

#include <optional>

#include "decode_attention/operands.h"
#include "quantized_decode/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"
#include "quantized_decode/quantized_decode_tiles.h"

namespace warpwatch {
namespace {

constexpr DecodeAttentionOperands kOperands{"int4_decode_attention"};
constexpr QuantizedKvOperands kCacheOperands{"int4_decode_attention"};
constexpr Checks kChecks{"int4_decode_attention"};

void check(const Tensor& q, const Int4CacheTensors& cache, const Tensor& lengths,
           std::optional<double> scale, std::optional<int64_t> max_length) {
  kOperands.check_queries(q, scale);
  kChecks.rank({"k_codes", cache.k_codes}, 4, "(batch, heads_kv, capacity, head_dim / 2)");
  kOperands.check_heads(q, cache.k_codes.size(1));
  kCacheOperands.check_int4_cache({"q", q}, cache, q.size(0), cache.k_codes.size(1), q.size(3));
  kOperands.check_lengths(q, lengths);
  kOperands.check_max_length(max_length, true, cache.k_codes.size(2));
}

Int4Cache cache_of(const Tensor& q, const Int4CacheTensors& cache, const Tensor& lengths) {
  return {
      .k_codes = static_cast<const uint8_t*>(cache.k_codes.data_ptr()),
      .v_codes = static_cast<const uint8_t*>(cache.v_codes.data_ptr()),
      .k_scales = cache.k_scales.data_ptr(),
      .v_scales = cache.v_scales.data_ptr(),
      .k_window = cache.k_window.data_ptr(),
      .v_window = cache.v_window.data_ptr(),
      .heads_kv = static_cast<int>(cache.k_codes.size(1)),
      .capacity = static_cast<int>(cache.k_codes.size(2)),
      .head_dim = static_cast<int>(q.size(3)),
      .lengths = static_cast<const int32_t*>(lengths.data_ptr()),
  };
}

Tensor attend_on_cpu(const Tensor& q, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales,
                     const Tensor& v_scales, const Tensor& k_window, const Tensor& v_window, const Tensor& lengths,
                     std::optional<double> scale, std::optional<int64_t> max_length) {
  const Int4CacheTensors cache{k_codes, v_codes, k_scales, v_scales, k_window, v_window};
  check(q, cache, lengths, scale, max_length);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  int4_decode_attention_cpu(kOperands.parameters(q, out, lengths, k_codes.size(1), k_codes.size(2), scale),
                            cache_of(q, cache, lengths));
  return out;
}

#if WARPWATCH_WITH_CUDA

cudaError_t launch(const DecodeAttentionParams& p, const Int4Cache& cache, const OnDeviceOf& gpu) {
#if WARPWATCH_HAS_SM80
  if (gpu.compute_capability() >= 80) return int4_decode_attention_sm80(p, cache, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (gpu.compute_capability() >= 75) return int4_decode_attention_sm75(p, cache, gpu.stream());
#endif
  fail_without_kernel(kChecks.op, gpu.compute_capability());
}

Tensor attend_on_cuda(const Tensor& q, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales,
                      const Tensor& v_scales, const Tensor& k_window, const Tensor& v_window, const Tensor& lengths,
                      std::optional<double> scale, std::optional<int64_t> max_length) {
  const Int4CacheTensors cache{k_codes, v_codes, k_scales, v_scales, k_window, v_window};
  check(q, cache, lengths, scale, max_length);
  kCacheOperands.check_queries_on_gpu(q);
  kCacheOperands.check_int4_boundaries(cache);
  const OnDeviceOf gpu(q);
  const Tensor queries = with_rows_on(16, q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  if (out.numel() == 0) return out;
  DecodeAttentionParams p = kOperands.parameters(queries, out, lengths, k_codes.size(1), k_codes.size(2), scale);
  const std::optional<Tensor> parts =
      kOperands.divide(p, q, gpu, max_length, quantized_decode_block_rows(p.group * p.seq_q, p.head_dim),
                       {quantized_decode_blocks_per_sm(gpu.compute_capability())});
  check_launch(kChecks.op, launch(p, cache_of(q, cache, lengths), gpu));
  return out;
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(attend_on_cpu, attend_on_cuda,
                   "int4_decode_attention(Tensor q, Tensor k_codes, Tensor v_codes, Tensor k_scales, "
                   "Tensor v_scales, Tensor k_window, Tensor v_window, Tensor lengths, float? scale=None, "
                   "SymInt? max_length=None) -> Tensor");
