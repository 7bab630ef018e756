// Fuses the rotary embedding of new keys with the append to pages, on every GPU: each row is read and written once. A thread
// holds two pieces of a key, `head_dim / 2` apart, and the same two of its value: 16 bytes each, or less if there are few rows.
#include <cuda_runtime.h>

#include "paged_kv/paged_kv.h"
#include "paged_kv/paged_kv_rows.cuh"
#include "rope/rope_angles.cuh"
#include "rope_paged_kv_append/rope_paged_kv_append.h"

namespace warpwatch {

// Tile sizes: the constants to edit when tuning these kernels.

// Threads per block; each handles one head's pieces. Evidence: one H200, 268 MB, us: one head per thread 74.1; two heads with
// one load of cos and sin 75.4, four 74.7; two in blocks of 256 threads 75.8. Values are moved by the same threads, so the
// angles' L2 traffic per byte is half of rope's.
constexpr int kRopePagedKvThreads = 128;

constexpr int kRopePagedKvSmallElements = 2;  // per piece, if there are few rows

namespace {

template <class Element>
__device__ __forceinline__ Element* at(void* base, int64_t bytes) {
  return reinterpret_cast<Element*>(static_cast<char*>(base) + bytes);
}

template <class Element, class Angles, bool kInterleaved>
__global__ void __launch_bounds__(kRopePagedKvThreads)
    rope_paged_kv_append_kernel(const PagedKvParams p, const PagedKvCover cover, const int half,
                                const __grid_constant__ Angles angles) {
  using P = Piece<Element>;
  angles.prepare(half);
  PagedKvPlace place;
  if (!find_place(cover, place)) return;
  for (int column = place.lane * P::kElements; column < half; column += cover.lanes.divisor() * P::kElements) {
    // Loaded before their destination is known: one wait covers them and the position look-up.
    P first[2], second[2];
#pragma unroll
    for (int tensor = 0; tensor < 2; ++tensor) {
      const int64_t* strides = p.row_strides[tensor];
      const Element* row = at<const Element>(
          p.rows[tensor], place.batch * strides[0] + place.head * strides[1] + place.row * strides[2]);
      first[tensor].load_once(row + column);
      second[tensor].load_once(row + column + half);
    }
    const int64_t position = p.lengths[place.batch] - p.seq + place.row;
    InPages in;
    if (!find_in_pages(p, place.batch, position, in)) return;

    constexpr int kAngles = kRopeAngles<P, kInterleaved>;
    float cos[2][kAngles], sin[2][kAngles];  // [1]: the second piece's angles, if it has its own
    const int angle = kInterleaved ? column / 2 : column;
    angles.at(position, angle, cos[0], sin[0]);
    if constexpr (kInterleaved) angles.at(position, half / 2 + angle, cos[1], sin[1]);
    turn_pieces<kInterleaved>(first[0], second[0], cos, sin);

#pragma unroll
    for (int tensor = 0; tensor < 2; ++tensor) {  // plain stores: attention reads the newest rows next, from L2
      Element* page_row = at<Element>(p.pages[tensor], in.of[tensor] + place.head * p.page_strides[tensor][1]);
      first[tensor].store(page_row + column);
      second[tensor].store(page_row + column + half);
    }
  }
}

// For few rows: short pieces, so that more threads share them, and fewer parameters.
template <class Element, class Angles, bool kInterleaved>
__global__ void __launch_bounds__(kRopePagedKvThreads)
    rope_paged_kv_append_small(const PagedKvRows p, const __grid_constant__ Angles angles) {
  using P = Piece<Element, kRopePagedKvSmallElements>;
  constexpr int kOf16Bytes = 16 / sizeof(Element), kAngles = kRopeAngles<P, kInterleaved>;
  const int half = P::kElements << p.lanes_shift;
  angles.prepare(half);
  const uint32_t thread = blockIdx.x * kRopePagedKvThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const PagedKvRow row(p, thread);
  const int column = static_cast<int>(row.lane) * P::kElements;
  P first[2], second[2];
#pragma unroll
  for (int tensor = 0; tensor < 2; ++tensor) {
    const Element* from = static_cast<const Element*>(p.rows[tensor]) + row.offset * kOf16Bytes + column;
    first[tensor].load_once(from);
    second[tensor].load_once(from + half);
  }
  const int64_t position = row.position(p);
  if (!row.has_page(p, position)) return;
  const int64_t to = row.page_offset(p, position) * kOf16Bytes + column;  // overlaps the angles' loads
  float cos[2][kAngles], sin[2][kAngles];
  const int angle = kInterleaved ? column / 2 : column;
  angles.at(position, angle, cos[0], sin[0]);
  if constexpr (kInterleaved) angles.at(position, half / 2 + angle, cos[1], sin[1]);
  turn_pieces<kInterleaved>(first[0], second[0], cos, sin);
#pragma unroll
  for (int tensor = 0; tensor < 2; ++tensor) {
    Element* page_row = static_cast<Element*>(p.pages[tensor]) + to;
    first[tensor].store(page_row);
    second[tensor].store(page_row + half);
  }
}

template <class Element, class Angles>
cudaError_t launch_small(const PagedKvRows& rows, const Angles& angles, bool interleaved, cudaStream_t stream) {
  const auto kernel = interleaved ? rope_paged_kv_append_small<Element, Angles, true>
                                  : rope_paged_kv_append_small<Element, Angles, false>;
  kernel<<<(rows.threads - 1) / kRopePagedKvThreads + 1, kRopePagedKvThreads, 0, stream>>>(rows, angles);
  return cudaGetLastError();
}

template <class Element, class Angles>
cudaError_t launch(const RopePagedKvParams& p, const Angles& angles, cudaStream_t stream) {
  const int half = p.head_dim / 2;
  const int pieces = half / Piece<Element>::kElements;
  if (p.head_dim != 2 * pieces * Piece<Element>::kElements) return cudaErrorInvalidValue;
  PagedKvRows rows;
  if (rope_is_small(p.rows.batch, p.rows.heads, p.rows.seq, pieces) && has_short_strides(angles) &&
      describe_rows(p.rows, half / kRopePagedKvSmallElements, rows)) {
    return launch_small<Element>(rows, short_strides<true>(angles), p.interleaved, stream);
  }
  PagedKvCover cover;
  unsigned blocks;
  const cudaError_t error = cover_rows(p.rows, pieces, kRopePagedKvThreads, cover, blocks);
  if (error != cudaSuccess) return error;
  const auto kernel = p.interleaved ? rope_paged_kv_append_kernel<Element, Angles, true>
                                    : rope_paged_kv_append_kernel<Element, Angles, false>;
  kernel<<<blocks, kRopePagedKvThreads, 0, stream>>>(p.rows, cover, half, angles);
  return cudaGetLastError();
}

template <class Angles>
cudaError_t launch_of_dtype(const RopePagedKvParams& p, const Angles& angles, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, angles, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, angles, stream);
    case Dtype::kFloat32: return launch<float>(p, angles, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t rope_paged_kv_append_cuda(const RopePagedKvParams& p, const RopeTurns* turns, cudaStream_t stream) {
  if (p.rows.batch == 0 || p.rows.heads == 0 || p.rows.seq == 0 || p.head_dim == 0) return cudaSuccess;
  if (turns == nullptr) {
    return launch_of_dtype(p, TableAngles<int64_t>{p.cos, p.sin, p.cos_stride, p.sin_stride}, stream);
  }
  if (p.head_dim / 2 > kRopeMostFrequencies) return cudaErrorInvalidValue;
  return launch_of_dtype(p, ComputedAngles{nullptr, *turns}, stream);
}

}  // namespace warpwatch
