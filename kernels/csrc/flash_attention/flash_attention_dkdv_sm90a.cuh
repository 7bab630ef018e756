// dk and dv for Hopper: a block owns keys and walks over the tiles of queries that see them, of all heads that share them.
// Scores are transposed (rows are keys), so that weights and ds are A operands in registers.
#pragma once

#include <algorithm>
#include <type_traits>

#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_dq_of_ds_sm90a.cuh"
#include "flash_attention/flash_attention_warp.cuh"

namespace warpwatch {
namespace {

// kLeavesScores: the gradients of scores are left in memory for dq's kernel, which then comes next.
template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile, bool kLeavesScores>
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

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p, const KeySchedule& schedule,
                                             const ScoreGradients& left, const CUtensorMap& q, const CUtensorMap& d_out,
                                             const CUtensorMap& k, const CUtensorMap& v) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const QueryRing queries(shared);
    const OwnedRing keys(shared + kRingBytes);
    if constexpr (kLeavesScores) {
      wait_for_previous_kernel();  // for the numbers, or until dq's kernel has read what the heads before these ones left
      let_next_kernel_begin();
    }
    if (threadIdx.x >= Base::kCopier) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Base::kOfCopier));
      if (threadIdx.x == Base::kCopier) copy(p, schedule, q, d_out, k, v, queries, keys);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Base::kOfGroups));
      differentiate(p, schedule, left, queries, keys, shared, shared + kRingBytes);
      // The kernel before this one, dq's, began behind the numbers, and nothing of it is read here. But what comes next on the
      // stream may read dq once this kernel has ended.
      if constexpr (!kLeavesScores) wait_for_previous_kernel();
    }
  }

 private:
  static __device__ __forceinline__ void copy(const FlashAttentionBackwardParams& p, const KeySchedule& schedule,
                                              const CUtensorMap& q, const CUtensorMap& d_out, const CUtensorMap& k,
                                              const CUtensorMap& v, const QueryRing& queries, const OwnedRing& keys) {
    const int sharing = p.forward.heads_q / p.forward.heads_kv;
    int use = 0;
    for (int round = 0; Base::tile_of_round(round) < static_cast<unsigned>(schedule.tiles); ++round) {
      const KeyWork work = schedule.work(p.forward, Base::tile_of_round(round), Base::kOwned, kColumns);
      Base::copy_owned(keys, round, k, v, work.first_key, work.head_kv, work.batch);
      for (int head = work.head_kv * sharing; head < (work.head_kv + 1) * sharing; ++head) {
        for (int query = work.begin; query < work.end; query += kColumns, ++use) {
          Base::copy_columns(queries, use, q, d_out, query, head, work.batch);
          queries.copy_bytes(use, 2 * kColumnBytes, QueryNumbers::of(p, work.batch, head, query), QueryNumbers::kBytes);
        }
      }
    }
  }

  // A warp's 16 keys of a step's 64 queries, as dq's kernel reads them: transposed, rows are queries.
  static __device__ __forceinline__ void leave(const ScoreGradients& left, const PackedWeights<kColumnTiles>& d_scores, int head,
                                               int first_query, int first_key, int seq_kv) {
    const int query_tile = first_query / 64, key_tile = first_key / 64, lane = threadIdx.x % 32;
    if (key_tile >= left.seen(query_tile)) return;
    // What is computed of keys that are not there may be infinite.
    const bool is_there[2] = {first_key + lane / 4 < seq_kv, first_key + lane / 4 + 8 < seq_kv};
    unsigned char* const to =
        left.tile(head, query_tile, key_tile) + first_key / 16 % 4 * ScoreGradients::kPieceBytes + lane * 16;
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      uint4 piece;
      piece.x = transposed(is_there[0] ? d_scores.a[n][0] : 0);
      piece.y = transposed(is_there[0] ? d_scores.a[n][2] : 0);
      piece.z = transposed(is_there[1] ? d_scores.a[n][1] : 0);
      piece.w = transposed(is_there[1] ? d_scores.a[n][3] : 0);
      *reinterpret_cast<uint4*>(to + n * (4 * ScoreGradients::kPieceBytes)) = piece;
    }
  }

  static __device__ __forceinline__ void differentiate(const FlashAttentionBackwardParams& p, const KeySchedule& schedule,
                                                       const ScoreGradients& left, const QueryRing& queries,
                                                       const OwnedRing& keys, unsigned char* queries_at, unsigned char* keys_at) {
    const FlashAttentionParams& f = p.forward;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // known to be the same in the warp
    const int sharing = f.heads_q / f.heads_kv;
    int use = 0;
    for (int round = 0; Base::tile_of_round(round) < static_cast<unsigned>(schedule.tiles); ++round) {
      const KeyWork work = schedule.work(f, Base::tile_of_round(round), Base::kOwned, kColumns);
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
      const auto step = [&](auto is_first, int head, int first_query) {
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
        if (f.causal) Base::mask_keys(weights, first_key, first_query, work.diagonal, f.window);
        Base::weigh_columns(weights, numbers, f.scale);
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
        Base::differentiate_columns(weights, d_weights, numbers);
        d_scores.template take<Element>(weights);
        if constexpr (!kDefers) {
          wgmma_settle(dk[0]);
          d_scores.settle();
          wgmma_fence();
          Base::add_product(dk, d_scores, queries_here);
        }
        if constexpr (kLeavesScores) {  // while the products are under way, so out of other registers
          wgmma_settle(weights[0]);
          PackedWeights<kColumnTiles> leaving;
          leaving.template take<Element>(weights);
          leave(left, leaving, head, first_query, first_key, f.seq_kv);
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
      const int first_head = work.batch * f.heads_q + work.head_kv * sharing;
      for (int head = first_head; head < first_head + sharing; ++head) {
        for (int first_query = work.begin; first_query < work.end; first_query += kColumns) {
          if (is_first) {
            step(std::true_type{}, head, first_query);
            is_first = false;
          } else {
            step(std::false_type{}, head, first_query);
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
          bool kLeavesScores, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    flash_attention_dkdv_sm90a_kernel(const FlashAttentionBackwardParams p, const KeySchedule schedule,
                                      const ScoreGradients left, const __grid_constant__ CUtensorMap q,
                                      const __grid_constant__ CUtensorMap d_out,
                                      const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v) {
  constexpr FlashAttentionBackwardSm90aTile kTile{kGroups, kColumns, kStages, kOwnedStages, kBlocks};
  KeyGradientSm90a<Element, kHeadDim, kTile, kLeavesScores>::run(p, schedule, left, q, d_out, k, v);
}

// Of `heads` key heads from first_head on.
template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile, bool kLeavesScores>
cudaError_t launch_dkdv_sm90a(const FlashAttentionBackwardParams& p, int first_head, int heads, const ScoreGradients& left,
                              cudaStream_t stream) {
  using K = KeyGradientSm90a<Element, kHeadDim, kTile, kLeavesScores>;
  using Shape = typename K::Shape;
  KeySchedule schedule;
  BackwardMaps maps;
  int processors = 0;
  cudaError_t status = maps.encode(p, K::kColumns, 64);
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status == cudaSuccess) {
    status = KeySchedule::make(p.forward, first_head, heads, K::kOwned, processors * kTile.blocks, schedule);
  }
  if (status != cudaSuccess) return status;
  return launch_behind<Shape>(
      flash_attention_dkdv_sm90a_kernel<Element, kHeadDim, kTile.groups, kTile.columns, kTile.stages, kTile.owned_stages,
                                        kTile.blocks, kLeavesScores, Shape>,
      schedule.blocks, stream, p, schedule, left, maps.q, maps.d_out, maps.k, maps.v);
}

}  // namespace
}  // namespace warpwatch
