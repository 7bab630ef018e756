// Rotary position embedding on every GPU: it waits for memory, and no architecture has an instruction that helps.
//   Two kernels: 16-byte pieces where shape and alignment allow them, single pairs everywhere else.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "rope/rope.h"
#include "rope/rope_tiles.h"

namespace warpwatch {
namespace {

__device__ float2 widen(__half2 pair) { return __half22float2(pair); }
__device__ float2 widen(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ float2 widen(float2 pair) { return pair; }

__device__ void narrow(float2 pair, __half2& to) { to = __float22half2_rn(pair); }
__device__ void narrow(float2 pair, __nv_bfloat162& to) { to = __float22bfloat162_rn(pair); }
__device__ void narrow(float2 pair, float2& to) { to = pair; }

// T is a pair of neighbours: __half2, __nv_bfloat162 or float2.
template <class T>
constexpr int kPairs = 16 / sizeof(T);

// 16 bytes of a row, as they travel and as they are computed with.
template <class T>
union Piece {
  uint4 bits;
  T pairs[kPairs<T>];
  __device__ Piece() {}
};

template <int kCount>
__device__ void load_floats(const float* from, float (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    if constexpr (kCount >= 4) {
      *reinterpret_cast<float4*>(&to[i]) = __ldg(reinterpret_cast<const float4*>(from + i));
    } else {
      *reinterpret_cast<float2*>(&to[i]) = __ldg(reinterpret_cast<const float2*>(from + i));
    }
  }
}

// How the blocks cover the problem: along the sequence first, then the groups of heads, then the batch; within a block
// the pieces of a position (`lanes` of them side by side), then the positions (`rows`).
struct Cover {
  int lanes, rows;
  uint32_t seq_blocks, head_groups;  // 32 bits: a division by a 64-bit number costs as much as the whole piece of work
};

// Where a thread works: one piece of one position, in so many heads from `head` on.
struct Place {
  int64_t batch, head, seq;
  int lane;  // first piece of the row; the next one is `lanes` further
};

template <int kHeads>
__device__ bool find_place(const RopeParams& p, const Cover& cover, Place& place) {
  const int row = threadIdx.x / cover.lanes;
  const uint32_t head_block = blockIdx.x / cover.seq_blocks;
  place.lane = threadIdx.x % cover.lanes;
  place.seq = static_cast<int64_t>(blockIdx.x % cover.seq_blocks) * cover.rows + row;
  place.head = static_cast<int64_t>(head_block % cover.head_groups) * kHeads;
  place.batch = head_block / cover.head_groups;
  return row < cover.rows && place.seq < p.seq;
}

// A thread holds two pieces per head, `head_dim / 2` apart. As halves, they are each other's partners; interleaved,
// each holds whole pairs, and takes its own angles.
template <class T, bool kInterleaved, int kHeads>
__global__ __launch_bounds__(kRopeMostThreads) void rope_pieces(const RopeParams p, const Cover cover) {
  using Element = std::conditional_t<std::is_same_v<T, float2>, float, uint16_t>;  // for its size alone
  constexpr int kElements = 2 * kPairs<T>;
  constexpr int kAngles = kInterleaved ? kPairs<T> : kElements;  // that one piece needs
  Place place;
  if (!find_place<kHeads>(p, cover, place)) return;

  const int half = p.head_dim / 2;
  const int64_t out_row = (place.batch * p.heads + place.head) * p.seq + place.seq;
  const Element* x = static_cast<const Element*>(p.x) + place.batch * p.batch_stride + place.head * p.head_stride +
                     place.seq * p.seq_stride;
  Element* out = static_cast<Element*>(p.out) + out_row * p.head_dim;

  for (int column = place.lane * kElements; column < half; column += cover.lanes * kElements) {
    Piece<T> first[kHeads], second[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (place.head + h < p.heads) {
        const Element* from = x + h * p.head_stride + column;
        first[h].bits = __ldcs(reinterpret_cast<const uint4*>(from));
        second[h].bits = __ldcs(reinterpret_cast<const uint4*>(from + half));
      }
    }

    float cos[2][kAngles], sin[2][kAngles];  // [1] is for the second piece, where it has its own
    const int angle = kInterleaved ? column / 2 : column;
    load_floats(p.cos + place.seq * p.cos_stride + angle, cos[0]);
    load_floats(p.sin + place.seq * p.sin_stride + angle, sin[0]);
    if constexpr (kInterleaved) {
      load_floats(p.cos + place.seq * p.cos_stride + half / 2 + angle, cos[1]);
      load_floats(p.sin + place.seq * p.sin_stride + half / 2 + angle, sin[1]);
    }

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (place.head + h >= p.heads) break;
#pragma unroll
      for (int i = 0; i < kPairs<T>; ++i) {
        const float2 a = widen(first[h].pairs[i]);
        const float2 b = widen(second[h].pairs[i]);
        if constexpr (kInterleaved) {
          narrow({a.x * cos[0][i] - a.y * sin[0][i], a.y * cos[0][i] + a.x * sin[0][i]}, first[h].pairs[i]);
          narrow({b.x * cos[1][i] - b.y * sin[1][i], b.y * cos[1][i] + b.x * sin[1][i]}, second[h].pairs[i]);
        } else {
          const float2 c = {cos[0][2 * i], cos[0][2 * i + 1]};
          const float2 s = {sin[0][2 * i], sin[0][2 * i + 1]};
          narrow({a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y}, first[h].pairs[i]);
          narrow({b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y}, second[h].pairs[i]);
        }
      }
      // Written past the caches: nobody reads it back soon, and cos and sin should stay in L2.
      Element* to = out + h * p.seq * p.head_dim + column;
      __stcs(reinterpret_cast<uint4*>(to), first[h].bits);
      __stcs(reinterpret_cast<uint4*>(to + half), second[h].bits);
    }
  }
}

__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(float value) { return value; }

__device__ void from_float(float value, __half& to) { to = __float2half_rn(value); }
__device__ void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16_rn(value); }
__device__ void from_float(float value, float& to) { to = value; }

// One pair at a time, for any even head_dim, any alignment.
template <class Element>
__global__ __launch_bounds__(kRopeMostThreads) void rope_pairs(const RopeParams p, const Cover cover) {
  Place place;
  if (!find_place<1>(p, cover, place)) return;

  const int half = p.head_dim / 2;
  const int64_t out_row = (place.batch * p.heads + place.head) * p.seq + place.seq;
  const Element* x = static_cast<const Element*>(p.x) + place.batch * p.batch_stride + place.head * p.head_stride +
                     place.seq * p.seq_stride;
  Element* out = static_cast<Element*>(p.out) + out_row * p.head_dim;

  for (int i = place.lane; i < half; i += cover.lanes) {
    const int first = p.interleaved ? 2 * i : i;
    const int second = p.interleaved ? 2 * i + 1 : i + half;
    const float a = to_float(x[first]);
    const float b = to_float(x[second]);
    const float cos = p.cos[place.seq * p.cos_stride + i];
    const float sin = p.sin[place.seq * p.sin_stride + i];
    from_float(a * cos - b * sin, out[first]);
    from_float(b * cos + a * sin, out[second]);
  }
}

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// Whether every piece of 16 bytes begins on a multiple of 16 bytes.
bool fits_pieces(const RopeParams& p, int elements) {
  const int64_t half = p.head_dim / 2;
  const int64_t strides[] = {p.batch > 1 ? p.batch_stride : 0, p.heads > 1 ? p.head_stride : 0,
                             p.seq > 1 ? p.seq_stride : 0};
  for (const int64_t stride : strides) {
    if (stride % elements != 0) return false;
  }
  const bool tables = p.seq <= 1 || (p.cos_stride % 4 == 0 && p.sin_stride % 4 == 0);
  return half % elements == 0 && tables && aligned(p.x) && aligned(p.out) && aligned(p.cos) && aligned(p.sin);
}

template <int kHeads, class Kernel>
cudaError_t launch(Kernel kernel, const RopeParams& p, int64_t pieces, int threads, cudaStream_t stream) {
  Cover cover;
  cover.lanes = static_cast<int>(pieces < threads ? pieces : threads);
  cover.rows = threads / cover.lanes;
  const int64_t seq_blocks = (p.seq + cover.rows - 1) / cover.rows;
  const int64_t head_groups = (p.heads + kHeads - 1) / kHeads;
  if (seq_blocks > INT32_MAX / head_groups / p.batch) return cudaErrorInvalidConfiguration;
  cover.seq_blocks = static_cast<uint32_t>(seq_blocks);
  cover.head_groups = static_cast<uint32_t>(head_groups);
  const auto blocks = static_cast<unsigned>(seq_blocks * head_groups * p.batch);
  kernel<<<blocks, threads, 0, stream>>>(p, cover);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_pieces(const RopeParams& p, cudaStream_t stream) {
  const int64_t pieces = p.head_dim / 2 / (2 * kPairs<T>);
  const RopeTile tile = rope_tile(p.batch, p.heads, p.seq, pieces);
  if (tile.heads == 4) {
    return p.interleaved ? launch<4>(rope_pieces<T, true, 4>, p, pieces, tile.threads, stream)
                         : launch<4>(rope_pieces<T, false, 4>, p, pieces, tile.threads, stream);
  }
  if (tile.heads == 1) {
    return p.interleaved ? launch<1>(rope_pieces<T, true, 1>, p, pieces, tile.threads, stream)
                         : launch<1>(rope_pieces<T, false, 1>, p, pieces, tile.threads, stream);
  }
  return cudaErrorInvalidValue;  // rope_tiles.h asks for a tile not built here
}

template <class Element, class T>
cudaError_t launch_either(const RopeParams& p, cudaStream_t stream) {
  if (fits_pieces(p, 2 * kPairs<T>)) return launch_pieces<T>(p, stream);
  const int64_t pieces = p.head_dim / 2;
  const RopeTile tile = rope_tile(p.batch, p.heads, p.seq, pieces);
  return launch<1>(rope_pairs<Element>, p, pieces, tile.threads, stream);
}

}  // namespace

cudaError_t rope_cuda(const RopeParams& p, cudaStream_t stream) {
  if (p.batch == 0 || p.heads == 0 || p.seq == 0 || p.head_dim == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_either<__half, __half2>(p, stream);
    case Dtype::kBFloat16: return launch_either<__nv_bfloat16, __nv_bfloat162>(p, stream);
    case Dtype::kFloat32: return launch_either<float, float2>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
