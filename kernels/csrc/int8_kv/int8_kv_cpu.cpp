// int8_kv_append on the CPU: rows are distributed over PyTorch's threads.
#include "int8_kv/int8_kv.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/parallel.h"
#include "quantize_int8/quantize_int8.h"

namespace warpwatch {
namespace {

template <class Element>
void append(const Int8KvParams& p) {
  parallel_for(0, 2 * p.batch * p.heads * p.seq, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % p.seq;
      const int64_t head = i / p.seq % p.heads;
      const int64_t batch = i / p.seq / p.heads % p.batch;
      const int64_t tensor = i / p.seq / p.heads / p.batch;
      const int64_t position = p.lengths[batch] - p.seq + row;
      if (position < 0 || position >= p.capacity) continue;
      const int64_t* from = p.row_strides[tensor];
      const int64_t* to = p.code_strides[tensor];
      const Element* x = static_cast<const Element*>(p.rows[tensor]) + batch * from[0] + head * from[1] + row * from[2];
      int8_t* codes = p.codes[tensor] + batch * to[0] + head * to[1] + position * to[2];
      float largest = kLeastMagnitude;
      bool not_a_number = false;
      for (int d = 0; d < p.head_dim; ++d) {
        const float magnitude = std::fabs(static_cast<float>(x[d]));
        largest = std::max(largest, magnitude);
        not_a_number |= magnitude != magnitude;
      }
      if (not_a_number) largest = std::numeric_limits<float>::quiet_NaN();
      const float inverse = 127.0f / largest;
      for (int d = 0; d < p.head_dim; ++d) {
        const float steps = std::nearbyint(static_cast<float>(x[d]) * inverse);
        codes[d] = steps == steps ? static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f)) : int8_t{0};
      }
      const int64_t* scales = p.scale_strides[tensor];
      p.scales[tensor][batch * scales[0] + head * scales[1] + position] = largest / 127.0f;
    }
  });
}

}  // namespace

void int8_kv_append_cpu(const Int8KvParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return append<Half>(p);
    case Dtype::kBFloat16: return append<BFloat16>(p);
    case Dtype::kFloat32: return append<float>(p);
  }
}

}  // namespace warpwatch
