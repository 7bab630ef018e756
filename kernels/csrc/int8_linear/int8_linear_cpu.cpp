// int8_linear on the CPU: output columns are distributed over PyTorch's threads.
#include <algorithm>

#include "framework/parallel.h"
#include "int8_linear/int8_linear.h"

namespace warpwatch {
namespace {

int dot(const int8_t* a, const int8_t* b, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += static_cast<int>(a[i]) * b[i];
  return sum;
}

template <class Element>
void multiply(const Int8LinearParams& p) {
  const Element* bias = static_cast<const Element*>(p.bias);
  const int64_t products = static_cast<int64_t>(p.m) * p.k;      // per column
  const int64_t grain = std::max<int64_t>(1, 65536 / products);  // about 10 us of work per task
  parallel_for(0, p.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t m = 0; m < p.m; ++m) {
        const int sum = dot(p.x + m * p.k, p.weight + n * p.k, p.k);
        const float value = static_cast<float>(sum) * p.x_scales[m] * p.weight_scales[n];
        const float shift = bias == nullptr ? 0.0f : static_cast<float>(bias[n]);
        static_cast<Element*>(p.out)[m * p.n + n] = static_cast<Element>(value + shift);
      }
    }
  });
}

}  // namespace

void int8_linear_cpu(const Int8LinearParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return multiply<Half>(p);
    case Dtype::kBFloat16: return multiply<BFloat16>(p);
    case Dtype::kFloat32: return multiply<float>(p);
  }
}

}  // namespace warpwatch
