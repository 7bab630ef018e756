// torch.ops.warpwatch.rms_norm and add_rms_norm: check their tensors, fill RowNormParams, and call the CPU's or the
// GPU's version.
#include "rms_norm/rms_norm.h"

#include <tuple>

#include "bindings/row_norm.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

Tensor rms_norm_on_cpu(const Tensor& x, const Tensor& weight, double eps) {
  const RowNormOperands operands = prepare_row_norm("rms_norm", x, std::nullopt, weight, std::nullopt, eps);
  rms_norm_cpu(operands.params);
  return operands.out;
}

std::tuple<Tensor, Tensor> add_rms_norm_on_cpu(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                               double eps) {
  const RowNormOperands operands = prepare_row_norm("add_rms_norm", x, residual, weight, std::nullopt, eps);
  rms_norm_cpu(operands.params);
  return {operands.out, *operands.total};
}

#if WARPWATCH_WITH_CUDA
Tensor rms_norm_on_cuda(const Tensor& x, const Tensor& weight, double eps) {
  const RowNormOperands operands = prepare_row_norm("rms_norm", x, std::nullopt, weight, std::nullopt, eps);
  const OnDeviceOf gpu(x);
  check_launch("rms_norm", rms_norm_cuda(operands.params, gpu.stream()));
  return operands.out;
}

std::tuple<Tensor, Tensor> add_rms_norm_on_cuda(const Tensor& x, const Tensor& residual, const Tensor& weight,
                                                double eps) {
  const RowNormOperands operands = prepare_row_norm("add_rms_norm", x, residual, weight, std::nullopt, eps);
  const OnDeviceOf gpu(x);
  check_launch("add_rms_norm", rms_norm_cuda(operands.params, gpu.stream()));
  return {operands.out, *operands.total};
}
#else
constexpr auto& rms_norm_on_cuda = WithoutCuda<decltype(rms_norm_on_cpu)>::refuse;
constexpr auto& add_rms_norm_on_cuda = WithoutCuda<decltype(add_rms_norm_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps=1e-06) -> Tensor");
  m.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps=1e-06) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("rms_norm", TORCH_BOX(&warpwatch::rms_norm_on_cpu));
  m.impl("add_rms_norm", TORCH_BOX(&warpwatch::add_rms_norm_on_cpu));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("rms_norm", TORCH_BOX(&warpwatch::rms_norm_on_cuda));
  m.impl("add_rms_norm", TORCH_BOX(&warpwatch::add_rms_norm_on_cuda));
}
