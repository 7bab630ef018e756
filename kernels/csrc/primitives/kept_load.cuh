// Loads with an L2 evict_last hint (Hopper) of what every layer of a model reads again: tables of angles, positions, lengths,
// block tables. A layer's weights would evict them before the next layer. Kilobytes, a megabyte at most.
#pragma once

#include <cstdint>

namespace warpwatch {

// 4, 8 or 16 bytes that nothing writes while the kernel runs. Evidence: one H100, behind an L2 flush, us: rope of 8 heads of
// 2048 rows, tables so 7.87, plainly 8.29; kv_append of 8 and of 512 rows, positions so 4.42 and 4.84, plainly 4.64 and 5.02.
template <typename T>
__device__ __forceinline__ T load_kept(const T* from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#if __CUDA_ARCH__ == 900
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n" : "=l"(policy));
  union {
    T value;
    uint32_t words[sizeof(T) / 4];
  } loaded;
  if constexpr (sizeof(T) == 16) {
    asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;\n"
        : "=r"(loaded.words[0]), "=r"(loaded.words[1]), "=r"(loaded.words[2]), "=r"(loaded.words[3])
        : "l"(from), "l"(policy));
  } else if constexpr (sizeof(T) == 8) {
    asm("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;\n"
        : "=r"(loaded.words[0]), "=r"(loaded.words[1])
        : "l"(from), "l"(policy));
  } else {
    asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;\n" : "=r"(loaded.words[0]) : "l"(from), "l"(policy));
  }
  return loaded.value;
#else
  return __ldg(from);
#endif
}

}  // namespace warpwatch
