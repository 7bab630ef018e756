// What a block of a kernel is launched with, as a type. A kernel that uses dynamic shared memory takes it as a template
// argument, and so carries it in its mangled name: the compiled code tells how many blocks fit on a multiprocessor, on a
// machine without a GPU. A kernel without dynamic shared memory needs no more than __launch_bounds__.
#pragma once

namespace warpwatch {

template <int Threads, int DynamicSharedBytes>
struct LaunchShape {
  static constexpr int kThreads = Threads;
  static constexpr int kDynamicSharedBytes = DynamicSharedBytes;
};

}  // namespace warpwatch
