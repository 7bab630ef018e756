// dk and dv for Hopper: a block owns keys and walks over the tiles of queries that see them, of all heads that share them.
// Scores are transposed (rows are keys), so that weights and ds are A operands in registers.
#pragma once

#include <algorithm>
#include <type_traits>

#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_warp.cuh"

namespace warpwatch {
namespace {

template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile>
struct KeyGradientSm90a : BackwardSm90a<Element, kHeadDim, kTile> {
  using Base = BackwardSm90a<Element, kHeadDim, kTile>;
  using typename Base::OwnedRing;
  using Base::kColumnBytes, Base::kColumns, Base::kColumnTiles, Base::kGroupBytes, Base::kGroups, Base::kOwnedBytes,
      Base::kRowBytes;
  static_assert(kColumns == QueryNumbers::kQueries, "a step's numbers lie side by side");
  static constexpr int kStageBytes = (2 * kColumnBytes + QueryNumbers::kBytes + 1023) / 1024 * 1024;
  using QueryRing = TmaRing<kTile.stages, kStageBytes, 4 * kGroups, 2 * kColumnBytes + QueryNumbers::kBytes>;
  static constexpr int kRingBytes = (QueryRing::kBytes + 1023) / 1024 * 1024;
  using Shape = LaunchShape<Base::kThreads, kRingBytes + OwnedRing::kBytes>;
  // Whether ds^T q of one query tile is under way while a group works on the weights of the next. Of head_dim 128 a tile is work
  // enough for the tensor cores, and it is slower: flash_attention_backward_sm90a_tiles.h has the figures.
  static constexpr bool kDefers = kHeadDim == 64;

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p, int tiles, const CUtensorMap& q,
                                             const CUtensorMap& d_out, const CUtensorMap& k, const CUtensorMap& v) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const QueryRing queries(shared);
    const OwnedRing keys(shared + kRingBytes);
    if (threadIdx.x >= Base::kCopier) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Base::kOfCopier));
      if (threadIdx.x == Base::kCopier) copy(p, tiles, q, d_out, k, v, queries, keys);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Base::kOfGroups));
      differentiate(p, tiles, queries, keys, shared, shared + kRingBytes);
      // The kernel before this one, dq's, began behind the numbers, and nothing of it is read here. But what comes next on the
      // stream may read dq once this kernel has ended.
      wait_for_previous_kernel();
    }
  }

 private:
  static __device__ __forceinline__ void copy(const FlashAttentionBackwardParams& p, int tiles, const CUtensorMap& q,
                                              const CUtensorMap& d_out, const CUtensorMap& k, const CUtensorMap& v,
                                              const QueryRing& queries, const OwnedRing& keys) {
    const int sharing = p.forward.heads_q / p.forward.heads_kv;
    int use = 0;
    for (int round = 0; Base::tile_of_round(round) < static_cast<unsigned>(tiles); ++round) {
      const KeyWork work = key_work_of_block(p.forward, Base::tile_of_round(round), Base::kOwned, kColumns);
      Base::copy_owned(keys, round, k, v, work.first_key, work.head_kv, work.batch);
      for (int head = work.head_kv * sharing; head < (work.head_kv + 1) * sharing; ++head) {
        for (int query = work.begin; query < work.end; query += kColumns, ++use) {
          Base::copy_columns(queries, use, q, d_out, query, head, work.batch);
          queries.copy_bytes(use, 2 * kColumnBytes, QueryNumbers::of(p, work.batch, head, query), QueryNumbers::kBytes);
        }
      }
    }
  }

  // Sets to -inf what is hidden: rows are keys from first_key on, columns queries from first_query on.
  static __device__ __forceinline__ void mask(float (&scores)[1][kColumnTiles][4], int first_key, int first_query,
                                              int diagonal, int window) {
    const bool all_new_seen = first_key + 15 <= first_query + diagonal;
    const bool all_old_seen = first_key > first_query + kColumns - 1 + diagonal - window;
    if (all_new_seen && all_old_seen) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        // How many keys this one is behind the newest that the query sees.
        const int behind = first_query + 8 * n + 2 * (lane % 4) + c % 2 + diagonal - first_key - lane / 4 - 8 * (c / 2);
        if (behind < 0 || behind >= window) scores[0][n][c] = -INFINITY;
      }
    }
  }

  static __device__ __forceinline__ void differentiate(const FlashAttentionBackwardParams& p, int tiles,
                                                       const QueryRing& queries, const OwnedRing& keys,
                                                       unsigned char* queries_at, unsigned char* keys_at) {
    const FlashAttentionParams& f = p.forward;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // known to be the same in the warp
    const int sharing = f.heads_q / f.heads_kv;
    int use = 0;
    for (int round = 0; Base::tile_of_round(round) < static_cast<unsigned>(tiles); ++round) {
      const KeyWork work = key_work_of_block(f, Base::tile_of_round(round), Base::kOwned, kColumns);
      const int first_key = work.first_key + 16 * warp;
      float dk[1][kHeadDim / 8][4] = {};
      float dv[1][kHeadDim / 8][4] = {};
      keys.wait_full(round);
      // Of head_dim 64 in registers; of 128 there are none left for them.
      const uint32_t keys_at_group = keys.stage(round) + group * kGroupBytes;
      std::conditional_t<kHeadDim == 64, typename Base::Rows, typename Base::RowsInShared> key_rows, value_rows;
      key_rows.load(keys_at_group);
      value_rows.load(keys_at_group + kOwnedBytes);
      PackedWeights<kColumnTiles> d_scores;
      const auto step = [&](auto is_first, int first_query) {
        constexpr bool kIsFirst = decltype(is_first)::value || !kDefers;
        float weights[1][kColumnTiles][4], d_weights[1][kColumnTiles][4];
        PackedWeights<kColumnTiles> packed;
        queries.wait_full(use);
        const uint32_t queries_here = queries.stage(use);
        const float* numbers =
            reinterpret_cast<const float*>(queries_at + use % kTile.stages * kStageBytes + 2 * kColumnBytes) +
            2 * (lane % 4);
        wgmma_settle(weights[0]);
        wgmma_settle(d_weights[0]);
        wgmma_settle(dk[0]);
        if constexpr (!kIsFirst) d_scores.settle();
        wgmma_fence();
        Base::multiply_rows(weights, key_rows, queries_here);
        if constexpr (!kIsFirst) Base::add_product(dk, d_scores, queries.stage(use - 1));
        Base::multiply_rows(d_weights, value_rows, queries_here + kColumnBytes);
        wgmma_wait<kIsFirst ? 1 : 2>();
        wgmma_settle(weights[0]);
        if (f.causal) mask(weights, first_key, first_query, work.diagonal, f.window);
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          const float2 high = *reinterpret_cast<const float2*>(numbers + 8 * n);
          const float2 rest = *reinterpret_cast<const float2*>(numbers + kColumns + 8 * n);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            weights[0][n][c] = exp2_approximate(QueryNumbers::exponent(weights[0][n][c], f.scale,
                                                                       c % 2 == 0 ? high.x : high.y,
                                                                       c % 2 == 0 ? rest.x : rest.y));
          }
        }
        packed.template take<Element>(weights);
        wgmma_settle(dv[0]);
        packed.settle();
        wgmma_fence();
        Base::add_product(dv, packed, queries_here + kColumnBytes);
        wgmma_wait<1>();
        wgmma_settle(d_weights[0]);
        wgmma_settle(dk[0]);
        if constexpr (!kIsFirst) {
          d_scores.settle();
          queries.release(use - 1);
        }
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          const float2 delta = *reinterpret_cast<const float2*>(numbers + 2 * kColumns + 8 * n);
#pragma unroll
          for (int c = 0; c < 4; ++c) weights[0][n][c] *= d_weights[0][n][c] - (c % 2 == 0 ? delta.x : delta.y);
        }
        d_scores.template take<Element>(weights);
        if constexpr (!kDefers) {
          wgmma_settle(dk[0]);
          d_scores.settle();
          wgmma_fence();
          Base::add_product(dk, d_scores, queries_here);
        }
        wgmma_wait<0>();
        wgmma_settle(dv[0]);
        packed.settle();
        __syncwarp();  // all lanes have read the numbers
        if constexpr (!kDefers) {
          wgmma_settle(dk[0]);
          d_scores.settle();
          queries.release(use);
        }
        ++use;
      };
      bool is_first = true;
      for (int member = 0; member < sharing; ++member) {
        for (int first_query = work.begin; first_query < work.end; first_query += kColumns) {
          if (is_first) {
            step(std::true_type{}, first_query);
            is_first = false;
          } else {
            step(std::false_type{}, first_query);
          }
        }
      }
      if (kDefers && !is_first) {
        wgmma_settle(dk[0]);
        d_scores.settle();
        wgmma_fence();
        Base::add_product(dk, d_scores, queries.stage(use - 1));
        wgmma_wait<0>();
        wgmma_settle(dk[0]);
        d_scores.settle();
        queries.release(use - 1);
      }

      // All of the group have read its keys and values; each warp writes its rows over a quarter of them.
      asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
      unsigned char* staged = keys_at + round % kTile.owned_stages * (2 * kOwnedBytes) + warp * 16 * kRowBytes;
      const int live_rows = f.seq_kv - first_key;
      const int columns = kHeadDim == 128 ? f.head_dim : kHeadDim;
      Element* dk_to = head_pointer(static_cast<Element*>(p.dk), p.dk_strides, work.batch, work.head_kv) +
                       first_key * p.dk_strides.row;
      Element* dv_to = head_pointer(static_cast<Element*>(p.dv), p.dv_strides, work.batch, work.head_kv) +
                       first_key * p.dv_strides.row;
      store_out<Element, kHeadDim>(dk, Factor{f.scale}, staged, dk_to, p.dk_strides.row, live_rows, columns);
      store_out<Element, kHeadDim>(dv, Factor{1.0f}, staged + kOwnedBytes, dv_to, p.dv_strides.row, live_rows,
                                   columns);
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");  // TMA writes there next
      __syncwarp();
      keys.release(round);
    }
  }
};

// The tile in pieces: nvcc (13.0) declares no kernel that has a struct for a template argument.
template <typename Element, int kHeadDim, int kGroups, int kColumns, int kStages, int kOwnedStages, int kBlocks,
          typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    flash_attention_dkdv_sm90a_kernel(const FlashAttentionBackwardParams p, const int tiles,
                                      const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap d_out,
                                      const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v) {
  constexpr FlashAttentionBackwardSm90aTile kTile{kGroups, kColumns, kStages, kOwnedStages, kBlocks};
  KeyGradientSm90a<Element, kHeadDim, kTile>::run(p, tiles, q, d_out, k, v);
}

template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile>
cudaError_t launch_dkdv_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using K = KeyGradientSm90a<Element, kHeadDim, kTile>;
  using Shape = typename K::Shape;
  BackwardMaps maps;
  int processors = 0;
  cudaError_t status = maps.encode(p, K::kColumns, 64);
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status != cudaSuccess) return status;
  const int64_t tiles = ceil_div(p.forward.seq_kv, K::kOwned) * p.forward.batch * p.forward.heads_kv;
  if (tiles > INT_MAX) return cudaErrorInvalidValue;
  const int blocks = static_cast<int>(std::min<int64_t>(tiles, processors * kTile.blocks));
  return launch_behind<Shape>(
      flash_attention_dkdv_sm90a_kernel<Element, kHeadDim, kTile.groups, kTile.columns, kTile.stages, kTile.owned_stages,
                                        kTile.blocks, Shape>,
      blocks, stream, p, static_cast<int>(tiles), maps.q, maps.d_out, maps.k, maps.v);
}

}  // namespace
}  // namespace warpwatch
