// Binding of torch.ops.warpwatch.int8_kv_append: checks its tensors, fills Int8KvParams, calls the CPU or the CUDA version.
#include "int8_kv/int8_kv.h"

#include "quantized_decode/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr QuantizedKvOperands kOperands{"int8_kv_append"};
constexpr Checks kChecks{"int8_kv_append"};

void check(const Tensor& k, const Tensor& v, const Tensor& k_codes, const Tensor& v_codes, const Tensor& k_scales,
           const Tensor& v_scales, const Tensor& lengths) {
  kOperands.check_new(k, v);
  kChecks.rank({"k_codes", k_codes}, 4, "(batch, heads_kv, capacity, head_dim)");
  const int64_t batch = k.size(0);
  const int64_t heads = k.size(1);
  const int64_t capacity = k_codes.size(2);
  for (const Argument& codes : {Argument{"k_codes", k_codes}, Argument{"v_codes", v_codes}}) {
    kOperands.check_part({"k", k}, codes, ScalarType::Char, {batch, heads, capacity, k.size(3)},
                         "(batch, heads_kv, capacity, head_dim)");
    kChecks.own_places(codes);
  }
  for (const Argument& scales : {Argument{"k_scales", k_scales}, Argument{"v_scales", v_scales}}) {
    kOperands.check_part({"k", k}, scales, ScalarType::Float, {batch, heads, capacity}, "(batch, heads_kv, capacity)");
    kChecks.own_places(scales);
  }
  kChecks.apart({{"k_codes", k_codes}, {"v_codes", v_codes}, {"k_scales", k_scales}, {"v_scales", v_scales}},
                {{"k", k}, {"v", v}});
  kOperands.check_lengths({"k", k}, lengths, batch);
  WARPWATCH_CHECK(capacity <= QuantizedKvOperands::kLongest && k.size(2) <= QuantizedKvOperands::kLongest, kChecks.op,
                  "capacity and seq go up to ", QuantizedKvOperands::kLongest, ", got ", capacity, " and ", k.size(2));
}

Int8KvParams parameters(const Tensor& k, const Tensor& v, const Tensor& k_codes, const Tensor& v_codes,
                        const Tensor& k_scales, const Tensor& v_scales, const Tensor& lengths) {
  return {
      .rows = {k.data_ptr(), v.data_ptr()},
      .codes = {static_cast<int8_t*>(k_codes.data_ptr()), static_cast<int8_t*>(v_codes.data_ptr())},
      .scales = {static_cast<float*>(k_scales.data_ptr()), static_cast<float*>(v_scales.data_ptr())},
      .lengths = static_cast<const int32_t*>(lengths.data_ptr()),
      .row_strides = {{k.stride(0), k.stride(1), k.stride(2)}, {v.stride(0), v.stride(1), v.stride(2)}},
      .code_strides = {{k_codes.stride(0), k_codes.stride(1), k_codes.stride(2)},
                       {v_codes.stride(0), v_codes.stride(1), v_codes.stride(2)}},
      .scale_strides = {{k_scales.stride(0), k_scales.stride(1)}, {v_scales.stride(0), v_scales.stride(1)}},
      .batch = k.size(0),
      .heads = k.size(1),
      .seq = k.size(2),
      .capacity = static_cast<int>(k_codes.size(2)),
      .head_dim = static_cast<int>(k.size(3)),
      .dtype = kernel_dtype(k),
  };
}

void append_on_cpu(const Tensor& k, const Tensor& v, Tensor k_codes, Tensor v_codes, Tensor k_scales, Tensor v_scales,
                   const Tensor& lengths) {
  check(k, v, k_codes, v_codes, k_scales, v_scales, lengths);
  int8_kv_append_cpu(parameters(k, v, k_codes, v_codes, k_scales, v_scales, lengths));
}

#if WARPWATCH_WITH_CUDA

void append_on_cuda(const Tensor& k, const Tensor& v, Tensor k_codes, Tensor v_codes, Tensor k_scales, Tensor v_scales,
                    const Tensor& lengths) {
  check(k, v, k_codes, v_codes, k_scales, v_scales, lengths);
  if (k.numel() == 0) return;
  kOperands.check_new_on_gpu(k, v);
  const int64_t rows = k.numel() / k.size(3);
  WARPWATCH_CHECK(rows <= kInt8KvMostRows, kChecks.op, "k and v have up to ", kInt8KvMostRows,
                  " rows (batch * heads_kv * seq) on a GPU, got ", rows, "; append fewer tokens at a time");
  kOperands.check_boundaries({"k_codes", k_codes}, 4);
  kOperands.check_boundaries({"v_codes", v_codes}, 4);
  const OnDeviceOf gpu(k);
  check_launch(kChecks.op, int8_kv_append_cuda(parameters(k, v, k_codes, v_codes, k_scales, v_scales, lengths),
                                               gpu.stream()));
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(append_on_cpu, append_on_cuda,
                   "int8_kv_append(Tensor k, Tensor v, Tensor(a!) k_codes, Tensor(b!) v_codes, Tensor(c!) k_scales, "
                   "Tensor(d!) v_scales, Tensor lengths) -> ()");
