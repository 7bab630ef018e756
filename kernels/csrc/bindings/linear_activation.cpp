// torch.ops.warpwatch.linear_activation and swiglu: they check their tensors, choose between one launch and cuBLAS with
// another behind it, and call.
#include "linear_activation/linear_activation.h"

#include <limits>
#include <optional>
#include <vector>

#include "framework/checks.h"
#include "framework/cuda.h"
#include "framework/product.h"
#include "linear_activation/linear_activation_tiles.h"

namespace warpwatch {
namespace {

constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;  // of M, N and K: an int, with room for a tile past it

// x as (m, k), and the sizes of what comes out.
struct Rows {
  Tensor x;  // a copy where its leading dimensions do not collapse
  std::vector<int64_t> out_sizes;
  int64_t m, n, k;
};

void check_layer(const Checks& checks, const Tensor& x, const Argument& weight, const char* bias_name,
                 const std::optional<Tensor>& bias) {
  checks.rank(weight, 2, "(N, K)");
  checks.shape(weight, {weight.tensor.size(0), x.size(x.dim() - 1)}, "(N, K)");
  checks.same_dtype({"x", x}, weight);
  checks.last_dimension_contiguous(weight);
  checks.same_device({"x", x}, weight);
  if (!bias) return;
  const Argument shift{bias_name, *bias};
  checks.shape(shift, {weight.tensor.size(0)}, "(N)");
  checks.same_dtype({"x", x}, shift);
  checks.contiguous(shift);
  checks.same_device({"x", x}, shift);
}

Rows rows_of(const Checks& checks, const Tensor& x, const Tensor& weight) {
  std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());
  const int64_t k = sizes.back(), n = weight.size(0);
  int64_t m = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) m *= sizes[i];
  WARPWATCH_CHECK(k > 0, checks.op, "K must be at least 1, got x of shape ", shape_text(x));
  WARPWATCH_CHECK(m <= kMost && n <= kMost && k <= kMost, checks.op, "no dimension may pass ", kMost,
                  ", got x of shape ", shape_text(x), " and a weight of shape ", shape_text(weight));
  sizes.back() = n;
  return {x.dim() == 2 ? x : torch::stable::reshape(x, {m, k}), sizes, m, n, k};
}

void check_x(const Checks& checks, const Tensor& x) {
  WARPWATCH_CHECK(x.dim() >= 1, checks.op, "x must have at least one dimension (..., K), got a scalar");
  checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"x", x});
}

const void* pointer_of(const std::optional<Tensor>& tensor) { return tensor ? tensor->data_ptr() : nullptr; }

ActivationRowsParams after(const Tensor& product, const Rows& rows, const std::optional<Tensor>& bias,
                           Activation activation) {
  return {
      .values = product.data_ptr(),
      .bias = pointer_of(bias),
      .up = nullptr,
      .up_bias = nullptr,
      .m = rows.m,
      .n = static_cast<int>(rows.n),
      .activation = activation,
      .dtype = kernel_dtype(rows.x),
  };
}

constexpr Checks kLinear{"linear_activation"};

Rows prepare_linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, int64_t activation) {
  WARPWATCH_CHECK(activation >= 0 && activation <= static_cast<int64_t>(Activation::kSilu), kLinear.op,
                  "activation must be 0 (none), 1 (gelu), 2 (gelu by tanh) or 3 (silu), got ", activation);
  check_x(kLinear, x);
  check_layer(kLinear, x, {"weight", weight}, "bias", bias);
  return rows_of(kLinear, x, weight);
}

Tensor linear_activation_on_cpu(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                int64_t activation) {
  const Rows rows = prepare_linear(x, weight, bias, activation);
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(x, rows.out_sizes);
  const Tensor product = product_with_transposed(rows.x, weight);
  activation_rows_cpu(after(product, rows, bias, static_cast<Activation>(activation)));
  return torch::stable::view(product, rows.out_sizes);
}

constexpr Checks kSwiglu{"swiglu"};

Rows prepare_swiglu(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                    const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  check_x(kSwiglu, x);
  check_layer(kSwiglu, x, {"gate_weight", gate_weight}, "gate_bias", gate_bias);
  check_layer(kSwiglu, x, {"up_weight", up_weight}, "up_bias", up_bias);
  kSwiglu.same_shape({"gate_weight", gate_weight}, {"up_weight", up_weight});
  return rows_of(kSwiglu, x, gate_weight);
}

// Calls `apply` on the rows behind two products; the answer is the first one's memory.
template <class Apply>
Tensor swiglu_of(const Rows& rows, const Tensor& gate_weight, const Tensor& up_weight,
                 const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias, const Apply& apply) {
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(rows.x, rows.out_sizes);
  const Tensor gate = product_with_transposed(rows.x, gate_weight);
  const Tensor up = product_with_transposed(rows.x, up_weight);
  ActivationRowsParams params = after(gate, rows, gate_bias, Activation::kNone);
  params.up = up.data_ptr();
  params.up_bias = pointer_of(up_bias);
  apply(params);
  return torch::stable::view(gate, rows.out_sizes);
}

Tensor swiglu_on_cpu(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                     const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  const Rows rows = prepare_swiglu(x, gate_weight, up_weight, gate_bias, up_bias);
  return swiglu_of(rows, gate_weight, up_weight, gate_bias, up_bias, activation_rows_cpu);
}

#if WARPWATCH_WITH_CUDA
// Whether the fused kernel of this architecture is in the build and takes these rows.
bool fused_takes(const Rows& rows, const Tensor& weight, int capability, int multiprocessors) {
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

cudaError_t launch(const LinearActivationParams& p, const OnDeviceOf& gpu, int capability) {
#if WARPWATCH_HAS_SM80
  if (capability >= 80) return linear_activation_sm80(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (capability >= 75) return linear_activation_sm75(p, gpu.stream());
#endif
  fail_without_kernel("linear_activation", capability);
}

Tensor linear_activation_on_cuda(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                                 int64_t activation) {
  const Rows rows = prepare_linear(x, weight, bias, activation);
  if (rows.m == 0 || rows.n == 0) return torch::stable::new_empty(x, rows.out_sizes);
  const OnDeviceOf gpu(x);
  const int capability = gpu.compute_capability();
  if (!fused_takes(rows, weight, capability, gpu.multiprocessors())) {
    const Tensor product = product_with_transposed(rows.x, weight);
    if (bias || static_cast<Activation>(activation) != Activation::kNone) {
      const ActivationRowsParams behind = after(product, rows, bias, static_cast<Activation>(activation));
      check_launch("linear_activation", activation_rows_cuda(behind, gpu.stream()));
    }
    return torch::stable::view(product, rows.out_sizes);
  }
  const Tensor out = torch::stable::new_empty(x, rows.out_sizes);
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
      .activation = static_cast<Activation>(activation),
      .dtype = kernel_dtype(x),
  };
  check_launch("linear_activation", launch(p, gpu, capability));
  return out;
}

Tensor swiglu_on_cuda(const Tensor& x, const Tensor& gate_weight, const Tensor& up_weight,
                      const std::optional<Tensor>& gate_bias, const std::optional<Tensor>& up_bias) {
  const Rows rows = prepare_swiglu(x, gate_weight, up_weight, gate_bias, up_bias);
  const OnDeviceOf gpu(x);
  return swiglu_of(rows, gate_weight, up_weight, gate_bias, up_bias, [&](const ActivationRowsParams& p) {
    check_launch("swiglu", activation_rows_cuda(p, gpu.stream()));
  });
}
#else
constexpr auto& linear_activation_on_cuda = WithoutCuda<decltype(linear_activation_on_cpu)>::refuse;
constexpr auto& swiglu_on_cuda = WithoutCuda<decltype(swiglu_on_cpu)>::refuse;
#endif

}  // namespace
}  // namespace warpwatch

STABLE_TORCH_LIBRARY_FRAGMENT(warpwatch, m) {
  m.def("linear_activation(Tensor x, Tensor weight, Tensor? bias, int activation) -> Tensor");
  m.def(
      "swiglu(Tensor x, Tensor gate_weight, Tensor up_weight, Tensor? gate_bias=None, Tensor? up_bias=None) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CPU, m) {
  m.impl("linear_activation", TORCH_BOX(&warpwatch::linear_activation_on_cpu));
  m.impl("swiglu", TORCH_BOX(&warpwatch::swiglu_on_cpu));
}

STABLE_TORCH_LIBRARY_IMPL(warpwatch, CUDA, m) {
  m.impl("linear_activation", TORCH_BOX(&warpwatch::linear_activation_on_cuda));
  m.impl("swiglu", TORCH_BOX(&warpwatch::swiglu_on_cuda));
}
