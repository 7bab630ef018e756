// Bias and activation, or silu(gate) * up, on the CPU: in place; rows are distributed over PyTorch's threads.
#include <algorithm>
#include <cmath>

#include "framework/parallel.h"
#include "linear_activation/linear_activation.h"

namespace warpwatch {
namespace {

float silu(float v) { return v / (1.0f + std::exp(-v)); }

float activated(Activation activation, float v) {
  switch (activation) {
    case Activation::kGelu: return 0.5f * v * std::erfc(v * -0.70710678118654752f);
    case Activation::kGeluTanh: return v / (1.0f + std::exp(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
    case Activation::kSilu: return silu(v);
    case Activation::kNone: break;
  }
  return v;
}

template <class Element>
void apply(const ActivationRowsParams& p) {
  const auto at = [](const void* row, int64_t n) {
    return row == nullptr ? 0.0f : static_cast<float>(static_cast<const Element*>(row)[n]);
  };
  const int64_t grain = std::max<int64_t>(1, 2048 / p.n);  // about 20 us of work per task
  parallel_for(0, p.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      Element* values = static_cast<Element*>(p.values) + m * p.n;
      const Element* up = p.up == nullptr ? nullptr : static_cast<const Element*>(p.up) + m * p.n;
      for (int64_t n = 0; n < p.n; ++n) {
        const float v = static_cast<float>(values[n]) + at(p.bias, n);
        const float result = up == nullptr ? activated(p.activation, v) : silu(v) * (at(up, n) + at(p.up_bias, n));
        values[n] = static_cast<Element>(result);
      }
    }
  });
}

}  // namespace

void activation_rows_cpu(const ActivationRowsParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return apply<Half>(p);
    case Dtype::kBFloat16: return apply<BFloat16>(p);
    case Dtype::kFloat32: return apply<float>(p);
  }
}

}  // namespace warpwatch
