// torch.ops.warpwatch.rope: checks its tensors, fills RopeParams, and calls the CPU's or the GPU's version.
#include "rope/rope.h"

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"rope"};

Tensor prepare(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved, RopeParams& p) {
  kChecks.rank({"x", x}, 4, "(batch, heads, seq, head_dim)");
  kChecks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  kChecks.last_dimension_contiguous({"x", x});
  const int64_t seq = x.size(2);
  const int64_t head_dim = x.size(3);
  WARPWATCH_CHECK(head_dim % 2 == 0, "rope", "head_dim must be even, got x of shape ", shape_text(x));
  for (const Argument& table : {Argument{"cos", cos}, Argument{"sin", sin}}) {
    kChecks.rank(table, 2, "(seq, head_dim / 2)");
    kChecks.shape(table, {seq, head_dim / 2}, "(seq, head_dim / 2)");
    kChecks.dtype(table, {ScalarType::Float});
    kChecks.same_device({"x", x}, table);
    kChecks.last_dimension_contiguous(table);
  }
  Tensor out = torch::stable::new_empty(x, x.sizes());
  p = {
      .x = x.data_ptr(),
      .cos = static_cast<const float*>(cos.data_ptr()),
      .sin = static_cast<const float*>(sin.data_ptr()),
      .out = out.data_ptr(),
      .batch_stride = x.stride(0),
      .head_stride = x.stride(1),
      .seq_stride = x.stride(2),
      .cos_stride = cos.stride(0),
      .sin_stride = sin.stride(0),
      .batch = x.size(0),
      .heads = x.size(1),
      .seq = seq,
      .head_dim = static_cast<int>(head_dim),
      .dtype = kernel_dtype(x),
      .interleaved = interleaved,
  };
  return out;
}

Tensor rope_on_cpu(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  RopeParams p;
  Tensor out = prepare(x, cos, sin, interleaved, p);
  rope_cpu(p);
  return out;
}

#if WARPWATCH_WITH_CUDA
Tensor rope_on_cuda(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  RopeParams p;
  Tensor out = prepare(x, cos, sin, interleaved, p);
  const OnDeviceOf gpu(x);
  check_launch("rope", rope_cuda(p, gpu.stream()));
  return out;
}
#else
constexpr auto& rope_on_cuda = WithoutCuda<decltype(rope_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("rope(Tensor x, Tensor cos, Tensor sin, bool interleaved=False) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) { m.impl("rope", TORCH_BOX(&warpwatch::rope_on_cpu)); }

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) { m.impl("rope", TORCH_BOX(&warpwatch::rope_on_cuda)); }
