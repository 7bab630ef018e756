// cp.async (cp_async.cuh) of bytes that nobody reads again soon: in L2 they make room first, before what others have left
// there. So a cache of keys and values streams by without driving out, and having written back, what kernels before it wrote.
#pragma once

#include <cstdint>

namespace warpwatch {

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

}  // namespace warpwatch
