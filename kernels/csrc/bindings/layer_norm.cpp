// torch.ops.warpwatch.layer_norm and add_layer_norm: check their tensors, fill RowNormParams, and call the CPU's or the
// GPU's version.
#include "layer_norm/layer_norm.h"

#include <tuple>

#include "bindings/row_norm.h"
#include "framework/cuda.h"

namespace warpwatch {
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
#else
constexpr auto& layer_norm_on_cuda = WithoutCuda<decltype(layer_norm_on_cpu)>::refuse;
constexpr auto& add_layer_norm_on_cuda = WithoutCuda<decltype(add_layer_norm_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("layer_norm(Tensor x, Tensor weight, Tensor? bias=None, float eps=1e-05) -> Tensor");
  m.def(
      "add_layer_norm(Tensor x, Tensor residual, Tensor weight, Tensor? bias=None, float eps=1e-05) "
      "-> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("layer_norm", TORCH_BOX(&warpwatch::layer_norm_on_cpu));
  m.impl("add_layer_norm", TORCH_BOX(&warpwatch::add_layer_norm_on_cpu));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("layer_norm", TORCH_BOX(&warpwatch::layer_norm_on_cuda));
  m.impl("add_layer_norm", TORCH_BOX(&warpwatch::add_layer_norm_on_cuda));
}
