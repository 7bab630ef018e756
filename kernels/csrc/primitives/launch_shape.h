// A kernel's launch configuration as a type: threads and dynamic shared memory per block. A kernel with dynamic shared memory
// takes it as template argument and so carries it in its mangled name: tools can then derive the occupancy from compiled code,
// on a machine without a GPU. A kernel without dynamic shared memory needs only __launch_bounds__.
#pragma once

namespace warpwatch {

template <int Threads, int DynamicSharedBytes>
struct LaunchShape {
  static constexpr int kThreads = Threads;
  static constexpr int kDynamicSharedBytes = DynamicSharedBytes;
};

}  // namespace warpwatch
