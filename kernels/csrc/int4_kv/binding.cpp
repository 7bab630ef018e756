// Binding of torch.ops.warpwatch.int4_kv_append: checks its tensors, fills Int4KvParams, calls the CPU or the CUDA version.
#include "int4_kv/int4_kv.h"

#include "quantized_decode/operands.h"
#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr QuantizedKvOperands kOperands{"int4_kv_append"};
constexpr Checks kChecks{"int4_kv_append"};

void check(const Tensor& k, const Tensor& v, const Int4CacheTensors& cache, const Tensor& lengths) {
  kOperands.check_new(k, v);
  kChecks.rank({"k_codes", cache.k_codes}, 4, "(batch, heads_kv, capacity, head_dim / 2)");
  kOperands.check_int4_cache({"k", k}, cache, k.size(0), k.size(1), k.size(3));
  kChecks.apart({{"k_codes", cache.k_codes},
                 {"v_codes", cache.v_codes},
                 {"k_scales", cache.k_scales},
                 {"v_scales", cache.v_scales},
                 {"k_window", cache.k_window},
                 {"v_window", cache.v_window}},
                {{"k", k}, {"v", v}});
  kOperands.check_lengths({"k", k}, lengths, k.size(0));
  WARPWATCH_CHECK(k.size(2) <= QuantizedKvOperands::kLongest, kChecks.op, "seq goes up to ",
                  QuantizedKvOperands::kLongest, ", got ", k.size(2));
}

Int4KvParams parameters(const Tensor& k, const Tensor& v, const Int4CacheTensors& cache, const Tensor& lengths) {
  return {
      .rows = {k.data_ptr(), v.data_ptr()},
      .codes = {static_cast<uint8_t*>(cache.k_codes.data_ptr()), static_cast<uint8_t*>(cache.v_codes.data_ptr())},
      .scales = {cache.k_scales.data_ptr(), cache.v_scales.data_ptr()},
      .windows = {cache.k_window.data_ptr(), cache.v_window.data_ptr()},
      .lengths = static_cast<const int32_t*>(lengths.data_ptr()),
      .row_strides = {{k.stride(0), k.stride(1), k.stride(2)}, {v.stride(0), v.stride(1), v.stride(2)}},
      .batch = k.size(0),
      .heads = k.size(1),
      .seq = k.size(2),
      .capacity = static_cast<int>(cache.k_codes.size(2)),
      .head_dim = static_cast<int>(k.size(3)),
      .dtype = kernel_dtype(k),
  };
}

void append_on_cpu(const Tensor& k, const Tensor& v, Tensor k_codes, Tensor v_codes, Tensor k_scales, Tensor v_scales,
                   Tensor k_window, Tensor v_window, const Tensor& lengths) {
  const Int4CacheTensors cache{k_codes, v_codes, k_scales, v_scales, k_window, v_window};
  check(k, v, cache, lengths);
  int4_kv_append_cpu(parameters(k, v, cache, lengths));
}

#if WARPWATCH_WITH_CUDA

void append_on_cuda(const Tensor& k, const Tensor& v, Tensor k_codes, Tensor v_codes, Tensor k_scales, Tensor v_scales,
                    Tensor k_window, Tensor v_window, const Tensor& lengths) {
  const Int4CacheTensors cache{k_codes, v_codes, k_scales, v_scales, k_window, v_window};
  check(k, v, cache, lengths);
  if (k.numel() == 0) return;
  const OnDeviceOf gpu(k);
  check_launch(kChecks.op, int4_kv_append_cuda(parameters(k, v, cache, lengths), gpu.stream()));
}

#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(append_on_cpu, append_on_cuda,
                   "int4_kv_append(Tensor k, Tensor v, Tensor(a!) k_codes, Tensor(b!) v_codes, Tensor(c!) k_scales, "
                   "Tensor(d!) v_scales, Tensor(e!) k_window, Tensor(f!) v_window, Tensor lengths) -> ()");
