// Binding of torch.ops.warpwatch.int8_weight_linear: checks its tensors and calls the CPU version, a GPU kernel or cuBLAS.
#include "int8_weight_linear/int8_weight_linear.h"

#include <optional>

#include "framework/cuda.h"
#include "framework/linear_operands.h"
#include "framework/product.h"
#include "int8_weight_linear/int8_weight_linear_tiles.h"
#include "linear_activation/linear_activation.h"
#include "primitives/tall_product.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"int8_weight_linear"};

struct Operands {
  LinearRows rows;
  Int8WeightLinearParams params;  // `out` not set yet

  Tensor make_out() {
    Tensor out = torch::stable::new_empty(rows.x, rows.out_sizes);
    params.out = out.data_ptr();
    return out;
  }
};

Operands prepare(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                 const std::optional<Tensor>& bias) {
  check_x(kChecks, x);
  const int64_t padded_k = (x.size(x.dim() - 1) + 15) / 16 * 16;
  const LinearRows rows = rows_of(kChecks, x, {"weight", weight}, weight.dim() > 0 ? weight.size(0) : 0);
  check_int8_weight(kChecks, x, padded_k, weight, weight_scales, bias);
  return {rows,
          {
              .x = rows.x.data_ptr(),
              .weight = static_cast<const int8_t*>(weight.data_ptr()),
              .weight_scales = static_cast<const float*>(weight_scales.data_ptr()),
              .bias = pointer_of(bias),
              .out = nullptr,
              .x_stride = rows.x_stride(padded_k),  // even for a single row, as TMA needs it
              .m = static_cast<int>(rows.m),
              .n = static_cast<int>(rows.n),
              .k = static_cast<int>(rows.k),
              .padded_k = static_cast<int>(padded_k),
              .tile = 0,
              .dtype = kernel_dtype(x),
          }};
}

Tensor int8_weight_linear_on_cpu(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                                 const std::optional<Tensor>& bias) {
  Operands operands = prepare(x, weight, weight_scales, bias);
  Tensor out = operands.make_out();
  if (operands.params.m > 0 && operands.params.n > 0) int8_weight_linear_cpu(operands.params);
  return out;
}

#if WARPWATCH_WITH_CUDA
bool takes_wgmma(const Int8WeightLinearParams& p, int capability) {
  return WARPWATCH_HAS_SM90A && capability == 90 && int8_weight_wgmma_takes(p);
}

cudaError_t launch(Int8WeightLinearParams& p, const OnDeviceOf& gpu) {
  const int capability = gpu.compute_capability();
#if WARPWATCH_HAS_SM90A
  if (takes_wgmma(p, capability)) {
    if (tall_tiles_suit(p.m, p.n, gpu.multiprocessors())) return int8_weight_linear_tall_sm90a(p, gpu.stream());
    p.tile = int8_weight_wgmma_tile(p.m, p.n, gpu.multiprocessors());
    return int8_weight_linear_sm90a(p, gpu.stream());
  }
#endif
#if WARPWATCH_HAS_SM80
  if (capability >= 80) return int8_weight_linear_sm80(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (capability >= 75 && p.dtype == Dtype::kFloat16) return int8_weight_linear_sm75(p, gpu.stream());
#endif
  fail_without_kernel("int8_weight_linear", capability);
}

// Many rows: dequantizes the weight to 16 bits, calls cuBLAS and adds the bias.
Tensor through_cublas(const Operands& operands, const OnDeviceOf& gpu) {
  Int8WeightLinearParams p = operands.params;
  const Tensor weight = torch::stable::new_empty(operands.rows.x, {p.n, p.k});
  p.out = weight.data_ptr();
  check_launch("int8_weight_linear", int8_weight_dequantize_cuda(p, gpu.stream()));
  const Tensor product = product_with_transposed(operands.rows.x, weight);
  if (p.bias != nullptr) {
    const ActivationRowsParams rows{
        .values = product.data_ptr(),
        .bias = p.bias,
        .up = nullptr,
        .up_bias = nullptr,
        .m = p.m,
        .n = p.n,
        .activation = Activation::kNone,
        .dtype = p.dtype,
        .begins_early = WARPWATCH_HAS_SM90A && gpu.compute_capability() == 90,
    };
    check_launch("int8_weight_linear", activation_rows_cuda(rows, gpu.stream()));
  }
  return torch::stable::view(product, operands.rows.out_sizes);
}

Tensor int8_weight_linear_on_cuda(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                                  const std::optional<Tensor>& bias) {
  kChecks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16});
  Operands operands = prepare(x, weight, weight_scales, bias);
  Int8WeightLinearParams& p = operands.params;
  if (p.m == 0 || p.n == 0) return operands.make_out();
  WARPWATCH_CHECK(reinterpret_cast<uintptr_t>(p.weight) % 16 == 0, "int8_weight_linear",
                  "weight must start on a 16-byte boundary, for it is read 16 bytes at a time; it starts ",
                  reinterpret_cast<uintptr_t>(p.weight) % 16, " bytes past one; pass weight.clone()");
  const OnDeviceOf gpu(x);
  const int capability = gpu.compute_capability();
  WARPWATCH_CHECK(p.dtype != Dtype::kBFloat16 || capability >= 80, "int8_weight_linear",
                  "bfloat16 needs a GPU of compute capability 8.0 or newer, this one has ", capability / 10, '.',
                  capability % 10, "; pass x and bias as float16");
  if (p.m > kInt8WeightDirectRows && !takes_wgmma(p, capability)) return through_cublas(operands, gpu);
  Tensor out = operands.make_out();
  check_launch("int8_weight_linear", launch(p, gpu));
  return out;
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(int8_weight_linear_on_cpu, int8_weight_linear_on_cuda,
                   "int8_weight_linear(Tensor x, Tensor weight, Tensor weight_scales, Tensor? bias=None) -> Tensor");
