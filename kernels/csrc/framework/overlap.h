// Whether two tensors have a byte in common, whatever their strides: k and v may lie row by row in one buffer, yet apart.
#pragma once

#include <cstdint>

#include "framework/torch_stable.h"

namespace warpwatch {

// From a tensor's first byte to behind its last, what lies between its elements too.
struct Extent {
  int64_t begin, end;

  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};

Extent extent_of(const Tensor& tensor);  // begin == end of one without elements

// Of two with elements, whose extents meet. True also for layouts so irregular that telling would take long.
bool share_memory(const Tensor& first, const Tensor& second);

}  // namespace warpwatch
