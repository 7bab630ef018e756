// linear_activation on Hopper for one or two rows of x (GEMV): each row of the weight times x on CUDA cores. Bound by DRAM: 2 n
// k bytes, 4 n k for swiglu.
//
// A warp reads 512 contiguous bytes of a weight row at a time, 16 per lane, and x, which every warp reads, through L1. An mma
// would read 64 bytes of each of 8 rows at a time, which takes 4 to 10 % longer. Sums are added in a fixed order, whatever the
// GPU, so results are reproducible bit for bit.
#include <cuda_runtime.h>

#include "linear_activation/activation.cuh"
#include "linear_activation/linear_activation_tiles.h"
#include "primitives/block_sum.cuh"
#include "primitives/element.cuh"
#include "primitives/piece.cuh"

namespace warpwatch {
namespace {

template <typename Element>
using GemvPiece = Piece<Element, 8>;

template <typename Element>
__device__ __forceinline__ float dot(const GemvPiece<Element>& a, const GemvPiece<Element>& b, float sum) {
#pragma unroll
  for (int i = 0; i < GemvPiece<Element>::kPairs; ++i) {
    const float2 left = widen(a.pairs[i]), right = widen(b.pairs[i]);
    sum = fmaf(left.y, right.y, fmaf(left.x, right.x, sum));
  }
  return sum;
}

template <typename Element>
__device__ __forceinline__ float activated_at_run_time(Activation activation, float v) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kGelu: return activated<Activation::kGelu, Element>(v);
    case Activation::kGeluTanh: return activated<Activation::kGeluTanh, Element>(v);
    case Activation::kSilu: return activated<Activation::kSilu, Element>(v);
  }
  return v;
}

// kGated: the first half of a warp's rows belong to the gate, the second half to up.
template <typename Element, int kRowsOfX, bool kShortRows, bool kGated>
__global__ void __launch_bounds__((kShortRows ? kGemvTileOfShortRows : kGemvTile).threads(),
                                  (kShortRows ? kGemvTileOfShortRows : kGemvTile).blocks_per_sm)
    linear_activation_gemv(const LinearActivationParams p) {
  constexpr GemvTile kTile = kShortRows ? kGemvTileOfShortRows : kGemvTile;
  constexpr int kRows = kTile.rows, kPieces = kTile.pieces, kOutputs = kGated ? kRows / 2 : kRows;
  constexpr int kStep = 32 * GemvPiece<Element>::kElements;  // of k, per load of a warp
  constexpr int kSlab = kPieces * kStep;
  __shared__ float parts[kTile.teams][kTile.warps_on_k][kRowsOfX][kRows];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int part = warp % kTile.warps_on_k, team = warp / kTile.warps_on_k;
  const int first_output = (blockIdx.x * kTile.teams + team) * kOutputs;
  const int first_k = lane * GemvPiece<Element>::kElements;

  // Rows past the end read the last one; their results are not stored.
  const Element* weights[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    const bool up = row >= kOutputs;
    const int64_t n = min(first_output + row % kOutputs, p.n - 1);
    const void* weight = up ? p.up_weight : p.weight;
    weights[row] = static_cast<const Element*>(weight) + n * (up ? p.up_weight_stride : p.weight_stride) + first_k;
  }
  const Element* x = static_cast<const Element*>(p.x) + first_k;

  float sums[kRowsOfX][kRows] = {};
  const auto multiply = [&](int k, auto whole) {
    GemvPiece<Element> pieces[kPieces][kRows];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int at = k + piece * kStep;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        if (decltype(whole)::value || at + first_k < p.k) {
          pieces[piece][row].load_nc_no_allocate(weights[row] + at);
        } else {
          pieces[piece][row].zero();
        }
      }
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int at = k + piece * kStep;
#pragma unroll
      for (int m = 0; m < kRowsOfX; ++m) {
        GemvPiece<Element> of_x;
        if (decltype(whole)::value || at + first_k < p.k) {
          of_x.load_shared_by_many(x + m * p.x_stride + at);
        } else {
          of_x.zero();
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) sums[m][row] = dot<Element>(pieces[piece][row], of_x, sums[m][row]);
      }
    }
  };
  int k = part * kSlab;
  for (; k + kSlab <= p.k; k += kTile.warps_on_k * kSlab) multiply(k, std::true_type());
  if (k < p.k) multiply(k, std::false_type());

#pragma unroll
  for (int m = 0; m < kRowsOfX; ++m) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float sum = lanes_sum<32>(sums[m][row]);
      if (lane == 0) parts[team][part][m][row] = sum;
    }
  }
  if constexpr (kTile.warps_on_k > 1) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  const int m = lane / kOutputs, output = lane % kOutputs, n = first_output + output;
  if (part > 0 || m >= kRowsOfX || n >= p.n) return;
  const auto result = [&](int row, const void* bias) {
    float sum = bias == nullptr ? 0.0f : as_float(static_cast<const Element*>(bias)[n]);
#pragma unroll
    for (int i = 0; i < kTile.warps_on_k; ++i) sum += parts[team][i][m][row];
    return sum;
  };
  float out = result(output, p.bias);
  if constexpr (kGated) {
    out = silu<Element>(out) * result(kOutputs + output, p.up_bias);
  } else {
    out = activated_at_run_time<Element>(p.activation, out);
  }
  static_cast<Element*>(p.out)[int64_t{m} * p.n + n] = rounded<Element>(out);
}

template <typename Element, int kRowsOfX, bool kShortRows, bool kGated>
cudaError_t launch(const LinearActivationParams& p, cudaStream_t stream) {
  constexpr GemvTile kTile = kShortRows ? kGemvTileOfShortRows : kGemvTile;
  constexpr int kOutputs = kTile.teams * (kGated ? kTile.rows / 2 : kTile.rows);
  linear_activation_gemv<Element, kRowsOfX, kShortRows, kGated>
      <<<(p.n - 1) / kOutputs + 1, kTile.threads(), 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename Element, int kRowsOfX>
cudaError_t launch(const LinearActivationParams& p, cudaStream_t stream) {
  const bool gated = p.up_weight != nullptr;
  if (p.k <= kLongestShortRow) {
    return gated ? launch<Element, kRowsOfX, true, true>(p, stream) : launch<Element, kRowsOfX, true, false>(p, stream);
  }
  return gated ? launch<Element, kRowsOfX, false, true>(p, stream) : launch<Element, kRowsOfX, false, false>(p, stream);
}

template <typename Element>
cudaError_t launch(const LinearActivationParams& p, cudaStream_t stream) {
  return p.m == 1 ? launch<Element, 1>(p, stream) : launch<Element, 2>(p, stream);
}

}  // namespace

cudaError_t linear_activation_gemv_sm90a(const LinearActivationParams& p, cudaStream_t stream) {
  if (p.m < 1 || p.m > kMostGemvRows) return cudaErrorInvalidValue;
  switch (p.dtype) {
    case Dtype::kFloat16: return launch<__half>(p, stream);
    case Dtype::kBFloat16: return launch<__nv_bfloat16>(p, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace warpwatch
