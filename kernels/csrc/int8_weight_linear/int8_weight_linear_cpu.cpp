// int8_weight_linear on the CPU: output columns are distributed over PyTorch's threads.
#include <algorithm>
#include <vector>

#include "framework/parallel.h"
#include "int8_weight_linear/int8_weight_linear.h"

namespace warpwatch {
namespace {

constexpr int kLanes = 16;  // independent partial sums, so that the compiler can vectorize without reordering

float dot(const float* a, const int8_t* b, int count) {  // count is a multiple of kLanes
  float lanes[kLanes] = {};
  for (int i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * static_cast<float>(b[i + lane]);
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <class Element>
void multiply(const Int8WeightLinearParams& p) {
  static_assert(kLanes == 16, "padded_k is a multiple of it");
  std::vector<float> x(static_cast<size_t>(p.m) * p.padded_k);  // zero-padded beyond k
  for (int64_t m = 0; m < p.m; ++m) {
    const Element* row = static_cast<const Element*>(p.x) + m * p.x_stride;
    for (int64_t k = 0; k < p.k; ++k) x[m * p.padded_k + k] = static_cast<float>(row[k]);
  }
  const Element* bias = static_cast<const Element*>(p.bias);
  const int64_t products = static_cast<int64_t>(p.m) * p.padded_k;  // per column
  const int64_t grain = std::max<int64_t>(1, 65536 / products);     // about 20 us of work per task
  parallel_for(0, p.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float shift = bias == nullptr ? 0.0f : static_cast<float>(bias[n]);
      for (int64_t m = 0; m < p.m; ++m) {
        const float sum = dot(&x[m * p.padded_k], p.weight + n * p.padded_k, p.padded_k);
        static_cast<Element*>(p.out)[m * p.n + n] = static_cast<Element>(sum * p.weight_scales[n] + shift);
      }
    }
  });
}

}  // namespace

void int8_weight_linear_cpu(const Int8WeightLinearParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return multiply<Half>(p);
    case Dtype::kBFloat16: return multiply<BFloat16>(p);
    case Dtype::kFloat32: return multiply<float>(p);
  }
}

}  // namespace warpwatch
