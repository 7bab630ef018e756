// Sums over the threads of a row, in a fixed order: warp shuffles, then a tree over the warps' sums.
#pragma once

namespace warpwatch {

// Sum over kLanes neighbouring lanes (a power of two). Every lane gets the same bits, as a + b = b + a.
template <int kLanes>
__device__ inline float lanes_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

// Sum over kThreads threads: neighbouring lanes of a warp, or a whole block. `slots` has one float per warp, which no thread
// may still be reading. All threads of the block must call it. kShort: each thread adds all warps' sums itself, in the same
// tree and so to the same bits; that is faster than shuffles, and takes more registers.
template <int kThreads, bool kShort = false>
__device__ inline float threads_sum(float value, float* slots) {
  if constexpr (kThreads <= 32) {
    return lanes_sum<kThreads>(value);
  } else {
    constexpr int kWarps = kThreads / 32;
    static_assert(kThreads % 32 == 0 && kWarps <= 32);
    const int lane = threadIdx.x % 32;
    value = lanes_sum<32>(value);
    if (lane == 0) slots[threadIdx.x / 32] = value;
    __syncthreads();
    if constexpr (kShort) {
      static_assert((kWarps & (kWarps - 1)) == 0);
      float sums[kWarps];
#pragma unroll
      for (int i = 0; i < kWarps; ++i) sums[i] = slots[i];
#pragma unroll
      for (int distance = kWarps / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i < distance; ++i) sums[i] += sums[i + distance];
      }
      return sums[0];
    } else {
      return lanes_sum<32>(lane < kWarps ? slots[lane] : 0.0f);
    }
  }
}

}  // namespace warpwatch
