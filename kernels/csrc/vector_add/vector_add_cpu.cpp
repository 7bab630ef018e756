// Addition on the CPU, distributed over PyTorch's threads.
#include "framework/parallel.h"
#include "vector_add/vector_add.h"

namespace warpwatch {
namespace {

constexpr int64_t kGrain = 32768;  // about 10 us of work per task

template <class Element>
void add(const VectorAddParams& p) {
  const Element* a = static_cast<const Element*>(p.a);
  const Element* b = static_cast<const Element*>(p.b);
  Element* out = static_cast<Element*>(p.out);
  parallel_for(0, p.count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<Element>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    }
  });
}

}  // namespace

void vector_add_cpu(const VectorAddParams& p) {
  switch (p.dtype) {
    case Dtype::kFloat16: return add<Half>(p);
    case Dtype::kBFloat16: return add<BFloat16>(p);
    case Dtype::kFloat32: return add<float>(p);
  }
}

}  // namespace warpwatch
