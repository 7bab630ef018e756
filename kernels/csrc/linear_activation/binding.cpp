// Bindings of torch.ops.warpwatch.linear_activation (which linear, linear_gelu and linear_silu call), swiglu and ffn_gelu: they
// check their tensors, choose between one fused launch and cuBLAS followed by an epilogue kernel, and launch.
#include "linear_activation/linear_activation.h"

#include <optional>

#include "framework/cuda.h"
#include "framework/linear_operands.h"
#include "framework/product.h"
#include "linear_activation/linear_activation_tiles.h"

namespace warpwatch {

// Shared by the linear layers with an activation: checks of a layer, and the epilogue kernel behind a product.

// Checks a layer with `depth` inputs, whose tensors have x's dtype and device.
inline void check_layer(const Checks& checks, const Tensor& x, int64_t depth, const Argument& weight,
                        const char* bias_name, const std::optional<Tensor>& bias) {
  checks.rank(weight, 2, "(N, K)");
  checks.shape(weight, {weight.tensor.size(0), depth}, "(N, K)");
  checks.same_dtype({"x", x}, weight);
  checks.last_dimension_contiguous(weight);
  checks.same_device({"x", x}, weight);
  check_bias(checks, x, bias_name, bias, weight.tensor.size(0));
}

inline LinearRows rows_of(const Checks& checks, const Tensor& x, const Tensor& weight) {
  return rows_of(checks, x, {"weight", weight}, weight.size(0));
}

// Parameters of the epilogue kernel for this product.
inline ActivationRowsParams behind_product(const Tensor& product, const LinearRows& rows,
                                           const std::optional<Tensor>& bias, Activation activation) {
  return {
      .values = product.data_ptr(),
      .bias = pointer_of(bias),
      .up = nullptr,
      .up_bias = nullptr,
      .m = rows.m,
      .n = static_cast<int>(rows.n),
      .activation = activation,
      .dtype = kernel_dtype(rows.x),
      .begins_early = false,
  };
}

#if WARPWATCH_WITH_CUDA
// Only sm_90a's code waits for the product: code for another architecture does not, even if a Hopper or newer GPU compiles it
// from PTX when it is loaded.
inline cudaError_t launch_behind_product(ActivationRowsParams p, const OnDeviceOf& gpu) {
  p.begins_early = WARPWATCH_HAS_SM90A && gpu.compute_capability() == 90;
  return activation_rows_cuda(p, gpu.stream());
}
#endif

namespace {

Activation activation_of(int64_t number) {
  WARPWATCH_CHECK(number >= 0 && number <= static_cast<int64_t>(Activation::kSilu), "linear_activation",
                  "activation must be 0 (none), 1 (gelu), 2 (gelu by tanh) or 3 (silu), got ", number);
  return static_cast<Activation>(number);
}

// Names the operator that the user called in error messages.
constexpr Checks checks_of(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeluTanh: return {"linear_gelu"};
    case Activation::kSilu: return {"linear_silu"};
    case Activation::kNone: break;
  }
  return {"linear"};
}

// Layer: the CPU's or the GPU's implementation, for checked rows and weights.
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
// Whether the fused kernels support the dtype, and rows are aligned for 16-byte vectors.
bool fused_takes(const LinearRows& rows, const Tensor& weight, int capability) {
  const ScalarType dtype = rows.x.scalar_type();
  const bool multiplies = dtype == ScalarType::Half || (dtype == ScalarType::BFloat16 && capability >= 80);
  const auto aligned = [&](const Tensor& tensor) {
    return bytes_past(16, tensor) == 0 &&
           (tensor.size(0) == 1 || (tensor.stride(0) % 8 == 0 && tensor.stride(0) >= rows.k)) && rows.k % 8 == 0;
  };
  return multiplies && aligned(rows.x) && aligned(weight);
}

// Whether one fused launch of a kernel in this build is faster than cuBLAS and an epilogue launch.
bool is_fused(const LinearRows& rows, Activation activation, const OnDeviceOf& gpu) {
  const int capability = gpu.compute_capability(), multiprocessors = gpu.multiprocessors();
  const int m = static_cast<int>(rows.m), n = static_cast<int>(rows.n), k = static_cast<int>(rows.k);
  if (WARPWATCH_HAS_SM90A && capability == 90) {
    const bool has_activation = activation != Activation::kNone;  // cuBLAS adds a bias in its own launch
    if (m <= kMostGemvRows) return true;
    if (m <= kMostFewRows) return layer_of_few_rows_is_fused(m, n, k, multiprocessors, has_activation);
    return has_activation && linear_is_fused_by_wgmma(m, n, multiprocessors);
  }
  const bool built = capability >= 80 ? WARPWATCH_HAS_SM80 : capability >= 75 && WARPWATCH_HAS_SM75;
  return built && linear_is_fused(capability, m, n, multiprocessors);
}

LinearActivationParams params_of(const LinearRows& rows, const Tensor& weight, const std::optional<Tensor>& bias,
                                 Activation activation, const Tensor& out) {
  return {
      .x = rows.x.data_ptr(),
      .weight = weight.data_ptr(),
      .bias = pointer_of(bias),
      .out = out.data_ptr(),
      .x_stride = rows.m > 1 ? rows.x.stride(0) : rows.k,
      .weight_stride = rows.n > 1 ? weight.stride(0) : rows.k,
      .m = static_cast<int>(rows.m),
      .n = static_cast<int>(rows.n),
      .k = static_cast<int>(rows.k),
      .tile = 0,
      .activation = activation,
      .dtype = kernel_dtype(rows.x),
  };
}

#if WARPWATCH_HAS_SM90A
auto kernel_of_hopper(int m) {
  if (m <= kMostGemvRows) return linear_activation_gemv_sm90a;
  return m <= kMostFewRows ? linear_activation_few_rows_sm90a : linear_activation_sm90a;
}

// Whether one launch is better than two products of cuBLAS and another launch.
bool swiglu_is_fused(int m, int n, int k, int multiprocessors) {
  if (m <= kMostGemvRows) return true;
  if (m <= kMostFewRows) return swiglu_of_few_rows_is_fused(m, n, k, multiprocessors);
  return swiglu_is_fused_by_wgmma(m, n, multiprocessors);
}
#endif

cudaError_t launch(const Checks& checks, LinearActivationParams p, const OnDeviceOf& gpu) {
  const int capability = gpu.compute_capability();
#if WARPWATCH_HAS_SM90A
  if (capability == 90) return kernel_of_hopper(p.m)(p, gpu.stream());
#endif
  p.tile = linear_tile(capability >= 80, p.m);
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
  if (!fused_takes(rows, weight, gpu.compute_capability()) || !is_fused(rows, activation, gpu)) {
    // cuBLAS adds the bias. Without one PyTorch chooses another algorithm: 192 rows, 4096 -> 4096, took 21.7 us instead of 18.4
    // on one H200.
    const Tensor product = product_with_transposed(rows.x, weight, bias);
    if (activation != Activation::kNone) {
      check_launch(checks.op, launch_behind_product(behind_product(product, rows, std::nullopt, activation), gpu));
    }
    return torch::stable::view(product, rows.out_sizes);
  }
  const Tensor out = torch::stable::new_empty(rows.x, rows.out_sizes);
  check_launch(checks.op, launch(checks, params_of(rows, weight, bias, activation, out), gpu));
  return out;
}
#endif

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

// Calls `apply` on the two products' rows; the result is in the first product's memory.
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
#if WARPWATCH_HAS_SM90A
  const int capability = gpu.compute_capability();
  const int m = static_cast<int>(rows.m), n = static_cast<int>(rows.n), k = static_cast<int>(rows.k);
  if (m > 0 && n > 0 && capability == 90 && fused_takes(rows, gate_weight, capability) &&
      fused_takes(rows, up_weight, capability) && swiglu_is_fused(m, n, k, gpu.multiprocessors())) {
    const Tensor out = torch::stable::new_empty(x, rows.out_sizes);
    LinearActivationParams p = params_of(rows, gate_weight, gate_bias, Activation::kSilu, out);
    p.up_weight = up_weight.data_ptr();
    p.up_bias = pointer_of(up_bias);
    p.up_weight_stride = rows.n > 1 ? up_weight.stride(0) : rows.k;
    check_launch("swiglu", kernel_of_hopper(m)(p, gpu.stream()));
    return out;
  }
#endif
  return swiglu_of(rows, gate_weight, up_weight, gate_bias, up_bias, [&](const ActivationRowsParams& p) {
    check_launch("swiglu", launch_behind_product(p, gpu));
  });
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(linear_activation<warpwatch::layer_on_cpu>, linear_activation<warpwatch::layer_on_cuda>,
                   "linear_activation(Tensor x, Tensor weight, Tensor? bias, int activation) -> Tensor");
WARPWATCH_OPERATOR(ffn_gelu<warpwatch::layer_on_cpu>, ffn_gelu<warpwatch::layer_on_cuda>,
                   "ffn_gelu(Tensor x, Tensor up_weight, Tensor? up_bias, Tensor down_weight, Tensor? down_bias, "
                   "int activation) -> Tensor");
WARPWATCH_OPERATOR(swiglu_on_cpu, swiglu_on_cuda,
                   "swiglu(Tensor x, Tensor gate_weight, Tensor up_weight, Tensor? gate_bias=None, "
                   "Tensor? up_bias=None) -> Tensor");
