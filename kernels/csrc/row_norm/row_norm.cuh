// Row normalisation on every GPU: memory-bound, and no architecture has an instruction that helps.
//   Two kernels: one holds a row in its threads' registers and reads it once; the other, for rows too wide or unaligned, goes
//   element by element and reads the row once per sum and once more. An operator's kernel is a thin `__global__` around one.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "primitives/block_sum.cuh"
#include "primitives/piece.cuh"
#include "row_norm/row_norm.h"

namespace warpwatch {

struct RowNormTile {
  int threads;  // per row: part of a warp, or a whole block
  int pieces;   // 16-byte vectors per thread
  int rows;     // per block
  bool few;     // only if there are so few rows that an SM has one or two

  constexpr int block() const { return threads * rows; }
  constexpr int64_t most_pieces() const { return int64_t{threads} * pieces; }
  constexpr int64_t most_rows() const { return few ? 264 : INT64_MAX; }
};

// The first tile that holds a row is taken. Four vectors per thread are 64 bytes in flight, 128 with a residual: with 512
// threads per SM more than the 26 KB that cover DRAM latency on an H200 (Little's law: 4.4 TB/s, about 0.8 us, 132 SMs).
// Rows wider than the last tile's would spill: 1024 threads leave 64 registers each.
// Up to 128 vectors (1024 elements in fp16), a row stays within a warp and needs no barrier. If there are few rows, each has an
// SM to itself, and more threads with less work each are faster: by 3 % of about 5 us, launch included.
// Evidence, rows of 8 KB, 268 MB, us: {128, 4} 70.2, {256, 2} 71.7, {512, 1} 74.8.
constexpr RowNormTile kRowNormTiles[] = {
    {16, 1, 8, false},  {32, 1, 4, false},  {128, 1, 1, true},  {256, 2, 1, true},
    {32, 4, 4, false},  {128, 4, 1, false}, {256, 4, 1, false}, {512, 4, 1, false},
};

// Minimum blocks per SM (__launch_bounds__): 512 threads, so 128 registers each. Left alone, ptxas spills a few registers at 40
// or 64 for the sake of occupancy. On Hopper, fp32 without a residual fits 64 registers. Evidence: one H200, layer_norm, rows
// of 16 KB, 537 MB, us: 137.0 with 64 registers (four blocks per SM), 138.6 with 70 (three).
constexpr int row_norm_resident(int block, int element_bytes, bool residual) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  if (element_bytes == 4 && !residual) return 1024 / block;
#endif
  return 512 / block;
}

// Threads per row, one block, of the element-by-element kernel, which takes any width and alignment.
constexpr int kRowNormAnyThreads = 256;

// The two normalisations: kCentered subtracts the mean first.
struct RmsNorm {
  static constexpr bool kCentered = false;
};
struct LayerNorm {
  static constexpr bool kCentered = true;
};

template <class Norm>
__device__ inline float normalised(const RowNormParams& p, float value, float mean, float scale, float weight,
                                   float bias) {
  if constexpr (Norm::kCentered) return (value - mean) * scale * weight + bias;
  return value * scale * weight;
}

// Shared memory of the block sums: a slot per warp for each of the two sums, so that no barrier is needed before the second.
struct alignas(16) RowNormSlots {  // so that one load reads four sums
  float first[32], second[32];
};

template <class Element, class Norm, bool kResidual, int kThreads, int kPieces, int kRows>
__device__ inline void norm_row_in_registers(const RowNormParams& p) {
  using P = Piece<Element>;
  // For few rows. Evidence: one H100, layer_norm with a residual, us, with / without: 64 rows
  // of 768 5.23 / 5.34, one row 4.87 / 5.06.
  constexpr bool kShort = kPieces <= 2;
  __shared__ RowNormSlots slots;
  const int lane = threadIdx.x % kThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kThreads;
  // Threads without a row or vector continue with zeros: shuffles and barriers need all of them.
  const int columns = row < p.rows ? static_cast<int>(p.cols) : 0;
  const auto column = [&](int i) { return (i * kThreads + lane) * P::kElements; };
  const Element* weight = static_cast<const Element*>(p.weight);
  const Element* bias = static_cast<const Element*>(p.bias);
  const bool biased = Norm::kCentered && bias != nullptr;

  P held[kPieces];
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) held[i].load_streamed(x + column(i), column(i) < columns);
  P added[kResidual ? kPieces : 1];
  if constexpr (kResidual) {
    const Element* residual = static_cast<const Element*>(p.residual) + row * p.residual_stride;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) added[i].load_streamed(residual + column(i), column(i) < columns);
  }
  // Loaded before the sums, so that one wait for memory covers both; a small call is dominated by that wait.
  P weights[kPieces], biases[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    biases[i].zero();
    if (column(i) < columns) weights[i].load_shared_by_many(weight + column(i));
    if (biased && column(i) < columns) biases[i].load_shared_by_many(bias + column(i));
  }
  if constexpr (kResidual) {
    Element* total = static_cast<Element*>(p.total) + row * p.cols;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
      for (int j = 0; j < P::kPairs; ++j) {
        const float2 a = widen(held[i].pairs[j]);
        const float2 b = widen(added[i].pairs[j]);
        narrow({a.x + b.x, a.y + b.y}, held[i].pairs[j]);
      }
      if (column(i) < columns) held[i].store(total + column(i));
    }
  }

  float mean = 0.0f;
  if constexpr (Norm::kCentered) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
      for (int j = 0; j < P::kPairs; ++j) {
        const float2 a = widen(held[i].pairs[j]);
        sum += a.x + a.y;
      }
    }
    mean = threads_sum<kThreads, kShort>(sum, slots.first) / static_cast<float>(p.cols);
  }
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (Norm::kCentered && column(i) >= columns) continue;  // padding zeros must not contribute mean^2
    held[i].reload_from_packed();
#pragma unroll
    for (int j = 0; j < P::kPairs; ++j) {
      const float2 a = widen(held[i].pairs[j]);
      squares += (a.x - mean) * (a.x - mean) + (a.y - mean) * (a.y - mean);
    }
  }
  squares = threads_sum<kThreads, kShort>(squares, slots.second);
  const float scale = rsqrtf(__fdividef(squares, static_cast<float>(p.cols)) + p.eps);  // each function is within 2 ulp

  Element* out = static_cast<Element*>(p.out) + row * p.cols;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (column(i) >= columns) continue;
    held[i].reload_from_packed();
#pragma unroll
    for (int j = 0; j < P::kPairs; ++j) {
      const float2 a = widen(held[i].pairs[j]);
      const float2 w = widen(weights[i].pairs[j]);
      const float2 b = widen(biases[i].pairs[j]);
      narrow({normalised<Norm>(p, a.x, mean, scale, w.x, b.x), normalised<Norm>(p, a.y, mean, scale, w.y, b.y)},
             held[i].pairs[j]);
    }
    held[i].store(out + column(i));
  }
}

// Any width, any alignment; one block per row. With a residual each thread re-reads what it wrote to `total` itself.
template <class Element, class Norm>
__device__ inline void norm_any_row(const RowNormParams& p) {
  constexpr int kThreads = kRowNormAnyThreads;
  __shared__ RowNormSlots slots;
  const int64_t row = blockIdx.x;
  const Element* x = static_cast<const Element*>(p.x) + row * p.x_stride;
  if (p.residual != nullptr) {
    const Element* residual = static_cast<const Element*>(p.residual) + row * p.residual_stride;
    Element* total = static_cast<Element*>(p.total) + row * p.cols;
    for (int64_t i = threadIdx.x; i < p.cols; i += kThreads) {
      from_float(as_float(x[i]) + as_float(residual[i]), total[i]);
    }
    x = total;
  }
  float mean = 0.0f;
  if constexpr (Norm::kCentered) {
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < p.cols; i += kThreads) sum += as_float(x[i]);
    mean = threads_sum<kThreads>(sum, slots.first) / static_cast<float>(p.cols);
  }
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < p.cols; i += kThreads) {
    const float away = as_float(x[i]) - mean;
    squares += away * away;
  }
  squares = threads_sum<kThreads>(squares, slots.second);
  const float scale = rsqrtf(__fdividef(squares, static_cast<float>(p.cols)) + p.eps);  // each function is within 2 ulp
  const Element* weight = static_cast<const Element*>(p.weight);
  const Element* bias = static_cast<const Element*>(p.bias);
  Element* out = static_cast<Element*>(p.out) + row * p.cols;
  for (int64_t i = threadIdx.x; i < p.cols; i += kThreads) {
    const float shift = bias != nullptr ? as_float(bias[i]) : 0.0f;
    from_float(normalised<Norm>(p, as_float(x[i]), mean, scale, as_float(weight[i]), shift), out[i]);
  }
}

// Whether every 16-byte vector is aligned.
inline bool row_norm_fits_pieces(const RowNormParams& p, int elements) {
  const bool strides = p.rows <= 1 || (p.x_stride % elements == 0 && p.residual_stride % elements == 0);
  return p.cols % elements == 0 && strides && on_piece(p.x) && on_piece(p.residual) && on_piece(p.weight) &&
         on_piece(p.bias) && on_piece(p.out) && on_piece(p.total);
}

// Launches a tile. Kernels<Element, kResidual> has the two `__global__` functions of an operator:
//   in_registers<kThreads, kPieces, kRows>() and any().
template <class Kernels, class Element, int kIndex = 0>
cudaError_t launch_row_norm_kernel(const RowNormParams& p, cudaStream_t stream) {
  if constexpr (kIndex == std::size(kRowNormTiles)) {
    if (p.rows > INT32_MAX) return cudaErrorInvalidConfiguration;
    Kernels::any()<<<static_cast<unsigned>(p.rows), kRowNormAnyThreads, 0, stream>>>(p);
    return cudaGetLastError();
  } else {
    constexpr RowNormTile kTile = kRowNormTiles[kIndex];
    constexpr int kElements = Piece<Element>::kElements;
    if (!row_norm_fits_pieces(p, kElements) || p.cols / kElements > kTile.most_pieces()) {
      return launch_row_norm_kernel<Kernels, Element, kIndex + 1>(p, stream);
    }
    const int64_t blocks = (p.rows - 1) / kTile.rows + 1;
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    if (p.rows > kTile.most_rows()) return launch_row_norm_kernel<Kernels, Element, kIndex + 1>(p, stream);
    const auto kernel = Kernels::template in_registers<kTile.threads, kTile.pieces, kTile.rows>();
    kernel<<<static_cast<unsigned>(blocks), kTile.block(), 0, stream>>>(p);
    return cudaGetLastError();
  }
}

template <template <class, bool> class Kernels, class Element>
cudaError_t launch_row_norm(const RowNormParams& p, cudaStream_t stream) {
  if (p.residual != nullptr) return launch_row_norm_kernel<Kernels<Element, true>, Element>(p, stream);
  return launch_row_norm_kernel<Kernels<Element, false>, Element>(p, stream);
}

template <template <class, bool> class Kernels>
cudaError_t launch_row_norm(const RowNormParams& p, cudaStream_t stream) {
  if (p.rows == 0 || p.cols == 0) return cudaSuccess;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_row_norm<Kernels, __half>(p, stream);
    case Dtype::kBFloat16: return launch_row_norm<Kernels, __nv_bfloat16>(p, stream);
    case Dtype::kFloat32: return launch_row_norm<Kernels, float>(p, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
