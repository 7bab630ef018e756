// Bindings of torch.ops.warpwatch.rms_norm and add_rms_norm: check their tensors, fill
// RowNormParams and call the CPU or the CUDA version.
#include "rms_norm/rms_norm.h"

#include <tuple>

#include "framework/cuda.h"
#include "row_norm/operands.h"
#include "row_norm/row_norm_cpu.h"

namespace warpwatch {

void rms_norm_cpu(const RowNormParams& p) { row_norm_on_cpu<false>(p); }

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
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(rms_norm_on_cpu, rms_norm_on_cuda, "rms_norm(Tensor x, Tensor weight, float eps=1e-06) -> Tensor");
WARPWATCH_OPERATOR(add_rms_norm_on_cpu, add_rms_norm_on_cuda,
                   "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps=1e-06) -> (Tensor, Tensor)");
