// Shared by forward and backward on sm_80 and newer: the mma policy, and tile copies by cp.async.
#pragma once

#include <cstdint>

#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/mma.cuh"

namespace warpwatch {
namespace {

template <typename T>
struct Mma16x8x16 {
  using Element = T;
  static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16<Element>(c, a, b0, b1);
  }
};

// A thread's share of copying tiles of Rows rows from global memory to the swizzled tile at `tile`.
template <int Rows, int HeadDim, int Threads, typename Element>
struct TileCopies {
  using Share = RowShare<HeadDim>;
  static constexpr int kRowsAtOnce = Threads / Share::kAcross;
  static_assert(kRowsAtOnce % 8 == 0 && Rows % kRowsAtOnce == 0, "a thread keeps its place in the swizzle");
  const Element* source;
  uint32_t place;

  __device__ __forceinline__ TileCopies(const Element* first_row, int64_t row_stride, uint32_t tile)
      : source(first_row + threadIdx.x / Share::kAcross * row_stride + threadIdx.x % Share::kAcross * 8),
        place(tile + swizzled<2 * HeadDim>(threadIdx.x / Share::kAcross, threadIdx.x % Share::kAcross)) {}

  // Rows from live_rows on are filled with zeros; `further` is a byte offset from the tile to the destination.
  __device__ __forceinline__ void start(int64_t row_stride, int live_rows, uint32_t further = 0) const {
    const Element* from = source;
#pragma unroll
    for (int i = 0; i < Rows / kRowsAtOnce; ++i) {
      const bool live = int(threadIdx.x) / Share::kAcross + i * kRowsAtOnce < live_rows;
#pragma unroll
      for (int m = 0; m < Share::kEach; ++m) {
        cp_async_16(place + further + i * kRowsAtOnce * 2 * HeadDim + m * 16 * Share::kAcross, from + m * 8 * Share::kAcross, live);
      }
      from += kRowsAtOnce * row_stride;
    }
    cp_async_commit();
  }
  __device__ __forceinline__ void to_previous_tile(int64_t row_stride) { source -= Rows * row_stride; }
};

}  // namespace
}  // namespace warpwatch
