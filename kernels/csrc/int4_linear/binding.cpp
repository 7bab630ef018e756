// Binding of torch.ops.warpwatch.int4_linear: checks its tensors, fills Int4LinearParams and calls the CPU version, a GPU
// kernel or cuBLAS.
#include "int4_linear/int4_linear.h"

#include <optional>

#include "framework/cuda.h"
#include "framework/linear_operands.h"
#include "framework/product.h"
#include "int4_linear/int4_linear_tiles.h"
#include "primitives/tall_product.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"int4_linear"};

struct Operands {
  LinearRows rows;
  Int4LinearParams params;  // `out` not set yet

  // Copies x if its rows overlap (an expanded tensor, for example): TMA cannot encode that.
  void part_rows() {
    if (params.x_stride >= params.k) return;
    Tensor copy = torch::stable::new_empty(rows.x, {params.m, params.k});
    torch::stable::copy_(copy, rows.x);
    rows.x = copy;
    params.x = copy.data_ptr();
    params.x_stride = params.k;
  }

  Tensor make_out() {
    Tensor out = torch::stable::new_empty(rows.x, rows.out_sizes);
    params.out = out.data_ptr();
    return out;
  }
};

Operands prepare(const Tensor& x, const Tensor& packed_weight, const Tensor& scales, int64_t group_size,
                 const std::optional<Tensor>& zero_points) {
  check_x(kChecks, x);
  kChecks.rank({"packed_weight", packed_weight}, 3, "(ceil(N / 16), K / 64, 512)");
  kChecks.dtype({"packed_weight", packed_weight}, {ScalarType::Byte});
  kChecks.rank({"scales", scales}, 2, "(N, K / group_size)");
  kChecks.same_dtype({"x", x}, {"scales", scales});
  WARPWATCH_CHECK(group_size == 64 || group_size == 128, "int4_linear", "group_size must be 64 or 128, got ",
                  group_size);

  const int64_t k = x.size(x.dim() - 1);
  const int64_t n = scales.size(0);
  WARPWATCH_CHECK(k > 0 && k % group_size == 0, "int4_linear", "K must be a positive multiple of group_size ",
                  group_size, ", got x of shape ", shape_text(x));
  kChecks.shape({"packed_weight", packed_weight}, {(n + 15) / 16, k / 64, 512},
                "(ceil(N / 16), K / 64, 512), as pack_int4 makes it");
  kChecks.shape({"scales", scales}, {n, k / group_size}, "(N, K / group_size)");
  if (zero_points) {
    kChecks.shape({"zero_points", *zero_points}, {n, k / group_size}, "(N, K / group_size)");
    kChecks.dtype({"zero_points", *zero_points}, {ScalarType::Byte});
    kChecks.contiguous({"zero_points", *zero_points});
    kChecks.same_device({"x", x}, {"zero_points", *zero_points});
  }
  for (const Argument& weight : {Argument{"packed_weight", packed_weight}, Argument{"scales", scales}}) {
    kChecks.contiguous(weight);
    kChecks.same_device({"x", x}, weight);
  }

  const LinearRows rows = rows_of(kChecks, x, {"packed_weight", packed_weight}, n);
  return {rows,
          {
              .x = rows.x.data_ptr(),
              .packed_weight = static_cast<const uint8_t*>(packed_weight.data_ptr()),
              .scales = scales.data_ptr(),
              .zero_points = static_cast<const uint8_t*>(pointer_of(zero_points)),
              .out = nullptr,
              .workspace = nullptr,
              .x_stride = rows.x_stride(k),
              .m = static_cast<int>(rows.m),
              .n = static_cast<int>(n),
              .k = static_cast<int>(k),
              .group_size = static_cast<int>(group_size),
              .tile = 0,
              .splits = 1,
              .dtype = kernel_dtype(x),
          }};
}

Tensor int4_linear_on_cpu(const Tensor& x, const Tensor& packed_weight, const Tensor& scales, int64_t group_size,
                          const std::optional<Tensor>& zero_points) {
  Operands operands = prepare(x, packed_weight, scales, group_size, zero_points);
  Tensor out = operands.make_out();
  if (operands.params.m > 0 && operands.params.n > 0) int4_linear_cpu(operands.params);
  return out;
}

#if WARPWATCH_WITH_CUDA
void check_alignment(const Operands& operands) {
  const auto starts_on_16_bytes = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  const Int4LinearParams& p = operands.params;
  WARPWATCH_CHECK(starts_on_16_bytes(p.x) && p.x_stride % 8 == 0, "int4_linear",
                  "each row of x must start on a 16-byte boundary, for it is read 16 bytes at a time; got strides ",
                  stride_text(operands.rows.x), " and a start ", reinterpret_cast<uintptr_t>(p.x) % 16,
                  " bytes past one; pass x.clone(memory_format=torch.contiguous_format)");
  WARPWATCH_CHECK(starts_on_16_bytes(p.packed_weight), "int4_linear",
                  "packed_weight must start on a 16-byte boundary, for it is read 16 bytes at a time; it starts ",
                  reinterpret_cast<uintptr_t>(p.packed_weight) % 16, " bytes past one; pass packed_weight.clone()");
}

void check_bfloat16(Dtype dtype, int capability) {
  WARPWATCH_CHECK(dtype != Dtype::kBFloat16 || capability >= 80, "int4_linear",
                  "bfloat16 needs a GPU of compute capability 8.0 or newer, this one has ", capability / 10, '.',
                  capability % 10, "; pass x and scales as float16");
}

bool goes_to_hopper(const Int4LinearParams& p, int capability) {
  return WARPWATCH_HAS_SM90A && capability == 90 && int4_tma_takes(p);
}

#if WARPWATCH_HAS_SM90A
cudaError_t launch_on_hopper(Int4LinearParams& p, const OnDeviceOf& gpu) {
  const int multiprocessors = gpu.multiprocessors();
  if (p.m <= kInt4FewRows) {
    p.tile = int4_few_tile(p.m, p.n, p.k, multiprocessors);
    return int4_linear_few_sm90a(p, gpu.stream());
  }
  if (tall_tiles_suit(p.m, p.n, multiprocessors)) return int4_linear_tall_sm90a(p, gpu.stream());
  p.tile = int4_wide_tile(p.m, p.n, multiprocessors);
  if (p.tile >= 0) return int4_linear_wide_sm90a(p, gpu.stream());
  p.tile = int4_many_tile(p.m, p.n, multiprocessors);
  return int4_linear_many_sm90a(p, gpu.stream());
}
#endif

cudaError_t launch(Int4LinearParams& p, const OnDeviceOf& gpu) {
  const int capability = gpu.compute_capability();
#if WARPWATCH_HAS_SM90A
  if (goes_to_hopper(p, capability)) return launch_on_hopper(p, gpu);
#endif
#if WARPWATCH_HAS_SM80
  if (capability >= 80) return int4_linear_sm80(p, gpu.stream());
#endif
#if WARPWATCH_HAS_SM75
  if (capability >= 75 && p.dtype == Dtype::kFloat16) return int4_linear_sm75(p, gpu.stream());
#endif
  fail_without_kernel("int4_linear", capability);
}

// Many rows: dequantizes the weight to 16 bits and calls cuBLAS.
Tensor through_cublas(const Operands& operands, const OnDeviceOf& gpu) {
  Int4LinearParams p = operands.params;
  const Tensor weight = torch::stable::new_empty(operands.rows.x, {p.n, p.k});
  p.out = weight.data_ptr();
  check_launch("int4_linear", int4_linear_dequantize_cuda(p, gpu.stream()));
  return torch::stable::view(product_with_transposed(operands.rows.x, weight), operands.rows.out_sizes);
}

Tensor int4_linear_on_cuda(const Tensor& x, const Tensor& packed_weight, const Tensor& scales, int64_t group_size,
                           const std::optional<Tensor>& zero_points) {
  kChecks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16});
  Operands operands = prepare(x, packed_weight, scales, group_size, zero_points);
  Int4LinearParams& p = operands.params;
  if (p.m == 0 || p.n == 0) return operands.make_out();
  check_alignment(operands);
  const OnDeviceOf gpu(x);
  check_bfloat16(p.dtype, gpu.compute_capability());
  if (gpu.compute_capability() == 90) operands.part_rows();
  if (p.m > kInt4DirectRows && !goes_to_hopper(p, gpu.compute_capability())) return through_cublas(operands, gpu);
  Tensor out = operands.make_out();
  std::optional<Tensor> workspace;  // PyTorch's allocator reuses it in stream order
  if (!goes_to_hopper(p, gpu.compute_capability())) {
    const Int4Plan plan = int4_linear_plan(p.m, p.n, p.k, p.group_size, gpu.multiprocessors());
    p.tile = plan.tile;
    p.splits = plan.splits;
  }
  if (p.splits > 1) {
    workspace = torch::stable::new_empty(x, {p.splits, p.m, p.n}, ScalarType::Float);
    p.workspace = static_cast<float*>(workspace->data_ptr());
  }
  check_launch("int4_linear", launch(p, gpu));
  return out;
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(int4_linear_on_cpu, int4_linear_on_cuda,
                   "int4_linear(Tensor x, Tensor packed_weight, Tensor scales, int group_size=128, "
                   "Tensor? zero_points=None) -> Tensor");
