// wgmma: a warpgroup (four warps) multiplies matrices in shared memory, asynchronously; Hopper only (sm_90a).
//
// C (64 x N) += A (64 x 32 bytes of k) B (N x 32 bytes of k), both K-major, as slabs of 128-byte rows swizzled by swizzle.cuh.
// That is the hardware's 128-byte swizzle if a slab starts on a multiple of 1024.
// Warp w of the four holds rows 16 w to 16 w + 15 of C; c[j] are columns 8 j to 8 j + 7 in an mma's C layout (mma.cuh). 16-bit
// A operands come from registers, each warp's 16 rows in an mma's A layout.
//
// Order of calls: wgmma_fence() once the registers and the shared memory are ready; any number of wgmmas; wgmma_commit();
// wgmma_wait<n>() until at most the n newest commits are in flight. Only then may C be read and the memory or registers of A
// and B be overwritten. wgmma reads shared memory through the async proxy, as TMA writes it (tma_ring.cuh); other writers need
// a fence.proxy.async.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace warpwatch {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}

// For accumulators, and for A operands in registers, after a wait: keeps accesses to them behind wgmma_wait. The compiler does
// not know that the asynchronous wgmma still uses them.
__device__ __forceinline__ void warpgroup_fence_operand(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ __forceinline__ void warpgroup_fence_operand(int& value) { asm volatile("" : "+r"(value)::"memory"); }
__device__ __forceinline__ void warpgroup_fence_operand(uint32_t& value) { asm volatile("" : "+r"(value)::"memory"); }
template <typename Sum, int kTiles>
__device__ __forceinline__ void warpgroup_fence_operand(Sum (&c)[kTiles][4]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) warpgroup_fence_operand(c[j][i]);
  }
}

// Descriptor of rows of 128 bytes from this shared address on: bits 0-13 address / 16; bits 32-45 the stride between groups of
// eight rows, 1024 bytes / 16; bits 62-63 the 128-byte swizzle. Adding 2 advances by 32 bytes of k.
__device__ __forceinline__ uint64_t wgmma_rows(uint32_t address) {
  return uint64_t{1} << 62 | uint64_t{64} << 32 | uint64_t{1} << 16 | (address & 0x3ffff) >> 4;
}

// asm operands for the registers of C, by the number of tiles of 8 columns, from tile j on; and their names.
#define WARPWATCH_C1(io, c, j) io(c[j][0]), io(c[j][1]), io(c[j][2]), io(c[j][3])
#define WARPWATCH_C2(io, c, j) WARPWATCH_C1(io, c, j), WARPWATCH_C1(io, c, j + 1)
#define WARPWATCH_C4(io, c, j) WARPWATCH_C2(io, c, j), WARPWATCH_C2(io, c, j + 2)
#define WARPWATCH_C8(io, c, j) WARPWATCH_C4(io, c, j), WARPWATCH_C4(io, c, j + 4)
#define WARPWATCH_C12(io, c, j) WARPWATCH_C8(io, c, j), WARPWATCH_C4(io, c, j + 8)
#define WARPWATCH_C16(io, c, j) WARPWATCH_C8(io, c, j), WARPWATCH_C8(io, c, j + 8)
#define WARPWATCH_C24(io, c, j) WARPWATCH_C16(io, c, j), WARPWATCH_C8(io, c, j + 16)
#define WARPWATCH_C32(io, c, j) WARPWATCH_C16(io, c, j), WARPWATCH_C16(io, c, j + 16)
#define WARPWATCH_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WARPWATCH_NAMES_16 \
  WARPWATCH_NAMES_8 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define WARPWATCH_NAMES_32 \
  WARPWATCH_NAMES_16 ", " "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WARPWATCH_NAMES_48 \
  WARPWATCH_NAMES_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define WARPWATCH_NAMES_64 \
  WARPWATCH_NAMES_48 ", " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WARPWATCH_NAMES_96 \
  WARPWATCH_NAMES_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" ", " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WARPWATCH_NAMES_128 \
  WARPWATCH_NAMES_96 ", " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" ", " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define WARPWATCH_A(a) "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

// Issues `instruction` with C's `count` registers. `sources`: the operand numbers of A and B, and what follows them; `scale_d`,
// the last operand: 0 overwrites C instead of accumulating.
#define WARPWATCH_WGMMA(instruction, count, operands, sources, scale_d, ...)                         \
  asm volatile("{\n.reg .pred add;\nsetp.ne.u32 add, " scale_d ", 0;\n" instruction                  \
               " {" WARPWATCH_NAMES_##count "}, " sources ";\n}\n"                                 \
               : operands                                                                            \
               : __VA_ARGS__)

struct Int8Wgmma {
  using Sum = int;
  static __device__ __forceinline__ void run(int (&c)[8][4], uint64_t a, uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8", 32, WARPWATCH_C8("+r", c, 0),
                    "%32, %33, add", "%34", "l"(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(int (&c)[16][4], uint64_t a, uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8", 64, WARPWATCH_C16("+r", c, 0),
                    "%64, %65, add", "%66", "l"(a), "l"(b), "r"(scale_d));
  }
};

template <typename Element>
struct FloatWgmma;

template <>
struct FloatWgmma<__half> {
  using Sum = float;
  static __device__ __forceinline__ void run(float (&c)[2][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", 8, WARPWATCH_C2("+f", c, 0),
                    "{%8, %9, %10, %11}, %12, add, 1, 1, 0", "%13", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[4][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16", 16, WARPWATCH_C4("+f", c, 0),
                    "{%16, %17, %18, %19}, %20, add, 1, 1, 0", "%21", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", 32, WARPWATCH_C8("+f", c, 0),
                    "{%32, %33, %34, %35}, %36, add, 1, 1, 0", "%37", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[16][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", 64, WARPWATCH_C16("+f", c, 0),
                    "{%64, %65, %66, %67}, %68, add, 1, 1, 0", "%69", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[32][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", 128, WARPWATCH_C32("+f", c, 0),
                    "{%128, %129, %130, %131}, %132, add, 1, 1, 0", "%133", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
};

template <>
struct FloatWgmma<__nv_bfloat16> {
  using Sum = float;
  static __device__ __forceinline__ void run(float (&c)[2][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16", 8, WARPWATCH_C2("+f", c, 0),
                    "{%8, %9, %10, %11}, %12, add, 1, 1, 0", "%13", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[4][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16", 16, WARPWATCH_C4("+f", c, 0),
                    "{%16, %17, %18, %19}, %20, add, 1, 1, 0", "%21", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", 32, WARPWATCH_C8("+f", c, 0),
                    "{%32, %33, %34, %35}, %36, add, 1, 1, 0", "%37", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[16][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", 64, WARPWATCH_C16("+f", c, 0),
                    "{%64, %65, %66, %67}, %68, add, 1, 1, 0", "%69", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
  static __device__ __forceinline__ void run(float (&c)[32][4], const uint32_t (&a)[4], uint64_t b, int scale_d = 1) {
    WARPWATCH_WGMMA("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 128, WARPWATCH_C32("+f", c, 0),
                    "{%128, %129, %130, %131}, %132, add, 1, 1, 0", "%133", WARPWATCH_A(a), "l"(b), "r"(scale_d));
  }
};

#undef WARPWATCH_WGMMA
#undef WARPWATCH_A
}  // namespace warpwatch
