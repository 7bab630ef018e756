// cp.async (cp_async.cuh) whose lines L2 treats as a policy says; sm_80 and newer.
#pragma once

#include <cstdint>

namespace warpwatch {

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

}  // namespace warpwatch
