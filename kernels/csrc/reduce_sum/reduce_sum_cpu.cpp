// Sums on the CPU, in double; outputs are distributed over PyTorch's threads.
#include <algorithm>

#include "framework/parallel.h"
#include "reduce_sum/reduce_sum.h"

namespace warpwatch {
namespace {

constexpr int64_t kTogether = 64;  // neighbouring sums accumulated per pass over the rows

void store(const ReduceSumParams& p, int64_t at, double sum) {
  const auto value = static_cast<float>(sum);
  switch (p.out_dtype) {
    case Dtype::kFloat16: static_cast<Half*>(p.out)[at] = value; break;
    case Dtype::kBFloat16: static_cast<BFloat16*>(p.out)[at] = value; break;
    case Dtype::kFloat32: static_cast<float*>(p.out)[at] = value; break;
  }
}

template <class Element>
void sum(const ReduceSumParams& p) {
  const int64_t groups = (p.inner - 1) / kTogether + 1;
  const int64_t grain = std::max<int64_t>(1, 16384 / (p.reduced * std::min(p.inner, kTogether)));  // about 10 us
  parallel_for(0, p.outer * groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t outer = task / groups;
      const int64_t column = task % groups * kTogether;
      const int64_t columns = std::min(kTogether, p.inner - column);
      const Element* x = static_cast<const Element*>(p.x) + outer * p.reduced * p.inner + column;
      double sums[kTogether] = {};
      for (int64_t r = 0; r < p.reduced; ++r) {
        for (int64_t i = 0; i < columns; ++i) sums[i] += static_cast<float>(x[r * p.inner + i]);
      }
      for (int64_t i = 0; i < columns; ++i) store(p, outer * p.inner + column + i, sums[i]);
    }
  });
}

}  // namespace

void reduce_sum_cpu(const ReduceSumParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return sum<Half>(p);
    case Dtype::kBFloat16: return sum<BFloat16>(p);
    case Dtype::kFloat32: return sum<float>(p);
  }
}

}  // namespace warpwatch
