// Addition on every GPU: 16-byte vectors if all three tensors are 16-byte aligned, else element by element.
#include "primitives/piece.cuh"

#include "vector_add/vector_add.h"

namespace warpwatch {

// A thread adds one vector: 32 bytes in flight, 64 KB per SM of 2048 threads; covering DRAM latency on an H200 takes about 26
// KB. There, 1 to 4 vectors per thread and 128 to 1024 threads are within 1.5 % of each other, with plain loads. Evidence: one
// H200, 2^28 elements in fp32, us: plain 734, evict_last loads (kept_load.cuh) 727, evict_first loads and stores 835.
constexpr int kThreads = 256;  // per block

namespace {

template <class Element>
__device__ void add_one(const VectorAddParams& p, int64_t i) {
  const float a = as_float(static_cast<const Element*>(p.a)[i]);
  const float b = as_float(static_cast<const Element*>(p.b)[i]);
  from_float(a + b, static_cast<Element*>(p.out)[i]);
}

// kRest: the first block adds the elements past the last whole vector, one per thread.
template <class Element, bool kRest>
__global__ __launch_bounds__(kThreads) void vector_add_pieces(const VectorAddParams p, uint32_t pieces) {
  using P = Piece<Element>;
  if constexpr (kRest) {
    const int64_t rest = int64_t{pieces} * P::kElements + threadIdx.x;
    if (blockIdx.x == 0 && rest < p.count) add_one<Element>(p, rest);
  }
  const uint32_t piece = blockIdx.x * kThreads + threadIdx.x;
  if (piece >= pieces) return;
  const auto at = [piece](const void* vector) { return static_cast<const P*>(vector) + piece; };
  P a, b;
  a.load_streamed(reinterpret_cast<const Element*>(at(p.a)));
  b.load_streamed(reinterpret_cast<const Element*>(at(p.b)));
#pragma unroll
  for (int j = 0; j < P::kPairs; ++j) {
    const float2 x = widen(a.pairs[j]);
    const float2 y = widen(b.pairs[j]);
    narrow({x.x + y.x, x.y + y.y}, a.pairs[j]);
  }
  a.store(static_cast<Element*>(p.out) + int64_t{piece} * P::kElements);
}

template <class Element>
__global__ __launch_bounds__(kThreads) void vector_add_elements(const VectorAddParams p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.count) add_one<Element>(p, i);
}

template <class Element>
cudaError_t launch(const VectorAddParams& p, cudaStream_t stream) {
  constexpr int kElements = Piece<Element>::kElements;
  const int64_t pieces = p.count / kElements;
  const bool fits = on_piece(p.a) && on_piece(p.b) && on_piece(p.out) && pieces > 0 && pieces <= UINT32_MAX;
  const int64_t blocks = ((fits ? pieces : p.count) - 1) / kThreads + 1;
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  const auto grid = static_cast<unsigned>(blocks);
  if (!fits) {
    vector_add_elements<Element><<<grid, kThreads, 0, stream>>>(p);
  } else if (p.count % kElements == 0) {
    vector_add_pieces<Element, false><<<grid, kThreads, 0, stream>>>(p, static_cast<uint32_t>(pieces));
  } else {
    vector_add_pieces<Element, true><<<grid, kThreads, 0, stream>>>(p, static_cast<uint32_t>(pieces));
  }
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
