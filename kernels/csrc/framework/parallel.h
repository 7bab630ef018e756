// PyTorch's thread pool and 16-bit element types, without its other headers, which take longer to compile than a CPU kernel.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

namespace warpwatch {

using BFloat16 = torch::headeronly::BFloat16;
using Half = torch::headeronly::Half;

void parallel_for(int64_t begin, int64_t end, int64_t grain, void (*part)(int64_t, int64_t, void*), void* work);

// Calls work(first, last) for consecutive parts of [begin, end); if there are several, each has at least `grain` elements.
template <class Work>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Work& work) {
  const auto part = [](int64_t first, int64_t last, void* of) { (*static_cast<const Work*>(of))(first, last); };
  parallel_for(begin, end, grain, part, const_cast<void*>(static_cast<const void*>(&work)));
}

}  // namespace warpwatch
