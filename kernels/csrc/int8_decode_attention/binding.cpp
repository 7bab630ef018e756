// Binding of torch.ops.warpwatch.int8_decode_attention: checks its tensors, fills DecodeAttentionParams and calls the CPU
// version or the kernel for this GPU.
#include "int8_decode_attention/int8_decode_attention.h"

#include <optional>

#include "decode_attention/decode_attention_cpu.h"
#include "decode_attention/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"
#include "quantized_decode/operands.h"
#include "quantized_decode/quantized_decode_tiles.h"

namespace warpwatch {

void int8_decode_attention_cpu(const DecodeAttentionParams& p, const Int8Cache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

namespace {

constexpr DecodeAttentionOperands kOperands{"int8_decode_attention"};
constexpr QuantizedKvOperands kCacheOperands{"int8_decode_attention"};
constexpr Checks kChecks{"int8_decode_attention"};

void check(const Tensor& q, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales, const Tensor& v_scales,
           const Tensor& lengths, std::optional<double> scale, std::optional<int64_t> max_length) {
  kOperands.check_queries(q, scale);
  kChecks.rank({"k_codes", k_codes}, 4, "(batch, heads_kv, capacity, head_dim)");
  const int64_t batch = q.size(0);
  const int64_t heads = k_codes.size(1);
  const int64_t capacity = k_codes.size(2);
  kOperands.check_heads(q, heads);
  for (const Argument& codes : {Argument{"k_codes", k_codes}, Argument{"v_codes", v_codes}}) {
    kCacheOperands.check_part({"q", q}, codes, ScalarType::Char, {batch, heads, capacity, q.size(3)},
                              "(batch, heads_kv, capacity, head_dim)");
  }
  for (const Argument& scales : {Argument{"k_scales", k_scales}, Argument{"v_scales", v_scales}}) {
    kCacheOperands.check_part({"q", q}, scales, ScalarType::Float, {batch, heads, capacity},
                              "(batch, heads_kv, capacity)");
  }
  WARPWATCH_CHECK(capacity <= DecodeAttentionOperands::kLongest, kChecks.op, "k_codes has shape ", shape_text(k_codes),
                  "; capacity goes up to ", DecodeAttentionOperands::kLongest);
  kOperands.check_lengths(q, lengths);
  kOperands.check_max_length(max_length, true, capacity);
}

Int8Cache cache_of(const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales, const Tensor& v_scales) {
  return {
      .k = static_cast<const int8_t*>(k_codes.data_ptr()),
      .v = static_cast<const int8_t*>(v_codes.data_ptr()),
      .k_scales = static_cast<const float*>(k_scales.data_ptr()),
      .v_scales = static_cast<const float*>(v_scales.data_ptr()),
      .k_batch_stride = k_codes.stride(0),
      .k_head_stride = k_codes.stride(1),
      .k_row_stride = k_codes.stride(2),
      .v_batch_stride = v_codes.stride(0),
      .v_head_stride = v_codes.stride(1),
      .v_row_stride = v_codes.stride(2),
      .k_scale_batch_stride = k_scales.stride(0),
      .k_scale_head_stride = k_scales.stride(1),
      .v_scale_batch_stride = v_scales.stride(0),
      .v_scale_head_stride = v_scales.stride(1),
  };
}

Tensor attend_on_cpu(const Tensor& q, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales,
                     const Tensor& v_scales, const Tensor& lengths,
                     std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k_codes, v_codes, k_scales, v_scales, lengths, scale, max_length);
  kOperands.check_cpu_head_dim(q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  int8_decode_attention_cpu(kOperands.parameters(q, out, lengths, k_codes.size(1), k_codes.size(2), scale),
                            cache_of(k_codes, v_codes, k_scales, v_scales));
  return out;
}

#if WARPWATCH_WITH_CUDA

cudaError_t launch(const DecodeAttentionParams& p, const Int8Cache& cache, const OnDeviceOf& gpu) {
#if WARPWATCH_HAS_SM80
  if (gpu.compute_capability() >= 80) return int8_decode_attention_sm80(p, cache, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (gpu.compute_capability() >= 75) return int8_decode_attention_sm75(p, cache, gpu.stream());
#endif
  fail_without_kernel(kChecks.op, gpu.compute_capability());
}

Tensor attend_on_cuda(const Tensor& q, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales,
                      const Tensor& v_scales, const Tensor& lengths,
                      std::optional<double> scale, std::optional<int64_t> max_length) {
  check(q, k_codes, v_codes, k_scales, v_scales, lengths, scale, max_length);
  kCacheOperands.check_queries_on_gpu(q);
  kCacheOperands.check_boundaries({"k_codes", k_codes}, 16);
  kCacheOperands.check_boundaries({"v_codes", v_codes}, 16);
  const OnDeviceOf gpu(q);
  const Tensor queries = with_rows_on(16, q);
  Tensor out = torch::stable::new_empty(q, q.sizes());
  if (out.numel() == 0) return out;
  DecodeAttentionParams p = kOperands.parameters(queries, out, lengths, k_codes.size(1), k_codes.size(2), scale);
  const std::optional<Tensor> parts =
      kOperands.divide(p, q, gpu, max_length, quantized_decode_block_rows(p.group * p.seq_q, p.head_dim),
                       {quantized_decode_blocks_per_sm(gpu.compute_capability())});
  check_launch(kChecks.op, launch(p, cache_of(k_codes, v_codes, k_scales, v_scales), gpu));
  return out;
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(attend_on_cpu, attend_on_cuda,
                   "int8_decode_attention(Tensor q, Tensor k_codes, Tensor v_codes, Tensor k_scales, "
                   "Tensor v_scales, Tensor lengths, float? scale=None, SymInt? max_length=None) -> Tensor");
