// ldmatrix: a warp loads four 8 x 8 matrices of 16-bit elements from shared memory into registers; sm_75 and newer.
//
// Lane l passes the address of one 16-byte row: row l % 8 of matrix l / 8. Afterwards, with g = l / 4 and t = l % 4, register m
// of lane l holds of matrix m
//   ldmatrix_x4        row g, columns 2t and 2t + 1
//   ldmatrix_x4_trans  rows 2t and 2t + 1, column g
// with the lower index in the lower half.
//
// One phase reads the eight rows of one matrix. It has no bank conflicts if their addresses differ modulo 128 bytes, which
// swizzle.cuh arranges.
#pragma once

#include <cstdint>

namespace warpwatch {

// The 32-bit shared-window address, as ldmatrix and cp.async take it.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace warpwatch
