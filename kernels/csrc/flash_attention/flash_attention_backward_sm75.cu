// flash_attention_backward for sm_75: mma m16n8k8 on fp16. No cp.async, so tiles pass through registers.
//
// Three kernels, in stream order: delta, dq (a block owns queries), then dk and dv (a block owns keys).
#include <cuda_runtime.h>

#include <cuda_fp16.h>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_backward_tiles.h"
#include "flash_attention/flash_attention_backward_warp.cuh"

namespace warpwatch {
namespace {

// The interface of TileCopies (flash_attention_tile_copies.cuh) without cp.async: start() returns once the rows are stored.
template <int Rows, int HeadDim, int Threads>
struct TileLoads {
  using Share = RowShare<HeadDim>;
  static constexpr int kRowsAtOnce = Threads / Share::kAcross;
  static constexpr int kChunks = Rows / kRowsAtOnce * Share::kEach;  // of 16 bytes, per thread
  static constexpr int kInFlight = kChunks % 4 == 0 ? 4 : kChunks % 3 == 0 ? 3 : kChunks;  // more would spill the gradients
  static_assert(Rows % kRowsAtOnce == 0 && kChunks % kInFlight == 0, "every thread carries the same number of chunks");
  const __half* source;  // the tile's first row
  uint32_t tile;

  __device__ __forceinline__ TileLoads(const __half* first_row, int64_t row_stride, uint32_t to)
      : source(first_row), tile(to) {}

  // Rows from live_rows on are filled with zeros.
  __device__ __forceinline__ void start(int64_t row_stride, int live_rows) const {
#pragma unroll
    for (int first = 0; first < kChunks; first += kInFlight) {
      uint4 held[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int row = row_of(first + i);
        held[i] = make_uint4(0, 0, 0, 0);
        if (row < live_rows) held[i] = *reinterpret_cast<const uint4*>(source + row * row_stride + 8 * chunk_of(first + i));
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const uint32_t to = tile + swizzled<2 * HeadDim>(row_of(first + i), chunk_of(first + i));
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(held[i].x), "r"(held[i].y),
                     "r"(held[i].z), "r"(held[i].w)
                     : "memory");
      }
    }
  }
  __device__ __forceinline__ void to_previous_tile(int64_t row_stride) { source -= Rows * row_stride; }

  static __device__ __forceinline__ int row_of(int i) {
    return int(threadIdx.x) / Share::kAcross + i / Share::kEach * kRowsAtOnce;
  }
  static __device__ __forceinline__ int chunk_of(int i) {
    return threadIdx.x % Share::kAcross + i % Share::kEach * Share::kAcross;
  }
};

struct FamilySm75 {
  using Element = __half;
  struct Mma {
    using Element = __half;
    static __device__ __forceinline__ void run(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
      mma_m16n8k8(c, a[0], a[1], b0);
      mma_m16n8k8(c, a[2], a[3], b1);
    }
  };
  template <int Rows, int HeadDim, int Threads>
  using Copies = TileLoads<Rows, HeadDim, Threads>;
  static __device__ __forceinline__ void wait() {}
};

template <int HeadDim, int Warps, int Keys, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dq_sm75_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule) {
  QueryGradient<FamilySm75, HeadDim, Warps, Keys>::run(p, schedule);
}

template <int HeadDim, int Warps, int Queries, KeyGradients Which, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dkdv_sm75_kernel(const FlashAttentionBackwardParams p) {
  KeyGradient<FamilySm75, HeadDim, Warps, Queries, Which>::run(p);
}

template <int HeadDim>
cudaError_t launch_dq(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  constexpr FlashAttentionBackwardTile tile = flash_attention_dq_sm75_tile(HeadDim);
  using Q = QueryGradient<FamilySm75, HeadDim, tile.warps, tile.columns>;
  using Shape = typename Q::Shape;
  return launch_query_gradient<Shape>(
      flash_attention_dq_sm75_kernel<HeadDim, tile.warps, tile.columns, Shape>, p, Q::kQueries,
      sizeof(__half), stream);
}

template <int HeadDim, KeyGradients Which>
cudaError_t launch_dkdv(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  constexpr FlashAttentionBackwardTile tile = flash_attention_dkdv_sm75_tile(HeadDim);
  using K = KeyGradient<FamilySm75, HeadDim, tile.warps, tile.columns, Which>;
  using Shape = typename K::Shape;
  return launch_key_gradient<Shape>(
      flash_attention_dkdv_sm75_kernel<HeadDim, tile.warps, tile.columns, Which, Shape>, p, K::kKeys,
      stream);
}

template <int HeadDim>
cudaError_t launch(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  if (cudaError_t error = launch_delta<__half>(p, stream); error != cudaSuccess) return error;
  if (cudaError_t error = launch_dq<HeadDim>(p, stream); error != cudaSuccess) return error;
  if constexpr (HeadDim <= 128) {
    return launch_dkdv<HeadDim, KeyGradients::kBoth>(p, stream);
  } else {
    cudaError_t error = launch_dkdv<HeadDim, KeyGradients::kKeys>(p, stream);
    return error != cudaSuccess ? error : launch_dkdv<HeadDim, KeyGradients::kValues>(p, stream);
  }
}

}  // namespace

cudaError_t flash_attention_backward_sm75(const FlashAttentionBackwardParams& given, cudaStream_t stream) {
  const FlashAttentionBackwardParams p = with_window(given);
  if (p.forward.dtype != Dtype::kFloat16) return cudaErrorInvalidValue;
  switch (p.forward.head_dim) {
    case 64: return launch<64>(p, stream);
    case 96: return launch<96>(p, stream);
    case 128: return launch<128>(p, stream);
    case 256: return launch<256>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
