// cp.async: copies from global to shared memory that pass through no register; sm_80 and newer.
//
// A thread groups its copies with cp_async_commit and waits with cp_async_wait<n> until at most its n youngest groups
// are under way. The wait covers the thread's own copies only: a __syncthreads() must follow before others read them.
#pragma once

#include <cstdint>

namespace warpwatch {

// cp.async with an L2 cache policy.

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}

// As without a policy.
__device__ __forceinline__ uint64_t evict_unchanged_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}

// 16 bytes, past L1; both addresses 16-byte aligned. With `live` false nothing is read and zeros are written.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool live, uint64_t policy) {
  const int bytes = live ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;\n" ::"r"(shared), "l"(global),
               "r"(bytes), "l"(policy)
               : "memory");
}

// cp.async with an L2 evict_first hint, for streamed data that is not read again: a KV cache does not evict (and force the
// write-back of) what the kernels before it wrote.

// 4, 8 or 16 bytes on boundaries of as many. With `live` false nothing is read and zeros are written.
template <int Bytes>
__device__ __forceinline__ void cp_async_once(uint32_t shared, const void* global, bool live) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "what cp.async copies");
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  const int bytes = live ? Bytes : 0;
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;\n" ::"r"(shared), "l"(global),
                 "r"(bytes), "l"(policy)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global.L2::cache_hint.L2::128B [%0], [%1], %2, %3, %4;\n" ::"r"(shared), "l"(global),
                 "n"(Bytes), "r"(bytes), "l"(policy)
                 : "memory");
  }
}

// 16 bytes, past L1; both addresses 16-byte aligned. With `live` false nothing is read and zeros are written.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool live) {
  const int bytes = live ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// 4, 8 or 16 bytes on boundaries of as many; likewise. Fewer than 16 pass through L1, for there is no other way.
template <int Bytes>
__device__ __forceinline__ void cp_async(uint32_t shared, const void* global, bool live) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "what cp.async copies");
  if constexpr (Bytes == 16) {
    cp_async_16(shared, global, live);
  } else {
    const int bytes = live ? Bytes : 0;
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;\n" ::"r"(shared), "l"(global), "n"(Bytes),
                 "r"(bytes)
                 : "memory");
  }
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

}  // namespace warpwatch
