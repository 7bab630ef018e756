// Sums on every GPU: they wait for memory. Three kernels: rows that a part of a warp adds, rows (or parts of them) that
// a block adds, and columns.
#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum.h"
#include "reduce_sum/reduce_sum_columns.cuh"
#include "reduce_sum/reduce_sum_rows.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
namespace {

template <class Element, bool kWide>
void (*short_rows_kernel(int lanes))(ReduceSumParams) {
  switch (lanes) {
    case 1: return reduce_sum_short_rows<Element, kWide, 1>;
    case 2: return reduce_sum_short_rows<Element, kWide, 2>;
    case 4: return reduce_sum_short_rows<Element, kWide, 4>;
    case 8: return reduce_sum_short_rows<Element, kWide, 8>;
    case 16: return reduce_sum_short_rows<Element, kWide, 16>;
    case 32: return reduce_sum_short_rows<Element, kWide, 32>;
  }
  return nullptr;
}

template <class Element, bool kWide>
void (*whole_rows_kernel(int threads))(ReduceSumParams, int64_t) {
  switch (threads) {
    case 256: return reduce_sum_long_rows<Element, kWide, false, 256, kReduceSumRowPieces>;
    case 512: return reduce_sum_long_rows<Element, kWide, false, 512, kReduceSumRowPieces>;
  }
  return nullptr;
}

// How a pass is launched. The second one comes after the first, but may begin before it has ended.
struct Launch {
  cudaStream_t stream;
  bool second;

  template <class... Parameters>
  cudaError_t operator()(void (*kernel)(Parameters...), int64_t blocks, int threads, Parameters... arguments) const {
    if (kernel == nullptr) return cudaErrorInvalidValue;  // reduce_sum_tiles.h asks for what is not built here
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    const auto grid = static_cast<unsigned>(blocks);
    if (second) return launch_dependent(kernel, grid, threads, stream, arguments...);
    kernel<<<grid, threads, 0, stream>>>(arguments...);
    return cudaGetLastError();
  }
};

// One pass: out is (outer, splits, inner).
template <class Element, bool kWide>
cudaError_t launch_pass(const ReduceSumParams& p, const Launch& launch) {
  constexpr int kElements = Load<Element, kWide>::kElements;
  if (p.inner == 1) {
    const int64_t loads = (p.reduced - 1) / kElements + 1;
    const int lanes = reduce_sum_row_lanes(loads);
    if (lanes < kReduceSumThreads) {
      if (p.splits != 1) return cudaErrorInvalidValue;
      return launch(short_rows_kernel<Element, kWide>(lanes), (p.outer - 1) / (kReduceSumThreads / lanes) + 1,
                    kReduceSumThreads, p);
    }
    if (p.splits == 1 && p.reduced <= INT32_MAX) {
      const int threads = reduce_sum_row_threads(loads);
      return launch(whole_rows_kernel<Element, kWide>(threads), p.outer, threads, p, p.reduced);
    }
    const int64_t part = ((p.reduced - 1) / p.splits + kElements) / kElements * kElements;
    return launch(reduce_sum_long_rows<Element, kWide, true, kReduceSumThreads, kReduceSumPieces>, p.outer * p.splits,
                  kReduceSumThreads, p, part);
  }
  const int64_t loads = (p.inner - 1) / kElements + 1;
  const int lanes = reduce_sum_column_lanes(loads, p.reduced);
  const int64_t column_blocks = (loads - 1) / lanes + 1;
  if (column_blocks > INT32_MAX || p.outer * p.splits > INT32_MAX / column_blocks) return cudaErrorInvalidConfiguration;
  const int64_t part = (p.reduced - 1) / p.splits + 1;
  return launch(reduce_sum_columns<Element, kWide>, p.outer * p.splits * column_blocks, kReduceSumThreads, p, part, lanes,
                static_cast<uint32_t>(column_blocks));
}

// Pieces begin on multiples of 16 bytes where each row of neighbours does.
template <class Element>
cudaError_t launch_pass(const ReduceSumParams& p, const Launch& launch) {
  const int64_t neighbours = p.inner == 1 ? p.reduced : p.inner;
  const bool one_row = p.inner == 1 && p.outer == 1;
  const bool wide = on_piece(p.x) && (one_row || neighbours % Piece<Element>::kElements == 0);
  return wide ? launch_pass<Element, true>(p, launch) : launch_pass<Element, false>(p, launch);
}

cudaError_t launch_pass(const ReduceSumParams& p, const Launch& launch) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_pass<__half>(p, launch);
    case Dtype::kBFloat16: return launch_pass<__nv_bfloat16>(p, launch);
    case Dtype::kFloat32: return launch_pass<float>(p, launch);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t reduce_sum_cuda(const ReduceSumParams& p, cudaStream_t stream) {
  if (p.outer < 1 || p.reduced < 1 || p.inner < 1 || p.splits < 1) return cudaErrorInvalidValue;
  if (p.splits == 1) return launch_pass(p, Launch{stream, false});
  if (p.workspace == nullptr) return cudaErrorInvalidValue;
  ReduceSumParams parts = p;
  parts.out = p.workspace;
  parts.out_dtype = Dtype::kFloat32;
  const cudaError_t status = launch_pass(parts, Launch{stream, false});
  if (status != cudaSuccess) return status;
  ReduceSumParams rest = p;
  rest.x = p.workspace;
  rest.dtype = Dtype::kFloat32;
  rest.reduced = p.splits;
  rest.splits = 1;
  return launch_pass(rest, Launch{stream, true});
}

}  // namespace warpwatch
