// Sums on every GPU, memory-bound. Four kernels: rows summed by part of a warp; rows (or splits of them) summed by a block;
// columns; and the second pass over splits of columns.
#include "primitives/dependent_launch.cuh"
#include "reduce_sum/reduce_sum.h"
#include "reduce_sum/reduce_sum_kernels.cuh"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
namespace {

template <class Element, bool kWide, bool kPastL1>
void (*short_rows_kernel(int lanes))(ReduceSumParams) {
  switch (lanes) {
    case 1: return reduce_sum_short_rows<Element, kWide, kPastL1, 1>;
    case 2: return reduce_sum_short_rows<Element, kWide, kPastL1, 2>;
    case 4: return reduce_sum_short_rows<Element, kWide, kPastL1, 4>;
    case 8: return reduce_sum_short_rows<Element, kWide, kPastL1, 8>;
    case 16: return reduce_sum_short_rows<Element, kWide, kPastL1, 16>;
    case 32: return reduce_sum_short_rows<Element, kWide, kPastL1, 32>;
  }
  return nullptr;
}

template <class Element, bool kWide, bool kPastL1>
void (*whole_rows_kernel(int threads))(ReduceSumParams, int64_t) {
  switch (threads) {
    case 256: return reduce_sum_long_rows<Element, kWide, kPastL1, false, 256, kReduceSumRowPieces>;
    case 512: return reduce_sum_long_rows<Element, kWide, kPastL1, false, 512, kReduceSumRowPieces>;
  }
  return nullptr;
}

// Launches a pass. The second pass uses programmatic dependent launch: it may start before the first has ended.
struct Launch {
  cudaStream_t stream;
  bool second;

  template <class... Parameters>
  cudaError_t operator()(void (*kernel)(Parameters...), int64_t blocks, int threads, Parameters... arguments) const {
    if (kernel == nullptr) return cudaErrorInvalidValue;  // no kernel for what reduce_sum_tiles.h chose
    if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
    const auto grid = static_cast<unsigned>(blocks);
    if (second) return launch_dependent(kernel, grid, threads, stream, arguments...);
    kernel<<<grid, threads, 0, stream>>>(arguments...);
    return cudaGetLastError();
  }
};

// out is (outer, splits); inner is 1.
template <class Element, bool kWide, bool kPastL1>
cudaError_t launch_rows(const ReduceSumParams& p, const Launch& launch) {
  constexpr int kElements = Load<Element, kWide>::kElements;
  const int64_t loads = (p.reduced - 1) / kElements + 1;
  const int lanes = reduce_sum_row_lanes(loads);
  if (lanes < kReduceSumThreads) {
    if (p.splits != 1) return cudaErrorInvalidValue;
    return launch(short_rows_kernel<Element, kWide, kPastL1>(lanes), (p.outer - 1) / (kReduceSumThreads / lanes) + 1,
                  kReduceSumThreads, p);
  }
  if (p.splits == 1 && p.reduced <= INT32_MAX) {
    const int threads = reduce_sum_row_threads(loads);
    return launch(whole_rows_kernel<Element, kWide, kPastL1>(threads), p.outer, threads, p, p.reduced);
  }
  const int64_t part = ((p.reduced - 1) / p.splits + kElements) / kElements * kElements;
  return launch(reduce_sum_long_rows<Element, kWide, false, true, kReduceSumThreads, kReduceSumPieces>,
                p.outer * p.splits, kReduceSumThreads, p, part);
}

// out is (outer, splits, inner).
template <class Element, bool kWide>
cudaError_t launch_columns(const ReduceSumParams& p, const Launch& launch) {
  const int64_t loads = (p.inner - 1) / Load<Element, kWide>::kElements + 1;
  const int lanes = reduce_sum_column_lanes(loads, p.reduced);
  const int64_t column_blocks = (loads - 1) / lanes + 1;
  const int rows = reduce_sum_column_rows(lanes, p.reduced);
  const int64_t outer_blocks = (p.outer - 1) / (kReduceSumThreads / (lanes * rows)) + 1;
  if (column_blocks > INT32_MAX || outer_blocks * p.splits > INT32_MAX / column_blocks) {
    return cudaErrorInvalidConfiguration;
  }
  return launch(reduce_sum_columns<Element, kWide>, outer_blocks * p.splits * column_blocks, kReduceSumThreads, p, lanes,
                rows, static_cast<uint32_t>(column_blocks));
}

// 16-byte vectors are aligned if each row of `inner` elements is.
template <class Element>
bool fits_pieces(const ReduceSumParams& p) {
  const int64_t neighbours = p.inner == 1 ? p.reduced : p.inner;
  const bool one_row = p.inner == 1 && p.outer == 1;
  return on_piece(p.x) && (one_row || neighbours % Piece<Element>::kElements == 0);
}

template <class Element>
cudaError_t launch_first(const ReduceSumParams& p, const Launch& launch) {
  if (p.inner == 1) {
    return fits_pieces<Element>(p) ? launch_rows<Element, true, true>(p, launch)
                                   : launch_rows<Element, false, true>(p, launch);
  }
  return fits_pieces<Element>(p) ? launch_columns<Element, true>(p, launch) : launch_columns<Element, false>(p, launch);
}

cudaError_t launch_first(const ReduceSumParams& p, const Launch& launch) {
  switch (p.dtype) {
    case Dtype::kFloat16: return launch_first<__half>(p, launch);
    case Dtype::kBFloat16: return launch_first<__nv_bfloat16>(p, launch);
    case Dtype::kFloat32: return launch_first<float>(p, launch);
  }
  return cudaErrorInvalidValue;
}

// Second pass, over parts (outer, parts, inner) in fp32. The first pass may still be writing them,
// so it must not use read-only (nc) loads.
cudaError_t launch_second(const ReduceSumParams& p, const Launch& launch) {
  const bool wide = fits_pieces<float>(p);
  if (p.inner == 1) {
    return wide ? launch_rows<float, true, false>(p, launch) : launch_rows<float, false, false>(p, launch);
  }
  const int64_t of_block = kReduceSumSecondLanes * (wide ? Piece<float>::kElements : 1);
  const int64_t column_blocks = (p.inner - 1) / of_block + 1;
  if (column_blocks > INT32_MAX || p.outer > INT32_MAX / column_blocks) return cudaErrorInvalidConfiguration;
  return launch(wide ? reduce_sum_second_columns<true> : reduce_sum_second_columns<false>, p.outer * column_blocks,
                kReduceSumThreads, p, static_cast<uint32_t>(column_blocks));
}

}  // namespace

cudaError_t reduce_sum_cuda(const ReduceSumParams& p, cudaStream_t stream) {
  if (p.outer < 1 || p.reduced < 1 || p.inner < 1 || p.splits < 1) return cudaErrorInvalidValue;
  if (p.splits == 1) return launch_first(p, Launch{stream, false});
  if (p.workspace == nullptr) return cudaErrorInvalidValue;
  ReduceSumParams parts = p;
  parts.out = p.workspace;
  parts.out_dtype = Dtype::kFloat32;
  const cudaError_t status = launch_first(parts, Launch{stream, false});
  if (status != cudaSuccess) return status;
  ReduceSumParams rest = p;
  rest.x = p.workspace;
  rest.dtype = Dtype::kFloat32;
  rest.reduced = p.splits;
  rest.splits = 1;
  return launch_second(rest, Launch{stream, true});
}

}  // namespace warpwatch
