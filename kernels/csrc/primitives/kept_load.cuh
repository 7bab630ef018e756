// Loads with an L2 evict_last hint (Hopper), and loads that the compiler must not reorder.
#pragma once

#include <cstdint>

namespace warpwatch {

#if __CUDA_ARCH__ == 900
// `instruction`: a load without its vector suffix; `how`: asm or asm volatile.
#define WARPWATCH_HINTED_LOAD(how, instruction, loaded, from, clobber)                                                        \
  uint64_t policy;                                                                                                            \
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n" : "=l"(policy));                                                \
  if constexpr (sizeof(loaded) == 16) {                                                                                       \
    how(instruction ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;\n"                                                    \
        : "=r"(loaded.words[0]), "=r"(loaded.words[1]), "=r"(loaded.words[2]), "=r"(loaded.words[3])                          \
        : "l"(from), "l"(policy) clobber);                                                                                    \
  } else if constexpr (sizeof(loaded) == 8) {                                                                                 \
    how(instruction ".L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;\n"                                                            \
        : "=r"(loaded.words[0]), "=r"(loaded.words[1])                                                                        \
        : "l"(from), "l"(policy) clobber);                                                                                    \
  } else {                                                                                                                    \
    how(instruction ".L2::cache_hint.u32 %0, [%1], %2;\n" : "=r"(loaded.words[0]) : "l"(from), "l"(policy) clobber);          \
  }

template <typename T>
union Loaded {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  T value;
  uint32_t words[sizeof(T) / 4];
};
#endif

// Read-only load with an L2 evict_last hint, for small tables that every layer of a model reads again: angles, positions,
// lengths, block tables. Otherwise a layer's weights would evict them before the next layer. At most a megabyte in total; 4, 8
// or 16 bytes that nothing writes while the kernel runs. Evidence: one H100, cold L2, us:
//                                    evict_last   plain
//   rope, 8 heads of 2048, tables       7.87      8.29
//   kv_append, 8 rows, positions        4.42      4.64
//   kv_append, 512 rows, positions      4.84      5.02
template <typename T>
__device__ __forceinline__ T load_kept(const T* from) {
#if __CUDA_ARCH__ == 900
  Loaded<T> loaded;
  WARPWATCH_HINTED_LOAD(asm, "ld.global.nc", loaded, from, )
  return loaded.value;
#else
  return __ldg(from);
#endif
}

// Load with an L2 evict_last hint, for data that a kernel reads once while it writes as much, as additions, norms and copies
// do: 4, 8 or 16 bytes. The kernel may write there later. Ordered before the stores and branches that follow.
// Evidence: one H200, us, cold L2 (evict_last lines released before each flush) / CUDA graph replays:
//                                         plain           evict_last       evict_first
//   rms_norm, fp32, 16384 rows of 16 KB   134.2 / 131.6   128.5 / 127.3    140.2 / 138.4
//   addition of 2^28 elements, fp32       734.5 / 734.3   726.8 / 728.1
//   copy of 134 MB                         67.7 /  66.2    66.6 /  65.1
//   copy of 16 MB                          13.0 /   6.9    12.3 /   6.8
// The hint displaces no more of others' data: a 24 MB buffer, read before and after such a copy, takes 7.5 to 8.1 (plain) and
// 7.6 to 7.7 (evict_last).
template <typename T>
__device__ __forceinline__ T load_streamed(const T* from) {
#if __CUDA_ARCH__ == 900
  Loaded<T> loaded;
#define WARPWATCH_MEMORY : "memory"
  WARPWATCH_HINTED_LOAD(asm volatile, "ld.global", loaded, from, WARPWATCH_MEMORY)
#undef WARPWATCH_MEMORY
  return loaded.value;
#else
  return *from;
#endif
}
#undef WARPWATCH_HINTED_LOAD

// As load_streamed, with zeros unless `there`. The instruction is predicated: given several loads in branches of their own,
// nvcc unpacks each before the next branch and so waits for one after the other. Evidence: recorded runs, H200, cold L2, us,
// rms_norm of 16384 rows of 4096 with a residual:
//                          bfloat16   float16
//   branches (044f373c)      179.1     129.1
//   predicated (2d612413)    128.5     128.7
__device__ __forceinline__ uint4 load_streamed(const uint4* from, bool there) {
  uint4 loaded = {};
#if __CUDA_ARCH__ == 900
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n" : "=l"(policy));
  asm volatile(
      "{\n.reg .pred there;\nsetp.ne.u32 there, %6, 0;\n"
      "@there ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;\n}\n"
      : "+r"(loaded.x), "+r"(loaded.y), "+r"(loaded.z), "+r"(loaded.w)
      : "l"(from), "l"(policy), "r"(static_cast<uint32_t>(there))
      : "memory");
#else
  if (there) loaded = *from;
#endif
  return loaded;
}

// Keeps the load of `value` ahead of what follows: nvcc sinks a load below a branch that waits for another load, if only one
// side needs it, and so waits twice. Evidence: one H200, kv_append of 64 x 8 rows, replayed, us: 1.34 with this, 1.45 without.
__device__ __forceinline__ void load_before(uint4& value) {
  asm volatile("" : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w));
}
__device__ __forceinline__ void load_before(unsigned int& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void load_before(unsigned short& value) { asm volatile("" : "+h"(value)); }

}  // namespace warpwatch
