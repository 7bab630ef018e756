// rope_paged_kv_append on the CPU: positions are distributed over PyTorch's threads; each handles all heads of a position, so
// that computed angles are computed once.
#include <algorithm>
#include <cstring>
#include <vector>

#include "framework/parallel.h"
#include "paged_kv/paged_kv.h"
#include "rope/rope.h"
#include "rope_paged_kv_append/rope_paged_kv_append.h"

namespace warpwatch {
namespace {

template <class Element>
void append_position(const RopePagedKvParams& p, int64_t batch, int64_t row, const InPages& in, const float* cos,
                     const float* sin) {
  const auto from = [&](int tensor, int64_t head) {
    const int64_t* strides = p.rows.row_strides[tensor];
    return static_cast<const char*>(p.rows.rows[tensor]) + batch * strides[0] + head * strides[1] + row * strides[2];
  };
  const auto to = [&](int tensor, int64_t head) {
    return static_cast<char*>(p.rows.pages[tensor]) + in.of[tensor] + head * p.rows.page_strides[tensor][1];
  };
  for (int64_t head = 0; head < p.rows.heads; ++head) {
    turn_row(reinterpret_cast<const Element*>(from(0, head)), cos, sin, reinterpret_cast<Element*>(to(0, head)),
             p.head_dim / 2, p.interleaved);
    std::memcpy(to(1, head), from(1, head), p.rows.row_bytes);
  }
}

template <class Element>
void append(const RopePagedKvParams& p, const RopeTurns* turns) {
  const int half = p.head_dim / 2;
  const int64_t work = std::max<int64_t>(1, 2 * p.rows.heads * p.head_dim);
  const int64_t grain = std::max<int64_t>(1, 16384 / work);  // about 10 us of work per task
  parallel_for(0, p.rows.batch * p.rows.seq, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> cos(turns != nullptr ? half : 0), sin(cos.size());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % p.rows.seq;
      const int64_t batch = i / p.rows.seq;
      const int64_t position = p.rows.lengths[batch] - p.rows.seq + row;
      InPages in;
      if (!find_in_pages(p.rows, batch, position, in)) continue;
      if (turns != nullptr) {
        compute_rope_angles(*turns, position, half, cos.data(), sin.data());
        append_position<Element>(p, batch, row, in, cos.data(), sin.data());
      } else {
        append_position<Element>(p, batch, row, in, p.cos + position * p.cos_stride, p.sin + position * p.sin_stride);
      }
    }
  });
}

}  // namespace

void rope_paged_kv_append_cpu(const RopePagedKvParams& p, const RopeTurns* turns) {
  switch (p.dtype) {
    case Dtype::kFloat16: return append<Half>(p, turns);
    case Dtype::kBFloat16: return append<BFloat16>(p, turns);
    case Dtype::kFloat32: return append<float>(p, turns);
  }
}

}  // namespace warpwatch
