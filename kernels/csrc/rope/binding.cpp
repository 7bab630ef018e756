// Bindings of torch.ops.warpwatch.rope, rope_computed, and the in-place rope_ and rope_computed_: check their tensors, fill
// RopeParams and call the CPU or the CUDA version.
#include "rope/rope.h"

#include <cmath>

#include "framework/checks.h"
#include "framework/cuda.h"

namespace warpwatch {
namespace {

RopeStrides strides_of(const Tensor& tensor) { return {tensor.stride(0), tensor.stride(1), tensor.stride(2)}; }

void check_x(const char* op, const Tensor& x) {
  const Checks checks{op};
  checks.rank({"x", x}, 4, "(batch, heads, seq, head_dim)");
  checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.last_dimension_contiguous({"x", x});
  WARPWATCH_CHECK(x.size(3) % 2 == 0, op, "head_dim must be even, got x of shape ", shape_text(x));
}

RopeParams params_of(const Tensor& x, const Tensor& out, bool interleaved) {
  return {
      .x = x.data_ptr(),
      .out = out.data_ptr(),
      .cos = nullptr,
      .sin = nullptr,
      .positions = nullptr,
      .x_strides = strides_of(x),
      .out_strides = strides_of(out),
      .cos_stride = 0,
      .sin_stride = 0,
      .batch = x.size(0),
      .heads = x.size(1),
      .seq = x.size(2),
      .head_dim = static_cast<int>(x.size(3)),
      .dtype = kernel_dtype(x),
      .interleaved = interleaved,
  };
}

void take_tables(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin, RopeParams& p) {
  const Checks checks{op};
  for (const Argument& table : {Argument{"cos", cos}, Argument{"sin", sin}}) {
    checks.rank(table, 2, "(seq, head_dim / 2)");
    checks.shape(table, {x.size(2), x.size(3) / 2}, "(seq, head_dim / 2)");
    checks.dtype(table, {ScalarType::Float});
    checks.same_device({"x", x}, table);
    checks.last_dimension_contiguous(table);
  }
  p.cos = static_cast<const float*>(cos.data_ptr());
  p.sin = static_cast<const float*>(sin.data_ptr());
  p.cos_stride = cos.stride(0);
  p.sin_stride = sin.stride(0);
}

RopeTurns take_positions(const char* op, const Tensor& x, const Tensor& positions, double base, RopeParams& p) {
  const Checks checks{op};
  checks.shape({"positions", positions}, {x.size(0)}, "(batch)");
  checks.dtype({"positions", positions}, {ScalarType::Long});
  checks.same_device({"x", x}, {"positions", positions});
  checks.contiguous({"positions", positions});
  WARPWATCH_CHECK(x.size(3) / 2 <= kRopeMostFrequencies, op, "head_dim may be ", 2 * kRopeMostFrequencies,
                  " at most, got x of shape ", shape_text(x));
  WARPWATCH_CHECK(base >= 1.0 && std::isfinite(base), op, "base must be 1 or more, got ", base);
  p.positions = static_cast<const int64_t*>(positions.data_ptr());
  return rope_turns(base, p.head_dim);
}

void run(const char* op, const Tensor& x, const RopeParams& p, const RopeTurns* turns) {
#if WARPWATCH_WITH_CUDA
  if (x.is_cuda()) {
    const OnDeviceOf gpu(x);
    check_launch(op, rope_cuda(p, turns, gpu.stream()));
    return;
  }
#endif
  rope_cpu(p, turns);
}

void turn_by_tables(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved,
                    const Tensor& out) {
  RopeParams p = params_of(x, out, interleaved);
  take_tables(op, x, cos, sin, p);
  run(op, x, p, nullptr);
}

void turn_by_positions(const char* op, const Tensor& x, const Tensor& positions, double base, bool interleaved,
                       const Tensor& out) {
  RopeParams p = params_of(x, out, interleaved);
  // An empty batch has positions without an address, but a null pointer means tables.
  const RopeTurns turns = take_positions(op, x, positions, base, p);
  if (x.numel() != 0) run(op, x, p, &turns);
}

Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  check_x("rope", x);
  Tensor out = torch::stable::new_empty(x, x.sizes());
  turn_by_tables("rope", x, cos, sin, interleaved, out);
  return out;
}

void rope_in_place(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  check_x("rope_", x);
  Checks{"rope_"}.own_places({"x", x});
  turn_by_tables("rope_", x, cos, sin, interleaved, x);
}

Tensor rope_computed(const Tensor& x, const Tensor& positions, double base, bool interleaved) {
  check_x("rope_computed", x);
  Tensor out = torch::stable::new_empty(x, x.sizes());
  turn_by_positions("rope_computed", x, positions, base, interleaved, out);
  return out;
}

void rope_computed_in_place(const Tensor& x, const Tensor& positions, double base, bool interleaved) {
  check_x("rope_computed_", x);
  Checks{"rope_computed_"}.own_places({"x", x});
  turn_by_positions("rope_computed_", x, positions, base, interleaved, x);
}

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(rope, rope, "rope(Tensor x, Tensor cos, Tensor sin, bool interleaved=False) -> Tensor");
WARPWATCH_OPERATOR(rope_in_place, rope_in_place,
                   "rope_(Tensor(a!) x, Tensor cos, Tensor sin, bool interleaved=False) -> ()");
WARPWATCH_OPERATOR(rope_computed, rope_computed,
                   "rope_computed(Tensor x, Tensor positions, float base=10000.0, bool interleaved=False) -> Tensor");
WARPWATCH_OPERATOR(rope_computed_in_place, rope_computed_in_place,
                   "rope_computed_(Tensor(a!) x, Tensor positions, float base=10000.0, bool interleaved=False) -> ()");
