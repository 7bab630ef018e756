// torch.ops.warpwatch.vector_add: checks its tensors, fills VectorAddParams, and calls the CPU's or the GPU's version.
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
#else
constexpr auto& vector_add_on_cuda = WithoutCuda<decltype(vector_add_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) { m.def("vector_add(Tensor a, Tensor b) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) { m.impl("vector_add", TORCH_BOX(&warpwatch::vector_add_on_cpu)); }

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) { m.impl("vector_add", TORCH_BOX(&warpwatch::vector_add_on_cuda)); }
