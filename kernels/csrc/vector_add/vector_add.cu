// Addition on every GPU: 16-byte pieces where all three vectors begin on a multiple of 16 bytes, else element by element.
#include "primitives/piece.cuh"

#include "vector_add/vector_add.h"

namespace warpwatch {

// How the vectors are cut for the GPU. The one file a tuner edits.

struct VectorAddTile {
  int threads;  // of a block
  int pieces;   // of 16 bytes of each vector that a thread adds, all loaded before the first is used
};

// One of each vector: 32 bytes in flight a thread, 64 KB on a full multiprocessor of 2048 threads, where some 26 KB cover
// DRAM's latency on an H200. There 1 to 4 pieces and 128 to 1024 threads are within 1.5 % of each other, with plain
// loads: 2^28 elements in fp32 take 734 us, 727 with evict_last loads (kept_load.cuh) and 835 with evict-first loads and stores.
constexpr VectorAddTile kVectorAddTile = {256, 1};

namespace {

constexpr int kThreads = kVectorAddTile.threads;
constexpr int kPieces = kVectorAddTile.pieces;

template <class Element>
__device__ void add_one(const VectorAddParams& p, int64_t i) {
  const float a = as_float(static_cast<const Element*>(p.a)[i]);
  const float b = as_float(static_cast<const Element*>(p.b)[i]);
  from_float(a + b, static_cast<Element*>(p.out)[i]);
}

// A block adds kPieces * kThreads neighbouring pieces. The elements behind the last whole piece are the first block's,
// one a thread.
template <class Element>
__global__ __launch_bounds__(kThreads) void vector_add_pieces(const VectorAddParams p) {
  using P = Piece<Element>;
  const int64_t pieces = static_cast<uint64_t>(p.count) / P::kElements;  // a shift
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kPieces) + threadIdx.x;
  P a[kPieces], b[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int64_t piece = first + i * kThreads;
    if (piece < pieces) {
      a[i].load_streamed(static_cast<const Element*>(p.a) + piece * P::kElements);
      b[i].load_streamed(static_cast<const Element*>(p.b) + piece * P::kElements);
    }
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int64_t piece = first + i * kThreads;
    if (piece >= pieces) break;
#pragma unroll
    for (int j = 0; j < P::kPairs; ++j) {
      const float2 x = widen(a[i].pairs[j]);
      const float2 y = widen(b[i].pairs[j]);
      narrow({x.x + y.x, x.y + y.y}, a[i].pairs[j]);
    }
    a[i].store(static_cast<Element*>(p.out) + piece * P::kElements);
  }
  if (blockIdx.x != 0) return;
  const int64_t rest = pieces * P::kElements + threadIdx.x;
  if (rest < p.count && threadIdx.x < P::kElements) add_one<Element>(p, rest);
}

template <class Element>
__global__ __launch_bounds__(kThreads) void vector_add_elements(const VectorAddParams p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.count) add_one<Element>(p, i);
}

template <class Element>
cudaError_t launch(const VectorAddParams& p, cudaStream_t stream) {
  const bool fits = on_piece(p.a) && on_piece(p.b) && on_piece(p.out);
  const int64_t of_block = fits ? int64_t{kThreads} * kPieces * Piece<Element>::kElements : kThreads;
  const int64_t blocks = (p.count - 1) / of_block + 1;
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  const auto kernel = fits ? vector_add_pieces<Element> : vector_add_elements<Element>;
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t vector_add_cuda(const VectorAddParams& p, cudaStream_t stream) {
  if (p.count == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch<float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
