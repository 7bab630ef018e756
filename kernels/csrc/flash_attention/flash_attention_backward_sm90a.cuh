// Shared by the backward kernels for Hopper (fp16 and bf16, wgmma and TMA; sm_90a only).
//
// As on other architectures, one kernel owns queries and accumulates dq over the keys; the other owns keys and accumulates dk
// and dv over the queries of all heads that share them. A block has one or more consumer warpgroups, which own 64 rows each,
// and one producer warp, which copies tiles by TMA into shared-memory rings. The kernels are persistent: the grid has as many
// blocks as fit on the GPU, and these divide the tiles among themselves.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>

#include "flash_attention/flash_attention_backward.h"
#include "flash_attention/flash_attention_backward_launch.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_sm90a_rounds.h"
#include "flash_attention/flash_attention_split_softmax.cuh"
#include "primitives/attributes.h"
#include "primitives/dependent_launch.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"
#include "primitives/piece.cuh"
#include "primitives/swizzle.cuh"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma_heads.cuh"

namespace warpwatch {

// Tile of one block.
//
// 32-bit registers per thread: head_dim / 2 per gradient; columns / 2 each for weights and their gradients, columns / 4 for
// each of these when packed; head_dim / 4 per tensor of owned rows held in registers. With two consumer warpgroups a thread has
// 240 registers.
// Shared memory, in bytes: 4 * head_dim * (64 * groups * owned_stages + columns * stages), plus 1 KB per stage in dk/dv.
struct FlashAttentionBackwardSm90aTile {
  int groups;        // consumer warpgroups; each owns 64 rows: queries for dq, keys for dk and dv
  int columns;       // per step
  int stages;        // of the ring of column tiles
  int owned_stages;  // 2: the next tile's owned rows load during the whole of the current tile
  int blocks;        // per SM
};

// Evidence: one H100, fp16, cold L2, us for the whole backward pass.
//
//   head_dim 64; each row keeps the changes above it unless it     16 x 32 heads of 512     32 heads of 2048
//   says "instead"                                                    full      causal      causal
//   both kernels 3 warpgroups, 1 owned stage, dk/dv waits for
//     each query tile                                                  398         313         179
//   dk/dv 2 warpgroups, 2 query tiles in flight                        395         309         178
//   dk/dv 2 owned stages                                               375         289         172
//   dk/dv owned rows in registers; dq 2 warpgroups, 2 owned stages     368         273         166
//   instead: both kernels 1 warpgroup, 2 blocks per SM                 427         296         152
//   delta kernel with one lane per 16-byte vector of a query;
//     each kernel launched while its predecessor drains (PDL)          336         239         159
//
//   head_dim 128, 32 heads                                         2048 full   2048 causal   4096 causal
//   before the changes above                                           434         286         812
//   all of them except 2 query tiles in flight in dk/dv                432         272         810
//   all of them                                                        440         275         821
//   dq without queries in registers                                    433         278         833
//   dq with 2 owned stages only                                        435         277         816
//   More columns or warpgroups do not fit: ptxas then serializes the wgmma products.
//
//   Later changes, head_dim 128, 32 heads, before / after          2048 full   2048 causal   4096 causal
//   dq tiles: one section if causal, else rounds of heads
//     (flash_attention_sm90a_rounds.h)                             430 / 427     276 / 250
//   dk/dv stores ds for the dq kernel
//     (flash_attention_dkdv_sm90a.cuh)                             431 / 400     274 / 250     815 / 785
//     the same, bf16                                                             279 / 256
//     with dq tiles of 256 queries only                                                              871
//     ds stored before dk's product instead of during it (another run): 394
//
//   head_dim 256, 16 heads of 2048, causal: 588 with sm_80's kernels, 268 with flash_attention_wide_gradient_sm90a.cuh.
constexpr FlashAttentionBackwardSm90aTile flash_attention_dq_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {2, 64, 4, 2, 1};
  return {2, 64, 3, 2, 1};
}

constexpr FlashAttentionBackwardSm90aTile flash_attention_dkdv_sm90a_tile(int head_dim) {
  if (head_dim == 64) return {2, 64, 5, 2, 1};
  return {2, 64, 4, 1, 1};
}

namespace {

// What both kernels read per query: its log-sum-exp, split into `high` (fp32) and the remainder as a power of two, and delta.
// Layout: for each 64 queries, 64 highs, 64 remainders, 64 deltas. A query that does not exist or sees no key has an infinite
// `high`, so its weights are 2^-inf = 0.
struct QueryNumbers {
  static constexpr int kQueries = kFlashAttentionBackwardTileQueries;
  static constexpr int kBytes = 3 * kQueries * static_cast<int>(sizeof(float));

  static __device__ __forceinline__ float* of(const FlashAttentionBackwardParams& p, int batch, int head, int query) {
    const FlashAttentionParams& f = p.forward;
    const int tiles = (f.seq_q + kQueries - 1) / kQueries;
    return p.delta + ((int64_t{batch} * f.heads_q + head) * tiles + query / kQueries) * (3 * kQueries) + query % kQueries;
  }

  // log2 of the weight. `high` is subtracted before anything is rounded, so large scores keep their small differences.
  static __device__ __forceinline__ float exponent(float score, float scale, float high, float rest) {
    return fmaf(fmaf(score, scale, -high), kLog2E, -rest);
  }
};

// Computes these numbers. A block handles 64 queries, with one lane per 16-byte vector of a query; partial tiles are padded.
template <typename Element, int kHeadDim>
__global__ void __launch_bounds__(kFlashAttentionDeltaThreads)
    flash_attention_numbers_sm90a_kernel(const FlashAttentionBackwardParams p) {
  constexpr int kQueries = QueryNumbers::kQueries, kLanes = kHeadDim / 8;
  constexpr int kAtOnce = kFlashAttentionDeltaThreads / kLanes, kTurns = kQueries / kAtOnce;
  launch_dependents();
  const FlashAttentionParams& f = p.forward;
  const int tiles = (f.seq_q + kQueries - 1) / kQueries;
  const int of_head = static_cast<int>(blockIdx.x) / tiles;
  const int batch = of_head / f.heads_q, head = of_head - batch * f.heads_q;
  const int lane = threadIdx.x % kLanes, of_tile = threadIdx.x / kLanes;
  const int first = (static_cast<int>(blockIdx.x) - of_head * tiles) * kQueries + of_tile;
  const Element* out = head_pointer(static_cast<const Element*>(f.out), f.out_strides, batch, head) + 8 * lane;
  const Element* d_out = head_pointer(static_cast<const Element*>(p.d_out), p.d_out_strides, batch, head) + 8 * lane;
  Piece<Element> a[kTurns], b[kTurns];
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int query = first + turn * kAtOnce;
    a[turn].zero();
    b[turn].zero();
    if (query >= f.seq_q || 8 * lane >= f.head_dim) continue;
    a[turn].load_once(out + query * f.out_strides.row);
    b[turn].load_once(d_out + query * p.d_out_strides.row);
  }
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int query = first + turn * kAtOnce;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 one = widen(a[turn].pairs[i]), other = widen(b[turn].pairs[i]);
      sum = fmaf(one.y, other.y, fmaf(one.x, other.x, sum));
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane != 0) continue;
    float* const to = p.delta + int64_t{blockIdx.x} * (3 * kQueries) + of_tile + turn * kAtOnce;
    const auto lse = query < f.seq_q ? f.lse[int64_t{of_head} * f.seq_q + query] : -INFINITY;
    const float high = lse == -INFINITY ? INFINITY : static_cast<float>(lse);
    to[0] = high;
    to[kQueries] = lse == -INFINITY ? 0.0f : static_cast<float>(lse - high) * kLog2E;
    to[2 * kQueries] = sum;
  }
}

// Shared by both kernels. A block owns `groups` * 64 rows and loops over tiles of `columns` columns.
template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile>
struct BackwardSm90a {
  static constexpr int kGroups = kTile.groups;
  static constexpr int kOwned = 64 * kGroups;
  static constexpr int kColumns = kTile.columns;
  static constexpr int kColumnTiles = kColumns / 8;
  static constexpr int kFirstProducer = 128 * kGroups;  // first thread of the producer warpgroup
  static constexpr int kThreads = kFirstProducer + 128;
  static constexpr int kSlabs = kHeadDim / 64;
  static constexpr int kRowBytes = 2 * kHeadDim;
  static constexpr int kGroupBytes = 64 * kRowBytes;
  static constexpr int kOwnedBytes = kOwned * kRowBytes;      // per tensor
  static constexpr int kColumnBytes = kColumns * kRowBytes;  // per tensor
  using OwnedRing = TmaRing<kTile.owned_stages, 2 * kOwnedBytes, 4 * kGroups>;
  using Wgmma = HeadWgmma<Element>;

  static constexpr int kLaunchRegisters = 65536 / kTile.blocks / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = kGroups == 1 ? 40 : 24;
  static constexpr int kConsumerShare = (kLaunchRegisters * (kGroups + 1) - kProducerRegisters) / kGroups / 8 * 8;
  static constexpr int kConsumerRegisters = kConsumerShare > 240 ? 240 : kConsumerShare;

  // Copies the owned rows of two tensors: per consumer warpgroup 64 rows, one slab of head_dim after the other.
  static __device__ __forceinline__ void copy_owned(const OwnedRing& ring, int round, const CUtensorMap& first,
                                                    const CUtensorMap& second, int row, int head, int batch) {
    ring.producer_acquire(round);
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        const int at = group * kGroupBytes + slab * 64 * 128;
        ring.copy(round, at, first, slab * 64, row + 64 * group, head, batch);
        ring.copy(round, kOwnedBytes + at, second, slab * 64, row + 64 * group, head, batch);
      }
    }
  }

  template <typename Ring>
  static __device__ __forceinline__ void copy_columns(const Ring& ring, int use, const CUtensorMap& first,
                                                      const CUtensorMap& second, int row, int head, int batch) {
    ring.producer_acquire(use);
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      ring.copy(use, slab * kColumns * 128, first, slab * 64, row, head, batch);
      ring.copy(use, kColumnBytes + slab * kColumns * 128, second, slab * 64, row, head, batch);
    }
  }

  // Sets masked scores to -inf; rows are keys from first_key on, columns are queries from first_query on.
  static __device__ __forceinline__ void mask_keys(float (&scores)[1][kColumnTiles][4], int first_key, int first_query,
                                                   int diagonal, int window) {
    const bool all_new_seen = first_key + 15 <= first_query + diagonal;
    const bool all_old_seen = first_key > first_query + kColumns - 1 + diagonal - window;
    if (all_new_seen && all_old_seen) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        // Distance of this key from the newest key that the query sees.
        const int behind = first_query + 8 * n + 2 * (lane % 4) + c % 2 + diagonal - first_key - lane / 4 - 8 * (c / 2);
        if (behind < 0 || behind >= window) scores[0][n][c] = -INFINITY;
      }
    }
  }

  // Turns scores into weights p, and dp into ds. Columns are queries; `numbers` points to the numbers of the lane's first two.
  static __device__ __forceinline__ void weigh_columns(float (&scores)[1][kColumnTiles][4], const float* numbers,
                                                       float scale) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      const float2 high = *reinterpret_cast<const float2*>(numbers + 8 * n);
      const float2 rest = *reinterpret_cast<const float2*>(numbers + kColumns + 8 * n);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        scores[0][n][c] = exp2_approximate(QueryNumbers::exponent(scores[0][n][c], scale, c % 2 == 0 ? high.x : high.y,
                                                                  c % 2 == 0 ? rest.x : rest.y));
      }
    }
  }
  static __device__ __forceinline__ void differentiate_columns(float (&weights)[1][kColumnTiles][4],
                                                               const float (&d_weights)[1][kColumnTiles][4],
                                                               const float* numbers) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      const float2 delta = *reinterpret_cast<const float2*>(numbers + 2 * kColumns + 8 * n);
#pragma unroll
      for (int c = 0; c < 4; ++c) weights[0][n][c] *= d_weights[0][n][c] - (c % 2 == 0 ? delta.x : delta.y);
    }
  }

  // The same where rows are queries: `high`, `rest` and `delta` belong to the lane's two rows.
  static __device__ __forceinline__ void weigh_rows(float (&scores)[1][kColumnTiles][4], const float (&high)[2],
                                                    const float (&rest)[2], float scale) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        scores[0][n][c] =
            exp2_approximate(QueryNumbers::exponent(scores[0][n][c], scale, high[c / 2], rest[c / 2]));
      }
    }
  }
  static __device__ __forceinline__ void differentiate_rows(float (&weights)[1][kColumnTiles][4],
                                                            const float (&d_weights)[1][kColumnTiles][4],
                                                            const float (&delta)[2]) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) weights[0][n][c] *= d_weights[0][n][c] - delta[c / 2];
    }
  }

  // A operand from registers: a warp's 16 of its warpgroup's 64 rows.
  struct Rows {
    uint32_t a[kHeadDim / 16][4];

    __device__ __forceinline__ void load(uint32_t rows) {
      const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
      for (int n = 0; n < kHeadDim / 16; ++n) {
        ldmatrix_x4(a[n], rows + n / 4 * 64 * 128 + swizzled<128>(row, 2 * (n % 4) + lane / 16));
      }
    }
  };

  // A operand from shared memory: a warpgroup's 64 rows.
  struct RowsInShared {
    uint32_t rows;

    __device__ __forceinline__ void load(uint32_t at) { rows = at; }
  };

  // scores = (64 rows) (columns)^T over head_dim. With both operands in shared memory, its bandwidth just keeps up with wgmma.
  static __device__ __forceinline__ void multiply_rows(float (&scores)[1][kColumnTiles][4], const Rows& rows,
                                                       uint32_t columns) {
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      const uint64_t b = wgmma_rows(columns + n / 4 * kColumns * 128) + 2 * (n % 4);
      FloatWgmma<Element>::run(scores[0], rows.a[n], b, n > 0);
    }
    wgmma_commit();
  }
  static __device__ __forceinline__ void multiply_rows(float (&scores)[1][kColumnTiles][4],
                                                       const RowsInShared& rows, uint32_t columns) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      const uint64_t a = wgmma_rows(rows.rows + slab * 64 * 128);
      const uint64_t b = wgmma_rows(columns + slab * kColumns * 128);
#pragma unroll
      for (int step = 0; step < 4; ++step) Wgmma::scores(scores[0], a + 2 * step, b + 2 * step, slab + step > 0);
    }
    wgmma_commit();
  }

  // sums += weights (64 x columns) times the columns' rows (columns x head_dim).
  static __device__ __forceinline__ void add_product(float (&sums)[1][kHeadDim / 8][4],
                                                     const PackedWeights<kColumnTiles>& weights, uint32_t columns) {
    const uint64_t b = wgmma_columns(columns, kColumns * 128);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) Wgmma::values(sums[0], weights.a[n], b + 128 * n);
    wgmma_commit();
  }
};

// Orders the key tiles of a range of heads, in sections of heads, as FlashAttentionSchedule orders query tiles.
struct KeySchedule {
  int first_head;  // of the batch * heads_kv key heads
  int tiles_of_head;
  int heads_per_section;
  int tiles;
  int blocks;

  // Without a mask: rounds of as many heads as give every block a tile. With a mask: all heads are one section.
  static cudaError_t make(const FlashAttentionParams& f, int first_head, int heads, int keys, int most_blocks,
                          KeySchedule& schedule) {
    const int64_t tiles_of_head = ceil_div(f.seq_kv, keys);
    if (heads * tiles_of_head > INT_MAX) return cudaErrorInvalidValue;
    schedule = {first_head, static_cast<int>(tiles_of_head), heads, static_cast<int>(heads * tiles_of_head), 0};
    schedule.blocks = std::min(schedule.tiles, most_blocks);
    const int at_once = f.causal ? 0 : heads_of_round(heads, 1, schedule.tiles_of_head, false, schedule.blocks);
    if (at_once > 0) {
      schedule.heads_per_section = at_once;
      schedule.blocks = at_once * schedule.tiles_of_head;
    }
    return cudaSuccess;
  }

  __device__ __forceinline__ KeyWork work(const FlashAttentionParams& f, int tile, int keys, int step) const {
    const int section_tiles = heads_per_section * tiles_of_head;
    const int section = tile / section_tiles, within = tile - section * section_tiles;
    const int first_here = section * heads_per_section;
    const int heads_here = min(heads_per_section, tiles / tiles_of_head - first_here);
    const int of_head = within / heads_here;
    const int head = first_head + first_here + within - of_head * heads_here;
    return key_work_of_block(f, of_head * (f.batch * f.heads_kv) + head, keys, step);
  }
};

// TMA tensor maps of q, d_out, k and v, with boxes of the given number of rows.
struct BackwardMaps {
  CUtensorMap q, d_out, k, v;

  cudaError_t encode(const FlashAttentionBackwardParams& p, int query_rows, int key_rows) {
    const FlashAttentionParams& f = p.forward;
    const HeadSizes queries{f.batch, f.heads_q, f.seq_q, f.head_dim}, keys{f.batch, f.heads_kv, f.seq_kv, f.head_dim};
    cudaError_t status = map_rows(q, f.q, f.q_strides, queries, query_rows);
    if (status == cudaSuccess) status = map_rows(d_out, p.d_out, p.d_out_strides, queries, query_rows);
    if (status == cudaSuccess) status = map_rows(k, f.k, f.k_strides, keys, key_rows);
    if (status == cudaSuccess) status = map_rows(v, f.v, f.v_strides, keys, key_rows);
    return status;
  }
};

// Launches a kernel that follows launch_numbers_sm90a, with programmatic dependent launch.
template <typename Shape, typename... Parameters, typename... Arguments>
cudaError_t launch_behind(void (*kernel)(Parameters...), int blocks, cudaStream_t stream, const Arguments&... arguments) {
  const cudaError_t status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Shape::kThreads);
  config.dynamicSmemBytes = Shape::kDynamicSharedBytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <typename Element, int kHeadDim>
cudaError_t launch_numbers_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  const int64_t tiles = ceil_div(p.forward.seq_q, QueryNumbers::kQueries) * p.forward.batch * p.forward.heads_q;
  if (tiles > INT_MAX) return cudaErrorInvalidValue;
  flash_attention_numbers_sm90a_kernel<Element, kHeadDim>
      <<<static_cast<int>(tiles), kFlashAttentionDeltaThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace
}  // namespace warpwatch
