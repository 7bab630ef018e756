// torch.ops.warpwatch.linear_activation, which linear_gelu and linear_silu are, and ffn_gelu: they check their tensors,
// choose between one launch and cuBLAS with another behind it, and call.
#include "linear_activation/linear_activation.h"

#include <optional>

#include "bindings/linear_layer.h"
#include "framework/cuda.h"
#include "framework/product.h"
#include "linear_activation/linear_activation_tiles.h"

namespace warpwatch {
namespace {

Activation activation_of(int64_t number) {
  WARPWATCH_CHECK(number >= 0 && number <= static_cast<int64_t>(Activation::kSilu), "linear_activation",
                  "activation must be 0 (none), 1 (gelu), 2 (gelu by tanh) or 3 (silu), got ", number);
  return static_cast<Activation>(number);
}

// What the user called, for the sentences.
constexpr Checks checks_of(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeluTanh: return {"linear_gelu"};
    case Activation::kSilu: return {"linear_silu"};
    case Activation::kNone: break;
  }
  return {"linear_activation"};
}

// Layer is the CPU's or the GPU's, for rows and weights that have been checked.
using Layer = Tensor (*)(const Checks&, const LinearRows&, const Tensor& weight, const std::optional<Tensor>& bias,
                         Activation);

template <Layer layer>
Tensor linear_activation(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t number) {
  const Activation activation = activation_of(number);
  const Checks checks = checks_of(activation);
  check_x(checks, x);
  check_layer(checks, x, x.size(x.dim() - 1), {"weight", weight}, "bias", bias);
  return layer(checks, rows_of(checks, x, weight), weight, bias, activation);
}

template <Layer layer>
Tensor ffn_gelu(const Tensor& x, const Tensor& up_weight, const std::optional<Tensor>& up_bias,
                const Tensor& down_weight, const std::optional<Tensor>& down_bias, int64_t number) {
  constexpr Checks kFfn{"ffn_gelu"};
  const Activation activation = activation_of(number);
  check_x(kFfn, x);
  check_layer(kFfn, x, x.size(x.dim() - 1), {"up_weight", up_weight}, "up_bias", up_bias);
  const int64_t hidden_size = up_weight.size(0);
  WARPWATCH_CHECK(hidden_size > 0, kFfn.op, "up_weight must have at least one row, got shape ", shape_text(up_weight));
  check_layer(kFfn, x, hidden_size, {"down_weight", down_weight}, "down_bias", down_bias);
  const Tensor hidden = layer(kFfn, rows_of(kFfn, x, up_weight), up_weight, up_bias, activation);
  return layer(kFfn, rows_of(kFfn, hidden, down_weight), down_weight, down_bias, Activation::kNone);
}

Tensor layer_on_cpu(const Checks&, const LinearRows& rows, const Tensor& weight, const std::optional<Tensor>& bias,
                    Activation activation) {
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(rows.x, rows.out_sizes);
  const Tensor product = product_with_transposed(rows.x, weight);
  activation_rows_cpu(behind_product(product, rows, bias, activation));
  return torch::stable::view(product, rows.out_sizes);
}

#if WARPWATCH_WITH_CUDA
// Whether the fused kernel of this architecture is in the build and takes these rows.
bool fused_takes(const LinearRows& rows, const Tensor& weight, int capability, int multiprocessors) {
  const ScalarType dtype = rows.x.scalar_type();
  const bool built = capability >= 80 ? WARPWATCH_HAS_SM80 : capability >= 75 && WARPWATCH_HAS_SM75;
  const bool multiplies = dtype == ScalarType::Half || (dtype == ScalarType::BFloat16 && capability >= 80);
  const auto aligned = [&](const Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0 &&
           (tensor.size(0) == 1 || tensor.stride(0) % 8 == 0) && rows.k % 8 == 0;
  };
  return built && multiplies && aligned(rows.x) && aligned(weight) &&
         linear_is_fused(capability, static_cast<int>(rows.m), static_cast<int>(rows.n), multiprocessors);
}

cudaError_t launch(const Checks& checks, const LinearActivationParams& p, const OnDeviceOf& gpu, int capability) {
#if WARPWATCH_HAS_SM80
  if (capability >= 80) return linear_activation_sm80(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (capability >= 75) return linear_activation_sm75(p, gpu.stream());
#endif
  fail_without_kernel(checks.op, capability);
}

Tensor layer_on_cuda(const Checks& checks, const LinearRows& rows, const Tensor& weight,
                     const std::optional<Tensor>& bias, Activation activation) {
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(rows.x, rows.out_sizes);
  const OnDeviceOf gpu(rows.x);
  const int capability = gpu.compute_capability();
  if (!fused_takes(rows, weight, capability, gpu.multiprocessors())) {
    if (activation == Activation::kNone) {
      return torch::stable::view(product_with_transposed(rows.x, weight, bias), rows.out_sizes);
    }
    const Tensor product = product_with_transposed(rows.x, weight);
    check_launch(checks.op, launch_behind_product(behind_product(product, rows, bias, activation), gpu));
    return torch::stable::view(product, rows.out_sizes);
  }
  const Tensor out = torch::stable::new_empty(rows.x, rows.out_sizes);
  const LinearActivationParams p{
      .x = rows.x.data_ptr(),
      .weight = weight.data_ptr(),
      .bias = pointer_of(bias),
      .out = out.data_ptr(),
      .x_stride = rows.m > 1 ? rows.x.stride(0) : rows.k,
      .weight_stride = rows.n > 1 ? weight.stride(0) : rows.k,
      .m = static_cast<int>(rows.m),
      .n = static_cast<int>(rows.n),
      .k = static_cast<int>(rows.k),
      .tile = linear_tile(capability >= 80, static_cast<int>(rows.m)),
      .activation = activation,
      .dtype = kernel_dtype(rows.x),
  };
  check_launch(checks.op, launch(checks, p, gpu, capability));
  return out;
}
#else
constexpr auto& layer_on_cuda = WithoutCuda<decltype(layer_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("linear_activation(Tensor x, Tensor weight, Tensor? bias, int activation) -> Tensor");
  m.def(
      "ffn_gelu(Tensor x, Tensor up_weight, Tensor? up_bias, Tensor down_weight, Tensor? down_bias, int activation) -> "
      "Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("linear_activation", TORCH_BOX(&warpwatch::linear_activation<&warpwatch::layer_on_cpu>));
  m.impl("ffn_gelu", TORCH_BOX(&warpwatch::ffn_gelu<&warpwatch::layer_on_cpu>));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("linear_activation", TORCH_BOX(&warpwatch::linear_activation<&warpwatch::layer_on_cuda>));
  m.impl("ffn_gelu", TORCH_BOX(&warpwatch::ffn_gelu<&warpwatch::layer_on_cuda>));
}
