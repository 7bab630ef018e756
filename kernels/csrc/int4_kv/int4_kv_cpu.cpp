// int4_kv_append on the CPU: key heads are distributed over PyTorch's threads, each handling its groups of tokens in order.
#include "int4_kv/int4_kv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/parallel.h"

namespace warpwatch {
namespace {

// Scale and zero of 32 numbers that are `stride` elements apart.
struct Grid {
  Half scale, zero;
  float inverse;

  Grid(const float* x, int stride) {
    float least = x[0], most = x[0];
    bool not_a_number = false;
    for (int i = 0; i < kInt4Group; ++i) {
      least = std::min(least, x[i * stride]);
      most = std::max(most, x[i * stride]);
      not_a_number |= x[i * stride] != x[i * stride];
    }
    least = within_half(least);
    most = within_half(most);
    zero = Half(not_a_number ? std::numeric_limits<float>::quiet_NaN() : least);
    scale = Half((most - least) / 15.0f);
    // The scale, if rounded up, may take the largest code beyond fp16's range.
    if (15.0f * static_cast<float>(scale) + least > kLargestHalf) --scale.x;
    inverse = static_cast<float>(scale) > 0.0f ? 1.0f / static_cast<float>(scale) : 0.0f;
  }
  uint8_t code(float x) const {
    const float steps = std::nearbyint((x - static_cast<float>(zero)) * inverse);
    return steps == steps ? static_cast<uint8_t>(std::clamp(steps, 0.0f, 15.0f)) : uint8_t{0};
  }
};

void put(uint8_t* row, int channel, uint8_t code) {
  uint8_t& byte = row[channel / 2];
  byte = channel % 2 == 0 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4;
}

void quantize_keys(const float* x, int head_dim, uint8_t* codes, Half* scales) {
  for (int d = 0; d < head_dim; ++d) {
    const Grid grid(x + d, head_dim);
    scales[d] = grid.scale;
    scales[head_dim + d] = grid.zero;
    for (int i = 0; i < kInt4Group; ++i) put(codes + i * head_dim / 2, d, grid.code(x[i * head_dim + d]));
  }
}

void quantize_values(const float* x, int head_dim, uint8_t* codes, Half* scales) {
  for (int i = 0; i < kInt4Group; ++i) {
    for (int first = 0; first < head_dim; first += kInt4Group) {
      const float* of_group = x + i * head_dim + first;
      const Grid grid(of_group, 1);
      Half* at = scales + (i * head_dim + first) / kInt4Group * 2;
      at[0] = grid.scale;
      at[1] = grid.zero;
      for (int d = 0; d < kInt4Group; ++d) put(codes + i * head_dim / 2, first + d, grid.code(of_group[d]));
    }
  }
}

template <class Element>
void append_head(const Int4KvParams& p, int tensor, int64_t batch, int64_t head, std::vector<float>& group) {
  const int64_t index = batch * p.heads + head;
  const int64_t first_new = p.lengths[batch] - p.seq;  // position of row 0
  const int64_t begin = std::max<int64_t>(first_new, 0);
  const int64_t end = std::min<int64_t>(p.lengths[batch], p.capacity);
  const int64_t* strides = p.row_strides[tensor];
  const Element* rows = static_cast<const Element*>(p.rows[tensor]) + batch * strides[0] + head * strides[1];
  Element* window = static_cast<Element*>(p.windows[tensor]) + index * kInt4Group * p.head_dim;
  for (int64_t first = begin / kInt4Group * kInt4Group; first < end; first += kInt4Group) {
    const bool whole = first + kInt4Group <= end;
    for (int64_t position = whole ? first : std::max(first, begin); position < std::min(first + kInt4Group, end);
         ++position) {
      Element* in_window = window + (position - first) * p.head_dim;
      const Element* from = position < begin ? in_window : rows + (position - first_new) * strides[2];
      if (whole) {
        for (int d = 0; d < p.head_dim; ++d) group[(position - first) * p.head_dim + d] = static_cast<float>(from[d]);
      } else {
        std::copy_n(from, p.head_dim, in_window);
      }
    }
    if (!whole) continue;
    uint8_t* codes = p.codes[tensor] + (index * p.capacity + first) * (p.head_dim / 2);
    Half* scales = static_cast<Half*>(p.scales[tensor]) + (index * p.capacity + first) * (p.head_dim / kInt4Group) * 2;
    tensor == 0 ? quantize_keys(group.data(), p.head_dim, codes, scales)
                : quantize_values(group.data(), p.head_dim, codes, scales);
  }
}

template <class Element>
void append(const Int4KvParams& p) {
  parallel_for(0, p.batch * p.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> group(size_t{kInt4Group} * p.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      for (int tensor = 0; tensor < 2; ++tensor) append_head<Element>(p, tensor, i / p.heads, i % p.heads, group);
    }
  });
}

}  // namespace

void int4_kv_append_cpu(const Int4KvParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return append<Half>(p);
    case Dtype::kBFloat16: return append<BFloat16>(p);
    case Dtype::kFloat32: return append<float>(p);
  }
}

}  // namespace warpwatch
