// int4_linear on the CPU: output columns are distributed over PyTorch's threads.
#include <algorithm>
#include <vector>

#include "framework/parallel.h"
#include "int4_linear/int4_linear.h"

namespace warpwatch {
namespace {

constexpr int kLanes = 16;  // independent partial sums, so that the compiler can vectorize without reordering

float dot(const float* a, const float* b, int count) {
  float lanes[kLanes] = {};
  for (int i = 0; i < count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Unpacks 64 of k of one output; `packed` are its 64 bytes. Layout: int4_linear.h.
void unpack(const uint8_t* packed, int shift, int zero, float* values) {
  for (int i = 0; i < 64; ++i) {
    const int t = i / 16, s = i / 4 % 4, e = i / 2 % 2, u = i % 2;
    values[16 * s + 8 * u + 2 * t + e] = static_cast<float>((packed[i] >> shift & 0xf) - zero);
  }
}

template <class Element>
void multiply(const Int4LinearParams& p) {
  std::vector<float> x(static_cast<size_t>(p.m) * p.k);
  for (int64_t m = 0; m < p.m; ++m) {
    const Element* row = static_cast<const Element*>(p.x) + m * p.x_stride;
    for (int64_t k = 0; k < p.k; ++k) x[m * p.k + k] = static_cast<float>(row[k]);
  }
  const int64_t groups = p.k / p.group_size;
  const int64_t products = static_cast<int64_t>(p.m) * p.k;  // per column
  const int64_t grain = std::max<int64_t>(1, 65536 / products);  // about 20 us of work per task
  parallel_for(0, p.n, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> weight(p.k);
    for (int64_t n = begin; n < end; ++n) {
      const uint8_t* packed = p.packed_weight + n / 16 * 8 * p.k + n % 8 * 64;
      for (int64_t first = 0; first < p.k; first += 64) {
        const int zero = p.zero_points == nullptr ? 8 : p.zero_points[n * groups + first / p.group_size];
        unpack(packed + first * 8, n % 16 < 8 ? 0 : 4, zero, &weight[first]);
      }
      const Element* scales = static_cast<const Element*>(p.scales) + n * groups;
      for (int64_t m = 0; m < p.m; ++m) {
        float sum = 0.0f;
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t first = group * p.group_size;
          sum += static_cast<float>(scales[group]) * dot(&weight[first], &x[m * p.k + first], p.group_size);
        }
        static_cast<Element*>(p.out)[m * p.n + n] = static_cast<Element>(sum);
      }
    }
  });
}

}  // namespace

void int4_linear_cpu(const Int4LinearParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return multiply<Half>(p);
    case Dtype::kBFloat16: return multiply<BFloat16>(p);
    case Dtype::kFloat32: return multiply<float>(p);
  }
}

}  // namespace warpwatch
