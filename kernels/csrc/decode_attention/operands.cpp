#include "decode_attention/operands.h"

#include <cstdint>

#include "framework/attention_scale.h"

namespace warpwatch {

void DecodeAttentionOperands::check_queries(const Tensor& q, std::optional<double> scale) const {
  const Checks checks{op};
  checks.rank({"q", q}, 4, "(batch, heads_q, seq_q, head_dim)");
  checks.dtype({"q", q}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"q", q});
  WARPWATCH_CHECK(q.size(2) >= 1 && q.size(2) <= kDecodeAttentionMostTokens, op, "q must have 1 to ",
                  kDecodeAttentionMostTokens, " new tokens (seq_q), got shape ", shape_text(q),
                  "; flash_attention takes more");
  WARPWATCH_CHECK(q.size(0) <= kLongest && q.size(1) <= kLongest, op, "q has shape ", shape_text(q),
                  "; batch and heads go up to ", kLongest);
  check_attention_scale(op, scale);
}

void DecodeAttentionOperands::check_cache(const Tensor& q, const Argument& cache, int64_t heads_kv) const {
  const Checks checks{op};
  checks.same_dtype({"q", q}, cache);
  checks.same_device({"q", q}, cache);
  checks.last_dimension_contiguous(cache);
  WARPWATCH_CHECK(q.size(3) == cache.tensor.size(3), op, "q and ", cache.name, " differ in head_dim: ", shape_text(q),
                  " against ", shape_text(cache.tensor));
  check_heads(q, heads_kv);
}

void DecodeAttentionOperands::check_heads(const Tensor& q, int64_t heads_kv) const {
  WARPWATCH_CHECK(q.size(1) > 0 && heads_kv > 0 && q.size(1) % heads_kv == 0, op,
                  "heads_q must be a positive multiple of heads_kv, got ", q.size(1), " and ", heads_kv);
}

void DecodeAttentionOperands::check_lengths(const Tensor& q, const Tensor& lengths) const {
  const Checks checks{op};
  checks.rank({"lengths", lengths}, 1, "(batch)");
  checks.dtype({"lengths", lengths}, {ScalarType::Int});
  checks.shape({"lengths", lengths}, {q.size(0)}, "(batch)");
  checks.same_device({"q", q}, {"lengths", lengths});
  checks.contiguous({"lengths", lengths});
}

void DecodeAttentionOperands::check_max_length(std::optional<int64_t> max_length, bool has_lengths,
                                               int64_t capacity) const {
  if (!max_length) return;
  WARPWATCH_CHECK(has_lengths, op, "max_length bounds lengths, and there are none; leave it out, or pass lengths too");
  WARPWATCH_CHECK(*max_length >= 0 && *max_length <= capacity, op, "max_length must be from 0 to ", capacity,
                  ", the keys that a sequence has room for, got ", *max_length);
}

void DecodeAttentionOperands::check_cpu_head_dim(const Tensor& q) const {
  const int64_t head_dim = q.size(3);
  WARPWATCH_CHECK(head_dim > 0 && head_dim % 8 == 0 && head_dim <= kDecodeAttentionCpuHeadDim, op,
                  "head_dim must be a multiple of 8 up to ", kDecodeAttentionCpuHeadDim, " on the CPU, got ", head_dim);
}

DecodeAttentionParams DecodeAttentionOperands::parameters(const Tensor& q, Tensor& out,
                                                          const std::optional<Tensor>& lengths, int64_t heads_kv,
                                                          int64_t capacity, std::optional<double> scale) const {
  return {
      .q = q.data_ptr(),
      .out = out.data_ptr(),
      .lengths = lengths ? static_cast<const int32_t*>(lengths->data_ptr()) : nullptr,
      .partial_out = nullptr,
      .partial_max = nullptr,
      .partial_sum = nullptr,
      .q_batch_stride = q.stride(0),
      .q_head_stride = q.stride(1),
      .q_row_stride = q.stride(2),
      .batch = static_cast<int>(q.size(0)),
      .heads_q = static_cast<int>(q.size(1)),
      .heads_kv = static_cast<int>(heads_kv),
      .seq_q = static_cast<int>(q.size(2)),
      .capacity = static_cast<int>(capacity),
      .head_dim = static_cast<int>(q.size(3)),
      .group = static_cast<int>(q.size(1) / heads_kv),
      .splits = 1,
      .scale = attention_scale(scale, q.size(3)),
      .dtype = kernel_dtype(q),
  };
}

ContiguousCache contiguous_cache(const Tensor& k, const Tensor& v) {
  return {
      .k = k.data_ptr(),
      .v = v.data_ptr(),
      .k_batch_stride = k.stride(0),
      .k_head_stride = k.stride(1),
      .k_row_stride = k.stride(2),
      .v_batch_stride = v.stride(0),
      .v_head_stride = v.stride(1),
      .v_row_stride = v.stride(2),
  };
}

#if WARPWATCH_WITH_CUDA

cudaError_t dispatch_decode_attention(const char* op, const DecodeAttentionParams& p, const ContiguousCache& cache,
                                      const OnDeviceOf& gpu) {
  if (p.dtype == Dtype::kFloat32) return decode_attention_fp32(p, cache, gpu.stream());
#if WARPWATCH_HAS_SM80
  if (gpu.compute_capability() >= 80) return decode_attention_sm80(p, cache, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (gpu.compute_capability() >= 75 && p.dtype == Dtype::kFloat16) {
    return decode_attention_sm75(p, cache, gpu.stream());
  }
#endif
  fail_without_kernel(op, gpu.compute_capability());
}

void DecodeAttentionOperands::check_gpu_head_dim(const Tensor& q) const {
  const int64_t head_dim = q.size(3);
  WARPWATCH_CHECK(head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256, op,
                  "head_dim must be 64, 96, 128 or 256 on a GPU, got ", head_dim);
}

void DecodeAttentionOperands::check_gpu_dtype(const Tensor& q, int compute_capability) const {
  WARPWATCH_CHECK(q.scalar_type() != ScalarType::BFloat16 || compute_capability >= 80, op,
                  "bfloat16 needs a GPU of compute capability 8.0 or newer, this is ", compute_capability / 10, '.',
                  compute_capability % 10, "; use float16");
}

void DecodeAttentionOperands::check_aligned(const Argument& cache) const {
  WARPWATCH_CHECK(rows_start_on(16, cache.tensor), op, "each row of ", cache.name,
                  " must start on a 16-byte boundary, for it is read 16 bytes at a time; got strides ",
                  stride_text(cache.tensor), " and a start ",
                  bytes_past(16, cache.tensor), " bytes past one");
}

std::optional<Tensor> DecodeAttentionOperands::divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                                                      std::optional<int64_t> max_length) const {
  const int rows = p.group * p.seq_q;  // packed queries per key head
  return divide(p, q, gpu, max_length, decode_attention_block_rows(p.dtype, rows, p.head_dim),
                decode_attention_division(p.dtype, gpu.compute_capability()));
}

std::optional<Tensor> DecodeAttentionOperands::divide(DecodeAttentionParams& p, const Tensor& q, const OnDeviceOf& gpu,
                                                      std::optional<int64_t> max_length, int block_rows,
                                                      DecodeAttentionDivision division) const {
  const int rows = p.group * p.seq_q;
  const int64_t blocks = int64_t{p.batch} * p.heads_kv * ((rows + block_rows - 1) / block_rows);
  const int slots = gpu.multiprocessors() * division.blocks_per_sm;
  p.splits = decode_attention_splits(blocks, static_cast<int>(max_length.value_or(p.capacity)), slots,
                                     division.start_in_keys);
  if (p.splits == 1) return std::nullopt;
  const int64_t part_rows = int64_t{p.splits} * p.batch * p.heads_q * p.seq_q;
  Tensor workspace = torch::stable::new_empty(q, {part_rows * (p.head_dim + 2)}, ScalarType::Float);
  p.partial_out = static_cast<float*>(workspace.data_ptr());
  p.partial_max = p.partial_out + part_rows * p.head_dim;
  p.partial_sum = p.partial_max + part_rows;
  return workspace;
}

#endif

}  // namespace warpwatch
