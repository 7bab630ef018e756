// Rotary position embedding on the CPU: one row at a time, rows shared among PyTorch's threads.
#include <algorithm>

#include "framework/torch_stable.h"
#include "rope/rope.h"

namespace warpwatch {
namespace {

// One row: position s of one head. Computes in fp32.
template <class Element>
void turn_row(const Element* x, const float* cos, const float* sin, Element* out, int half, bool interleaved) {
  const int step = interleaved ? 2 : 1;        // from one pair's first element to the next pair's
  const int partner = interleaved ? 1 : half;  // from a pair's first element to its second
  for (int i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = x[i * step + partner];
    out[i * step] = static_cast<Element>(a * cos[i] - b * sin[i]);
    out[i * step + partner] = static_cast<Element>(b * cos[i] + a * sin[i]);
  }
}

template <class Element>
void turn(const RopeParams& p) {
  const int64_t rows = p.batch * p.heads * p.seq;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max(1, p.head_dim));  // some 10 us of work per thread
  torch::stable::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t s = row % p.seq;
      const int64_t head = row / p.seq % p.heads;
      const int64_t batch = row / p.seq / p.heads;
      const Element* x =
          static_cast<const Element*>(p.x) + batch * p.batch_stride + head * p.head_stride + s * p.seq_stride;
      Element* out = static_cast<Element*>(p.out) + row * p.head_dim;
      turn_row(x, p.cos + s * p.cos_stride, p.sin + s * p.sin_stride, out, p.head_dim / 2, p.interleaved);
    }
  });
}

}  // namespace

void rope_cpu(const RopeParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return turn<torch::headeronly::Half>(p);
    case Dtype::kBFloat16: return turn<torch::headeronly::BFloat16>(p);
    case Dtype::kFloat32: return turn<float>(p);
  }
}

}  // namespace warpwatch
