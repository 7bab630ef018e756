// cp.async: copies from global to shared memory that bypass registers; sm_80 and newer.
//
// A thread groups its copies with cp_async_commit and waits with cp_async_wait<n> until at most its n newest groups are in
// flight. The wait covers the thread's own copies only: a __syncthreads() must follow before other threads read them.
#pragma once

#include <cstdint>

namespace warpwatch {

// cp.async with an L2 cache policy.

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}

// The policy that behaves like no policy.
__device__ __forceinline__ uint64_t evict_unchanged_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;\n" : "=l"(policy));
  return policy;
}

// Copies 16 bytes, bypassing L1; both addresses are 16-byte aligned. Predicated: unless
// `live`, nothing is read and zeros are written.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool live, uint64_t policy) {
  const int bytes = live ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;\n" ::"r"(shared), "l"(global),
               "r"(bytes), "l"(policy)
               : "memory");
}

// cp.async with an L2 evict_first hint, for streamed data that is not read again: a KV cache then does not evict (and force the
// write-back of) what earlier kernels wrote.

// Copies 4, 8 or 16 bytes, aligned to as many. Unless `live`, nothing is read and zeros are written.
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

// Copies 16 bytes, bypassing L1; both addresses are 16-byte aligned. Unless `live`, nothing is read and zeros are written.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global, bool live) {
  const int bytes = live ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// Copies 4, 8 or 16 bytes, aligned to as many; likewise. Fewer than 16 bytes go through L1: cp.async.cg has 16 bytes only.
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
