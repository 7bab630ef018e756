// Bindings of torch.ops.warpwatch.layer_norm and add_layer_norm: check their tensors, fill RowNormParams and call the CPU or
// the CUDA version.
#include "layer_norm/layer_norm.h"

#include <tuple>

#include "framework/cuda.h"
#include "row_norm/operands.h"
#include "row_norm/row_norm_cpu.h"

namespace warpwatch {

void layer_norm_cpu(const RowNormParams& p) { row_norm_on_cpu<true>(p); }

namespace {

Tensor layer_norm_on_cpu(const Tensor& x, const Tensor& weight, std::optional<Tensor> bias, double eps) {
  const RowNormOperands operands = prepare_row_norm("layer_norm", x, std::nullopt, weight, bias, eps);
  layer_norm_cpu(operands.params);
  return operands.out;
}

std::tuple<Tensor, Tensor> add_layer_norm_on_cpu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                                 std::optional<Tensor> bias, double eps) {
  const RowNormOperands operands = prepare_row_norm("add_layer_norm", x, residual, weight, bias, eps);
  layer_norm_cpu(operands.params);
  return {operands.out, *operands.total};
}

#if WARPWATCH_WITH_CUDA
Tensor layer_norm_on_cuda(const Tensor& x, const Tensor& weight, std::optional<Tensor> bias, double eps) {
  const RowNormOperands operands = prepare_row_norm("layer_norm", x, std::nullopt, weight, bias, eps);
  const OnDeviceOf gpu(x);
  check_launch("layer_norm", layer_norm_cuda(operands.params, gpu.stream()));
  return operands.out;
}

std::tuple<Tensor, Tensor> add_layer_norm_on_cuda(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                                  std::optional<Tensor> bias, double eps) {
  const RowNormOperands operands = prepare_row_norm("add_layer_norm", x, residual, weight, bias, eps);
  const OnDeviceOf gpu(x);
  check_launch("add_layer_norm", layer_norm_cuda(operands.params, gpu.stream()));
  return {operands.out, *operands.total};
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(layer_norm_on_cpu, layer_norm_on_cuda,
                   "layer_norm(Tensor x, Tensor weight, Tensor? bias=None, float eps=1e-05) -> Tensor");
WARPWATCH_OPERATOR(add_layer_norm_on_cpu, add_layer_norm_on_cuda,
                   "add_layer_norm(Tensor x, Tensor residual, Tensor weight, Tensor? bias=None, float eps=1e-05) "
                   "-> (Tensor, Tensor)");
