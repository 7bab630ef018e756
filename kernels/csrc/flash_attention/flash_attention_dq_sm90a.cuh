// dq for Hopper: a block owns queries and loops over the key tiles that they see, from the last to the first. While the tensor
// cores add ds k of one key tile, the warpgroup computes the weights of the next.
#pragma once

#include <algorithm>
#include <type_traits>

#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_warp.cuh"

namespace warpwatch {
namespace {

template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile>
struct QueryGradientSm90a : BackwardSm90a<Element, kHeadDim, kTile> {
  using Base = BackwardSm90a<Element, kHeadDim, kTile>;
  using typename Base::OwnedRing;
  using Base::kColumnBytes, Base::kColumns, Base::kColumnTiles, Base::kGroupBytes, Base::kGroups, Base::kOwnedBytes,
      Base::kRowBytes;
  using KeyRing = TmaRing<kTile.stages, 2 * kColumnBytes, 4 * kGroups>;
  static constexpr int kRingBytes = (KeyRing::kBytes + 1023) / 1024 * 1024;
  using Shape = LaunchShape<Base::kThreads, kRingBytes + OwnedRing::kBytes>;

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p,
                                             const FlashAttentionSchedule& schedule, const CUtensorMap& q,
                                             const CUtensorMap& d_out, const CUtensorMap& k, const CUtensorMap& v) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const KeyRing keys(shared);
    const OwnedRing queries(shared + kRingBytes);
    grid_dependency_wait();  // for the numbers
    launch_dependents();
    if (threadIdx.x >= Base::kFirstProducer) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Base::kProducerRegisters));
      if (threadIdx.x == Base::kFirstProducer) copy(p, schedule, q, d_out, k, v, keys, queries);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Base::kConsumerRegisters));
      differentiate(p, schedule, keys, queries, shared + kRingBytes);
    }
  }

 private:
  static __device__ __forceinline__ int last_key_tile(const FlashAttentionWork& work) {
    return (work.keys + kColumns - 1) / kColumns - 1;
  }

  static __device__ __forceinline__ void copy(const FlashAttentionBackwardParams& p, const FlashAttentionSchedule& schedule,
                                              const CUtensorMap& q, const CUtensorMap& d_out, const CUtensorMap& k,
                                              const CUtensorMap& v, const KeyRing& keys, const OwnedRing& queries) {
    int use = 0;
    for (int round = 0; tile_of_round(round) < static_cast<unsigned>(schedule.blocks); ++round) {
      const FlashAttentionWork work =
          work_of_block<true>(p.forward, schedule, tile_of_round(round), Base::kOwned);
      const int last = last_key_tile(work), first = work.first_key / kColumns;
      const auto copy_keys = [&](int tile) {
        Base::copy_columns(keys, use++, k, v, tile * kColumns, work.head_kv, work.batch);
      };
      if (last >= first) copy_keys(last);  // the first keys' stage may be free before the queries' stage
      Base::copy_owned(queries, round, q, d_out, work.first_query, work.head, work.batch);
      for (int tile = last - 1; tile >= first; --tile) copy_keys(tile);
    }
  }

  static __device__ __forceinline__ void differentiate(const FlashAttentionBackwardParams& p,
                                                       const FlashAttentionSchedule& schedule, const KeyRing& keys,
                                                       const OwnedRing& queries, unsigned char* queries_at) {
    const FlashAttentionParams& f = p.forward;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the shuffle makes it warp-uniform for the compiler
    int use = 0;
    for (int round = 0; tile_of_round(round) < static_cast<unsigned>(schedule.blocks); ++round) {
      const FlashAttentionWork work = work_of_block<true>(f, schedule, tile_of_round(round), Base::kOwned);
      const int last = last_key_tile(work), first = work.first_key / kColumns;
      const int first_query = work.first_query + 16 * warp;
      float high[2], rest[2], delta[2];  // of the lane's two rows
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = first_query + lane / 4 + 8 * half;
        const float* numbers = QueryNumbers::of(p, work.batch, work.head, query);
        high[half] = query < f.seq_q ? numbers[0] : INFINITY;
        rest[half] = query < f.seq_q ? numbers[QueryNumbers::kQueries] : 0.0f;
        delta[half] = query < f.seq_q ? numbers[2 * QueryNumbers::kQueries] : 0.0f;
      }
      float dq[1][kHeadDim / 8][4] = {};
      queries.consumer_wait(round);
      // At head_dim 128 there are not enough registers to hold both q and d_out.
      typename Base::Rows q_rows;
      std::conditional_t<kHeadDim == 64, typename Base::Rows, typename Base::RowsInShared> d_out_rows;
      q_rows.load(queries.stage(round) + group * kGroupBytes);
      d_out_rows.load(queries.stage(round) + kOwnedBytes + group * kGroupBytes);
      PackedWeights<kColumnTiles> d_scores;
      const auto step = [&](auto is_first, int tile) {
        constexpr bool kIsFirst = decltype(is_first)::value;
        float scores[1][kColumnTiles][4], d_weights[1][kColumnTiles][4];
        keys.consumer_wait(use);
        const uint32_t keys_here = keys.stage(use);
        warpgroup_fence_operand(scores[0]);
        warpgroup_fence_operand(d_weights[0]);
        warpgroup_fence_operand(dq[0]);
        if constexpr (!kIsFirst) d_scores.fence_operand();
        wgmma_fence();
        Base::multiply_rows(scores, q_rows, keys_here);
        if constexpr (!kIsFirst) Base::add_product(dq, d_scores, keys.stage(use - 1));
        Base::multiply_rows(d_weights, d_out_rows, keys_here + kColumnBytes);
        wgmma_wait<kIsFirst ? 1 : 2>();
        warpgroup_fence_operand(scores[0]);
        mask_scores<true>(scores, first_query, tile * kColumns, work.seq_kv, work.diagonal, f.causal, f.window);
        Base::weigh_rows(scores, high, rest, f.scale);
        warpgroup_fence_operand(scores[0]);
        wgmma_wait<0>();
        warpgroup_fence_operand(d_weights[0]);
        warpgroup_fence_operand(dq[0]);
        if constexpr (!kIsFirst) {
          d_scores.fence_operand();
          keys.consumer_release(use - 1);
        }
        Base::differentiate_rows(scores, d_weights, delta);
        d_scores.template take<Element>(scores);
        ++use;
      };
      if (last >= first) {
        step(std::true_type{}, last);
        for (int tile = last - 1; tile >= first; --tile) step(std::false_type{}, tile);
        warpgroup_fence_operand(dq[0]);
        d_scores.fence_operand();
        wgmma_fence();
        Base::add_product(dq, d_scores, keys.stage(use - 1));
        wgmma_wait<0>();
        warpgroup_fence_operand(dq[0]);
        d_scores.fence_operand();
        keys.consumer_release(use - 1);
      }

      // Named barrier: the whole warpgroup has read its queries. Each warp overwrites a quarter with output.
      asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
      Element* to = head_pointer(static_cast<Element*>(p.dq), p.dq_strides, work.batch, work.head) +
                    first_query * p.dq_strides.row;
      unsigned char* staged = queries_at + round % kTile.owned_stages * (2 * kOwnedBytes) + warp * 16 * kRowBytes;
      store_out<Element, kHeadDim>(dq, Factor{f.scale}, staged, to, p.dq_strides.row, work.seq_q - first_query,
                                   kHeadDim == 128 ? f.head_dim : kHeadDim);
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");  // before TMA writes to the stage again
      __syncwarp();
      queries.consumer_release(round);
    }
  }
};

// The tile's fields as separate template arguments: nvcc 13.0 cannot declare a kernel with a struct as template argument.
template <typename Element, int kHeadDim, int kGroups, int kColumns, int kStages, int kOwnedStages, int kBlocks,
          typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    flash_attention_dq_sm90a_kernel(const FlashAttentionBackwardParams p, const FlashAttentionSchedule schedule,
                                    const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap d_out,
                                    const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v) {
  constexpr FlashAttentionBackwardSm90aTile kTile{kGroups, kColumns, kStages, kOwnedStages, kBlocks};
  QueryGradientSm90a<Element, kHeadDim, kTile>::run(p, schedule, q, d_out, k, v);
}

template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile>
cudaError_t launch_dq_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using K = QueryGradientSm90a<Element, kHeadDim, kTile>;
  using Shape = typename K::Shape;
  FlashAttentionSchedule schedule;
  BackwardMaps maps;
  int processors = 0;
  cudaError_t status = make_schedule(p.forward, K::kOwned, sizeof(Element), &schedule);
  if (status == cudaSuccess) status = maps.encode(p, 64, K::kColumns);
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status != cudaSuccess) return status;
  // Evidence: one H100, cold L2, whole pass, causal, 32 heads of 4096, head_dim 128, 8 rounds: 819 us in sections, 831 as one.
  const int blocks = share_out(p.forward, processors, processors * kTile.blocks, schedule, 8);
  return launch_behind<Shape>(
      flash_attention_dq_sm90a_kernel<Element, kHeadDim, kTile.groups, kTile.columns, kTile.stages, kTile.owned_stages,
                                      kTile.blocks, Shape>,
      blocks, stream, p, schedule, maps.q, maps.d_out, maps.k, maps.v);
}

}  // namespace
}  // namespace warpwatch
