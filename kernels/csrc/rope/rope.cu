// Rotary position embedding on every GPU: memory-bound, and no architecture has an instruction that helps.
//   Four kernels: rope_small, two short pieces per thread, if angles come from tables or there are few rows; rope_rows, for
//   computed
//   angles, a row per lane group of a warp, one 16-byte piece per lane; two pieces per thread for other rows of whole pieces;
//   single
//   pairs for the rest. All read a pair before they write it, so out may be x.
#include "primitives/divisor.cuh"
#include "primitives/piece.cuh"
#include "rope/rope.h"
#include "rope/rope_angles.cuh"
#include "rope/rope_tiles.h"

namespace warpwatch {
namespace {

// Maps threads to the problem: `lanes` threads per row, `rows` rows per block. Rows are numbered along the sequence first, then
// over groups of heads, then over the batch.
struct Cover {
  Divisor lanes, seq, head_groups;
  uint32_t rows, all_rows;
};

// A thread's work: one piece of one position, in several heads from `head` on.
struct Place {
  int64_t batch, head, seq;
  int lane;  // first piece of the row; the thread's next is `lanes` further
};

template <int kHeads>
__device__ bool find_place(const Cover& cover, Place& place) {
  const uint32_t row_of_block = cover.lanes.quotient(threadIdx.x);
  const uint32_t row = blockIdx.x * cover.rows + row_of_block;
  const uint32_t head_batch = cover.seq.quotient(row);
  const uint32_t batch = cover.head_groups.quotient(head_batch);
  place.lane = threadIdx.x - row_of_block * cover.lanes.divisor();
  place.seq = row - head_batch * cover.seq.divisor();
  place.head = static_cast<int64_t>(head_batch - batch * cover.head_groups.divisor()) * kHeads;
  place.batch = batch;
  return row_of_block < cover.rows && row < cover.all_rows;
}

__device__ int64_t offset(const RopeStrides& strides, const Place& place) {
  return place.batch * strides.batch + place.head * strides.head + place.seq * strides.seq;
}

__device__ uint4 of_lane(uint4 bits, int apart) {
  return {__shfl_xor_sync(0xffffffffu, bits.x, apart), __shfl_xor_sync(0xffffffffu, bits.y, apart),
          __shfl_xor_sync(0xffffffffu, bits.z, apart), __shfl_xor_sync(0xffffffffu, bits.w, apart)};
}

// A thread holds one piece per head, its neighbours the rest of the row, so a warp accesses 512 contiguous bytes. In the
// half-split layout, a piece's partners are in the lane half a row away; interleaved, a piece holds whole pairs.
template <class Element, class Angles, bool kInterleaved, int kHeads>
__global__ __launch_bounds__(kRopeThreads) void rope_rows(const RopeParams p, const Cover cover,
                                                          const __grid_constant__ Angles angles) {
  using P = Piece<Element>;
  constexpr int kAngles = kInterleaved ? P::kPairs : P::kElements;
  angles.prepare(p.head_dim / 2);
  Place place;
  if (!find_place<kHeads>(cover, place)) return;  // uniform over the lanes of a row, which shuffle below

  const int column = place.lane * P::kElements;
  const Element* x = static_cast<const Element*>(p.x) + offset(p.x_strides, place) + column;
  Element* out = static_cast<Element*>(p.out) + offset(p.out_strides, place) + column;
  P held[kHeads];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    held[h].zero();
    if (place.head + h < p.heads) held[h].load_once(x + h * p.x_strides.head);
  }

  const int apart = cover.lanes.divisor() / 2;
  const bool second = place.lane >= apart;  // this lane's piece is in the second half
  float cos[kAngles], sin[kAngles];
  if constexpr (kInterleaved) {
    angles.get(place.batch, place.seq, column / 2, cos, sin);
  } else {
    const int first = second ? column - p.head_dim / 2 : column;
    angles.get_with_partner(place.batch, place.seq, first, apart, second, cos, sin);
#pragma unroll
    for (int i = 0; i < kAngles; ++i) sin[i] = second ? sin[i] : -sin[i];
  }

#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    P other;
    if constexpr (!kInterleaved) other.bits = of_lane(held[h].bits, apart);
#pragma unroll
    for (int i = 0; i < P::kPairs; ++i) {
      const float2 a = widen(held[h].pairs[i]);
      if constexpr (kInterleaved) {
        narrow({a.x * cos[i] - a.y * sin[i], a.y * cos[i] + a.x * sin[i]}, held[h].pairs[i]);
      } else {
        const float2 b = widen(other.pairs[i]);
        narrow({a.x * cos[2 * i] + b.x * sin[2 * i], a.y * cos[2 * i + 1] + b.y * sin[2 * i + 1]}, held[h].pairs[i]);
      }
    }
    if (place.head + h < p.heads) held[h].store(out + h * p.out_strides.head);
  }
}

// A thread holds two pieces per head, `head_dim / 2` apart.
template <class Element, class Angles, bool kInterleaved, int kHeads>
__global__ __launch_bounds__(kRopeThreads) void rope_pieces(const RopeParams p, const Cover cover,
                                                            const __grid_constant__ Angles angles) {
  using P = Piece<Element>;
  constexpr int kAngles = kRopeAngles<P, kInterleaved>;
  angles.prepare(p.head_dim / 2);
  Place place;
  if (!find_place<kHeads>(cover, place)) return;

  const int half = p.head_dim / 2;
  const Element* x = static_cast<const Element*>(p.x) + offset(p.x_strides, place);
  Element* out = static_cast<Element*>(p.out) + offset(p.out_strides, place);

  for (int column = place.lane * P::kElements; column < half; column += cover.lanes.divisor() * P::kElements) {
    P first[kHeads], second[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (place.head + h < p.heads) {
        first[h].load_once(x + h * p.x_strides.head + column);
        second[h].load_once(x + h * p.x_strides.head + column + half);
      }
    }

    float cos[2][kAngles], sin[2][kAngles];  // [1]: the second piece's angles, if it has its own
    const int angle = kInterleaved ? column / 2 : column;
    angles.get(place.batch, place.seq, angle, cos[0], sin[0]);
    if constexpr (kInterleaved) angles.get(place.batch, place.seq, half / 2 + angle, cos[1], sin[1]);

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (place.head + h >= p.heads) break;
      turn_pieces<kInterleaved>(first[h], second[h], cos, sin);
      first[h].store(out + h * p.out_strides.head + column);
      second[h].store(out + h * p.out_strides.head + column + half);
    }
  }
}

// Parameters of rope_small: 108 bytes including its tables; RopeParams, a Cover and tables take 212. A launch with 240 bytes of
// parameters takes 0.2 us longer than one with 112, even if the kernel reads only the first ones (H100, cold L2).
struct RopeSmall {
  const void* x;
  void* out;
  Divisor lanes, seq, heads;  // lanes: threads per row
  uint32_t threads;
  int half;  // head_dim / 2
  struct Strides {
    int32_t batch, head, seq;

    __device__ int64_t offset(uint32_t at_batch, uint32_t at_head, uint32_t at_seq) const {
      return static_cast<int64_t>(at_batch) * batch + static_cast<int64_t>(at_head) * head +
             static_cast<int64_t>(at_seq) * seq;
    }
  } x_strides, out_strides;
};

// A thread holds two short pieces of one head, `head_dim / 2` apart.
template <class Element, class Angles, bool kInterleaved>
__global__ __launch_bounds__(kRopeThreads) void rope_small(const RopeSmall p, const __grid_constant__ Angles angles) {
  using P = Piece<Element, kRopeSmallElements>;
  constexpr int kAngles = kRopeAngles<P, kInterleaved>;
  angles.prepare(p.half);
  const uint32_t thread = blockIdx.x * kRopeThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const uint32_t row = p.lanes.quotient(thread), head_batch = p.seq.quotient(row), batch = p.heads.quotient(head_batch);
  const uint32_t seq = row - head_batch * p.seq.divisor(), head = head_batch - batch * p.heads.divisor();
  const int column = static_cast<int>(thread - row * p.lanes.divisor()) * P::kElements;

  const Element* x = static_cast<const Element*>(p.x) + p.x_strides.offset(batch, head, seq) + column;
  P first, second;
  first.load_once(x);
  second.load_once(x + p.half);
  float cos[2][kAngles], sin[2][kAngles];  // [1]: the second piece's angles, if it has its own
  const int angle = kInterleaved ? column / 2 : column;
  angles.get(batch, seq, angle, cos[0], sin[0]);
  if constexpr (kInterleaved) angles.get(batch, seq, p.half / 2 + angle, cos[1], sin[1]);
  turn_pieces<kInterleaved>(first, second, cos, sin);
  Element* out = static_cast<Element*>(p.out) + p.out_strides.offset(batch, head, seq) + column;
  first.store(out);
  second.store(out + p.half);
}

// One pair per thread, for any even head_dim and any alignment.
template <class Element, class Angles>
__global__ __launch_bounds__(kRopeThreads) void rope_pairs(const RopeParams p, const Cover cover,
                                                           const __grid_constant__ Angles angles) {
  angles.prepare(p.head_dim / 2);
  Place place;
  if (!find_place<1>(cover, place)) return;

  const int half = p.head_dim / 2;
  const Element* x = static_cast<const Element*>(p.x) + offset(p.x_strides, place);
  Element* out = static_cast<Element*>(p.out) + offset(p.out_strides, place);

  for (int i = place.lane; i < half; i += cover.lanes.divisor()) {
    const int first = p.interleaved ? 2 * i : i;
    const int second = p.interleaved ? 2 * i + 1 : i + half;
    const float a = as_float(x[first]);
    const float b = as_float(x[second]);
    float cos[1], sin[1];
    angles.get(place.batch, place.seq, i, cos, sin);
    from_float(a * cos[0] - b * sin[0], out[first]);
    from_float(b * cos[0] + a * sin[0], out[second]);
  }
}

// Whether every 16-byte piece is aligned.
bool fits_pieces(const RopeParams& p, int elements) {
  const int64_t half = p.head_dim / 2;
  for (const RopeStrides& strides : {p.x_strides, p.out_strides}) {
    if ((p.batch > 1 && strides.batch % elements != 0) || (p.heads > 1 && strides.head % elements != 0) ||
        (p.seq > 1 && strides.seq % elements != 0)) {
      return false;
    }
  }
  const bool tables = p.seq <= 1 || (p.cos_stride % 4 == 0 && p.sin_stride % 4 == 0);
  return half % elements == 0 && tables && on_piece(p.x) && on_piece(p.out) && on_piece(p.cos) && on_piece(p.sin);
}

template <int kHeads, class Angles>
cudaError_t launch(void (*kernel)(RopeParams, Cover, Angles), const RopeParams& p, const Angles& angles, int64_t pieces,
                   cudaStream_t stream) {
  const int64_t head_groups = (p.heads + kHeads - 1) / kHeads;
  if (p.seq > (INT32_MAX - kRopeThreads) / head_groups / p.batch) return cudaErrorInvalidConfiguration;
  const auto lanes = static_cast<uint32_t>(pieces < kRopeThreads ? pieces : kRopeThreads);
  Cover cover;
  cover.lanes = Divisor(lanes);
  cover.seq = Divisor(static_cast<uint32_t>(p.seq));
  cover.head_groups = Divisor(static_cast<uint32_t>(head_groups));
  cover.rows = kRopeThreads / lanes;
  cover.all_rows = static_cast<uint32_t>(p.seq * head_groups * p.batch);
  const unsigned blocks = (cover.all_rows - 1) / cover.rows + 1;
  kernel<<<blocks, kRopeThreads, 0, stream>>>(p, cover, angles);
  return cudaGetLastError();
}

template <class Element, class Angles, int kHeads>
cudaError_t launch_pieces(const RopeParams& p, const Angles& angles, int64_t pieces, cudaStream_t stream) {
  return launch<kHeads>(p.interleaved ? rope_pieces<Element, Angles, true, kHeads>
                                      : rope_pieces<Element, Angles, false, kHeads>,
                        p, angles, pieces, stream);
}

template <class Element, class Angles, int kHeads>
cudaError_t launch_rows(const RopeParams& p, const Angles& angles, int64_t pieces, cudaStream_t stream) {
  return launch<kHeads>(
      p.interleaved ? rope_rows<Element, Angles, true, kHeads> : rope_rows<Element, Angles, false, kHeads>, p, angles,
      pieces, stream);
}

bool fits_small(const RopeParams& p) {
  if (p.seq > INT32_MAX / (p.head_dim / 2 / kRopeSmallElements) / p.heads / p.batch) return false;
  for (const RopeStrides& strides : {p.x_strides, p.out_strides}) {
    for (const int64_t stride : {strides.batch, strides.head, strides.seq}) {
      if (stride < INT32_MIN || stride > INT32_MAX) return false;
    }
  }
  return true;
}

template <class Element, class Angles>
cudaError_t launch_small(const RopeParams& p, const Angles& angles, cudaStream_t stream) {
  const auto short_of = [](const RopeStrides& strides) {
    return RopeSmall::Strides{static_cast<int32_t>(strides.batch), static_cast<int32_t>(strides.head),
                              static_cast<int32_t>(strides.seq)};
  };
  const int half = p.head_dim / 2, lanes = half / kRopeSmallElements;
  RopeSmall small;
  small.x = p.x;
  small.out = p.out;
  small.lanes = Divisor(static_cast<uint32_t>(lanes));
  small.seq = Divisor(static_cast<uint32_t>(p.seq));
  small.heads = Divisor(static_cast<uint32_t>(p.heads));
  small.threads = static_cast<uint32_t>(p.batch * p.heads * p.seq * lanes);
  small.half = half;
  small.x_strides = short_of(p.x_strides);
  small.out_strides = short_of(p.out_strides);
  const auto kernel = p.interleaved ? rope_small<Element, Angles, true> : rope_small<Element, Angles, false>;
  kernel<<<(small.threads - 1) / kRopeThreads + 1, kRopeThreads, 0, stream>>>(small, angles);
  return cudaGetLastError();
}

template <class Element, class Angles>
cudaError_t launch_one(const RopeParams& p, const Angles& angles, cudaStream_t stream) {
  constexpr int kElements = Piece<Element>::kElements;
  const int64_t half = p.head_dim / 2;
  if (!fits_pieces(p, kElements)) return launch<1>(rope_pairs<Element, Angles>, p, angles, half, stream);
  const int64_t pieces = half / kElements;
  const bool is_small = rope_is_small(p.batch, p.heads, p.seq, pieces);
  if constexpr (Angles::kComputed) {
    if (is_small && fits_small(p)) return launch_small<Element>(p, angles, stream);
    if (rope_row_in_warp(2 * pieces)) {
      return launch_rows<Element, Angles, kRopeHeads>(p, angles, 2 * pieces, stream);
    }
  } else if (fits_small(p) && has_short_strides(angles)) {
    return is_small ? launch_small<Element>(p, short_strides<true>(angles), stream)
                    : launch_small<Element>(p, short_strides<false>(angles), stream);
  }
  return launch_pieces<Element, Angles, kRopeHeads>(p, angles, pieces, stream);
}

template <class Angles>
cudaError_t launch_of_dtype(const RopeParams& p, const Angles& angles, cudaStream_t stream) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_one<__half>(p, angles, stream);
    case Dtype::kBFloat16: return launch_one<__nv_bfloat16>(p, angles, stream);
    case Dtype::kFloat32: return launch_one<float>(p, angles, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t rope_cuda(const RopeParams& p, const RopeTurns* turns, cudaStream_t stream) {
  if (p.batch == 0 || p.heads == 0 || p.seq == 0 || p.head_dim == 0) return cudaSuccess;
  if (p.positions == nullptr) {
    return launch_of_dtype(p, TableAngles<int64_t>{p.cos, p.sin, p.cos_stride, p.sin_stride}, stream);
  }
  if (turns == nullptr || p.head_dim / 2 > kRopeMostFrequencies) return cudaErrorInvalidValue;
  return launch_of_dtype(p, ComputedAngles{p.positions, *turns}, stream);
}

}  // namespace warpwatch
