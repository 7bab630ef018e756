// Binding of torch.ops.warpwatch.int8_linear: checks its tensors, quantizes x and calls the CPU version or a GPU kernel.
#include "int8_linear/int8_linear.h"

#include <optional>
#include <vector>

#include "quantize_int8/operands.h"
#include "framework/cuda.h"
#include "framework/linear_operands.h"
#include "int8_linear/int8_linear_tiles.h"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"int8_linear"};

struct Operands {
  QuantizedRows rows;
  Tensor out;  // (..., n)
  Int8LinearParams params;
};

Operands prepare(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                 const std::optional<Tensor>& bias) {
  QuantizedRows rows = prepare_quantized_rows("int8_linear", x);
  const int64_t padded_k = rows.params.padded_k;
  const int64_t n = check_int8_weight(kChecks, x, padded_k, weight, weight_scales, bias);
  WARPWATCH_CHECK(n <= kMostLinearSize, "int8_linear", "N may not pass ", kMostLinearSize, ", got weight of shape ",
                  shape_text(weight));

  std::vector<int64_t> out_sizes(x.sizes().begin(), x.sizes().end());
  out_sizes.back() = n;
  Operands operands{.rows = rows, .out = torch::stable::new_empty(x, out_sizes), .params = {}};
  operands.params = {
      .x = rows.params.out,
      .x_scales = rows.params.scales,
      .weight = static_cast<const int8_t*>(weight.data_ptr()),
      .weight_scales = static_cast<const float*>(weight_scales.data_ptr()),
      .bias = pointer_of(bias),
      .out = operands.out.data_ptr(),
      .arrived = nullptr,
      .partials = nullptr,
      .m = rows.params.m,
      .n = static_cast<int>(n),
      .k = static_cast<int>(padded_k),
      .tile = 0,
      .splits = 1,
      .dtype = rows.params.dtype,
  };
  return operands;
}

Tensor int8_linear_on_cpu(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                          const std::optional<Tensor>& bias) {
  Operands operands = prepare(x, weight, weight_scales, bias);
  if (operands.params.m == 0 || operands.params.n == 0) return operands.out;
  quantize_int8_per_token_cpu(operands.rows.params);
  int8_linear_cpu(operands.params);
  return operands.out;
}

#if WARPWATCH_WITH_CUDA
// Whether Hopper's wgmma kernel runs: on Hopper, with more rows than the decode kernel takes.
bool takes_wgmma(const Int8LinearParams& p, int capability) {
  return WARPWATCH_HAS_SM90A && capability == 90 && p.m > kInt8DecodeRows;
}

cudaError_t launch(const Int8LinearParams& p, const OnDeviceOf& gpu, int capability) {
#if WARPWATCH_HAS_SM90A
  if (takes_wgmma(p, capability)) return int8_linear_sm90a(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM80
  if (capability >= 80) return int8_linear_sm80(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (capability >= 75) return int8_linear_sm75(p, gpu.stream());
#endif
  fail_without_kernel("int8_linear", capability);
}

// Whether launch() runs sm_80's kernels rather than sm_75's; the plan depends on it.
bool takes_sm80(int capability) { return WARPWATCH_HAS_SM80 && capability >= 80; }

Tensor int8_linear_on_cuda(const Tensor& x, const Tensor& weight, const Tensor& weight_scales,
                           const std::optional<Tensor>& bias) {
  Operands operands = prepare(x, weight, weight_scales, bias);
  Int8LinearParams& p = operands.params;
  QuantizeInt8Params& quantize = operands.rows.params;
  if (p.m == 0 || p.n == 0) return operands.out;
  WARPWATCH_CHECK(reinterpret_cast<uintptr_t>(p.weight) % 16 == 0, "int8_linear",
                  "weight must start on a 16-byte boundary, for it is read 16 bytes at a time; it starts ",
                  reinterpret_cast<uintptr_t>(p.weight) % 16, " bytes past one; pass weight.clone()");
  const OnDeviceOf gpu(x);
  const int capability = gpu.compute_capability();
  const Int8Plan plan = takes_wgmma(p, capability)
                            ? Int8Plan{int8_wgmma_tile(p.m, p.n, gpu.multiprocessors()), 1, 0, 0}
                            : int8_linear_plan(takes_sm80(capability), p.m, p.n, p.k, gpu.multiprocessors());
  p.tile = plan.tile;
  p.splits = plan.splits;
  std::optional<Tensor> workspace;  // PyTorch's allocator reuses it in stream order
  if (plan.splits > 1) {
    const int64_t counters = (plan.tiles + 3) / 4 * 4;  // rounded up, so that the sums behind them are 16-byte aligned
    workspace = torch::stable::new_empty(x, {counters + plan.partials}, ScalarType::Int);
    p.arrived = static_cast<int*>(workspace->data_ptr());
    p.partials = p.arrived + counters;
    quantize.counters = p.arrived;
    quantize.counter_count = static_cast<int>(plan.tiles);
  }
  check_launch("int8_linear", quantize_int8_per_token_cuda(quantize, gpu.stream()));
  check_launch("int8_linear", launch(p, gpu, capability));
  return operands.out;
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(int8_linear_on_cpu, int8_linear_on_cuda,
                   "int8_linear(Tensor x, Tensor weight, Tensor weight_scales, Tensor? bias=None) -> Tensor");
