// Rotary position embedding on the CPU: positions are distributed over PyTorch's threads.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/parallel.h"
#include "rope/rope.h"

namespace warpwatch {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Rotates all heads of one position, so that computed angles are computed once.
template <class Element>
void turn_position(const RopeParams& p, int64_t batch, int64_t s, const float* cos, const float* sin) {
  for (int64_t head = 0; head < p.heads; ++head) {
    const RopeStrides& from = p.x_strides;
    const RopeStrides& to = p.out_strides;
    turn_row(static_cast<const Element*>(p.x) + batch * from.batch + head * from.head + s * from.seq, cos, sin,
             static_cast<Element*>(p.out) + batch * to.batch + head * to.head + s * to.seq, p.head_dim / 2,
             p.interleaved);
  }
}

template <class Element>
void turn(const RopeParams& p, const RopeTurns* turns) {
  const int half = p.head_dim / 2;
  const int64_t work = std::max<int64_t>(1, p.heads * p.head_dim);
  const int64_t grain = std::max<int64_t>(1, 16384 / work);  // about 10 us of work per task
  parallel_for(0, p.batch * p.seq, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> cos(p.positions != nullptr ? half : 0), sin(cos.size());
    for (int64_t row = begin; row < end; ++row) {
      const int64_t s = row % p.seq;
      const int64_t batch = row / p.seq;
      if (p.positions != nullptr) {
        compute_rope_angles(*turns, p.positions[batch] + s, half, cos.data(), sin.data());
        turn_position<Element>(p, batch, s, cos.data(), sin.data());
      } else {
        turn_position<Element>(p, batch, s, p.cos + s * p.cos_stride, p.sin + s * p.sin_stride);
      }
    }
  });
}

}  // namespace

void compute_rope_angles(const RopeTurns& turns, int64_t position, int half, float* cos, float* sin) {
  for (int i = 0; i < half; ++i) {
    const auto turned = static_cast<int64_t>(static_cast<uint64_t>(position) * turns.of[i]);  // signed: -1/2 to 1/2 turn
    const double angle = std::ldexp(static_cast<double>(turned), -63) * kPi;
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

RopeTurns rope_turns(double base, int head_dim) {
  RopeTurns turns{};
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double frequency = std::pow(base, -static_cast<double>(i) / half);
    turns.of[i] = static_cast<uint64_t>(std::ldexp(frequency / (2.0 * kPi), 64) + 0.5);
  }
  return turns;
}

void rope_cpu(const RopeParams& p, const RopeTurns* turns) {
  if (p.heads == 0 || p.head_dim == 0) return;
  switch (p.dtype) {
    case Dtype::kFloat16: return turn<Half>(p, turns);
    case Dtype::kBFloat16: return turn<BFloat16>(p, turns);
    case Dtype::kFloat32: return turn<float>(p, turns);
  }
}

}  // namespace warpwatch
