// Binding of torch.ops.warpwatch.vector_add: checks its tensors, fills VectorAddParams and calls the CPU or the CUDA version.
#include "vector_add/vector_add.h"

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"vector_add"};

Tensor prepare(const Tensor& a, const Tensor& b, VectorAddParams& p) {
  kChecks.dtype({"a", a}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  kChecks.same_dtype({"a", a}, {"b", b});
  kChecks.same_shape({"a", a}, {"b", b});
  kChecks.same_device({"a", a}, {"b", b});
  kChecks.contiguous({"a", a});
  kChecks.contiguous({"b", b});
  Tensor out = torch::stable::new_empty(a, a.sizes());
  p = {
      .a = a.data_ptr(),
      .b = b.data_ptr(),
      .out = out.data_ptr(),
      .count = a.numel(),
      .dtype = kernel_dtype(a),
  };
  return out;
}

Tensor vector_add_on_cpu(const Tensor& a, const Tensor& b) {
  VectorAddParams p;
  Tensor out = prepare(a, b, p);
  vector_add_cpu(p);
  return out;
}

#if WARPWATCH_WITH_CUDA
Tensor vector_add_on_cuda(const Tensor& a, const Tensor& b) {
  VectorAddParams p;
  Tensor out = prepare(a, b, p);
  const OnDeviceOf gpu(a);
  check_launch("vector_add", vector_add_cuda(p, gpu.stream()));
  return out;
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(vector_add_on_cpu, vector_add_on_cuda, "vector_add(Tensor a, Tensor b) -> Tensor");
