// Binding of torch.ops.warpwatch.quantize_int8_per_token: checks x and quantizes it on the CPU or a GPU.
#include "quantize_int8/quantize_int8.h"

#include <tuple>

#include "quantize_int8/operands.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

std::tuple<Tensor, Tensor> quantize_int8_per_token_on_cpu(const Tensor& x) {
  QuantizedRows rows = prepare_quantized_rows("quantize_int8_per_token", x);
  if (rows.params.m > 0) quantize_int8_per_token_cpu(rows.params);
  return {rows.values, rows.scales};
}

#if WARPWATCH_WITH_CUDA
std::tuple<Tensor, Tensor> quantize_int8_per_token_on_cuda(const Tensor& x) {
  QuantizedRows rows = prepare_quantized_rows("quantize_int8_per_token", x);
  if (rows.params.m == 0) return {rows.values, rows.scales};
  const OnDeviceOf gpu(x);
  check_launch("quantize_int8_per_token", quantize_int8_per_token_cuda(rows.params, gpu.stream()));
  return {rows.values, rows.scales};
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(quantize_int8_per_token_on_cpu, quantize_int8_per_token_on_cuda,
                   "quantize_int8_per_token(Tensor x) -> (Tensor, Tensor)");
