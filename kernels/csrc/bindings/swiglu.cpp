// torch.ops.warpwatch.swiglu: checks its tensors, and calls PyTorch's product twice and what follows it.
#include <optional>

#include "bindings/linear_layer.h"
#include "framework/product.h"

namespace warpwatch {
namespace {

constexpr Checks kSwiglu{"swiglu"};

LinearRows prepare_swiglu(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                          const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  check_x(kSwiglu, x);
  const int64_t depth = x.size(x.dim() - 1);
  check_layer(kSwiglu, x, depth, {"gate_weight", gate_weight}, "gate_bias", gate_bias);
  check_layer(kSwiglu, x, depth, {"up_weight", up_weight}, "up_bias", up_bias);
  kSwiglu.same_shape({"gate_weight", gate_weight}, {"up_weight", up_weight});
  return rows_of(kSwiglu, x, gate_weight);
}

// Calls `apply` on the rows behind two products; the answer is the first one's memory.
template <class Apply>
Tensor swiglu_of(const LinearRows& rows, const Tensor& gate_weight, const Tensor& up_weight,
                 const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias, const Apply& apply) {
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(rows.x, rows.out_sizes);
  const Tensor gate = product_with_transposed(rows.x, gate_weight);
  const Tensor up = product_with_transposed(rows.x, up_weight);
  ActivationRowsParams params = behind_product(gate, rows, gate_bias, Activation::kNone);
  params.up = up.data_ptr();
  params.up_bias = pointer_of(up_bias);
  apply(params);
  return torch::stable::view(gate, rows.out_sizes);
}

Tensor swiglu_on_cpu(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                     const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  const LinearRows rows = prepare_swiglu(x, gate_weight, up_weight, gate_bias, up_bias);
  return swiglu_of(rows, gate_weight, up_weight, gate_bias, up_bias, activation_rows_cpu);
}

#if WARPWATCH_WITH_CUDA
Tensor swiglu_on_cuda(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                      const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  const LinearRows rows = prepare_swiglu(x, gate_weight, up_weight, gate_bias, up_bias);
  const OnDeviceOf gpu(x);
  return swiglu_of(rows, gate_weight, up_weight, gate_bias, up_bias, [&](const ActivationRowsParams& p) {
    check_launch("swiglu", launch_behind_product(p, gpu));
  });
}
#else
constexpr auto& swiglu_on_cuda = WithoutCuda<decltype(swiglu_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def(
      "swiglu(Tensor x, Tensor gate_weight, Tensor up_weight, Tensor? gate_bias=None, Tensor? up_bias=None) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) { m.impl("swiglu", TORCH_BOX(&warpwatch::swiglu_on_cpu)); }

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) { m.impl("swiglu", TORCH_BOX(&warpwatch::swiglu_on_cuda)); }
