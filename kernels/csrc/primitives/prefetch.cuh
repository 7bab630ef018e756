// Asks the L2 for what is read once at the end of a kernel, while its beginning waits for other bytes anyway.
#pragma once

namespace warpwatch {

// Lines of 128 bytes, one a thread: all of `count` elements where a block has a thread to each line.
template <typename Element>
__device__ __forceinline__ void prefetch_to_l2(const Element* first, int count) {
  const int at = static_cast<int>(threadIdx.x) * 128 / static_cast<int>(sizeof(Element));
  if (at < count) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(first + at));
}

}  // namespace warpwatch
