// Per-token quantization on the CPU: rows are distributed over PyTorch's threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/parallel.h"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

template <class Element>
void quantize(const QuantizeInt8Params& p) {
  const int64_t grain = std::max<int64_t>(1, 16384 / p.k);  // about 20 us of work per task
  parallel_for(0, p.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      const Element* x = static_cast<const Element*>(p.x) + m * p.x_stride;
      int8_t* out = p.out + m * p.padded_k;
      float largest = kLeastMagnitude;
      bool not_a_number = false;
      for (int k = 0; k < p.k; ++k) {
        const float magnitude = std::fabs(static_cast<float>(x[k]));
        largest = std::max(largest, magnitude);
        not_a_number |= magnitude != magnitude;
      }
      if (not_a_number) largest = std::numeric_limits<float>::quiet_NaN();
      p.scales[m] = largest / 127.0f;
      const float inverse = 127.0f / largest;
      for (int k = 0; k < p.k; ++k) {
        const float steps = std::nearbyint(static_cast<float>(x[k]) * inverse);
        out[k] = steps == steps ? static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f)) : int8_t{0};
      }
      std::fill(out + p.k, out + p.padded_k, int8_t{0});
    }
  });
}

}  // namespace

void quantize_int8_per_token_cpu(const QuantizeInt8Params& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return quantize<Half>(p);
    case Dtype::kBFloat16: return quantize<BFloat16>(p);
    case Dtype::kFloat32: return quantize<float>(p);
  }
}

}  // namespace warpwatch
