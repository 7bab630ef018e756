// flash_attention by wgmma and TMA, fp16 and bf16; Hopper only (sm_90a). Rows lie in shared memory as slabs of 64 columns. At
// head_dim 96 TMA fills the second half of the last slab with zeros, which no product reads.
//
// A block has consumer warpgroups, which own 64 queries each, and one TMA producer warp, which copies queries, keys and values
// into rings of shared memory. The kernel is persistent: a block loops over query tiles in the order of
// flash_attention_schedule.cuh (static), or for packed sequences takes them from a counter (dynamic). For each query tile it
// loops over the key tiles from the last to the first, so that masked tiles come first. While the tensor cores multiply the
// weights of one key tile with its values, a warpgroup computes the weights of the next.
//
// After Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3: Fast and Accurate Attention with Asynchrony and
// Low-precision" (2024).
#pragma once

#include <cuda_runtime.h>

#include "flash_attention/flash_attention.h"
#include "flash_attention/flash_attention_bias_ahead.cuh"
#include "flash_attention/flash_attention_schedule.cuh"
#include "flash_attention/flash_attention_sm90a_rounds.h"
#include "flash_attention/flash_attention_sm90a_tiles.h"
#include "flash_attention/flash_attention_softmax.cuh"
#include "flash_attention/flash_attention_split_softmax.cuh"
#include "flash_attention/flash_attention_warp.cuh"
#include "primitives/attributes.h"
#include "primitives/launch_shape.h"
#include "primitives/tma_ring.cuh"
#include "primitives/wgmma_heads.cuh"

namespace warpwatch {
namespace {

constexpr int round_to_swizzle(int bytes) { return (bytes + 1023) / 1024 * 1024; }

template <typename Element, int kHeadDim, FlashAttentionSm90aTile kTile, bool kWindowed, typename Params>
struct Sm90aKernel {
  static constexpr int kGroups = kTile.groups;
  static constexpr int kKeys = kTile.keys;
  static constexpr int kKeyTiles = kKeys / 8;
  static constexpr int kQueries = 64 * kGroups;
  static constexpr int kCopier = 128 * kGroups;  // the first thread of the warps that copy
  static constexpr int kThreads = kCopier + 128;
  static constexpr int kSlabs = (kHeadDim + 63) / 64;
  static constexpr int kRowBytes = 128 * kSlabs;
  static constexpr int kGroupBytes = 64 * kRowBytes;  // of queries
  static constexpr int kTileBytes = kKeys * kRowBytes;
  using KeyRing = TmaRing<kTile.stages, kTileBytes, 4 * kGroups>;
  using QueryRing = TmaRing<kTile.query_stages, kGroups * kGroupBytes, 4 * kGroups>;
  static constexpr int kRingBytes = round_to_swizzle(KeyRing::kBytes);
  // Packed sequences: behind keys, values and queries, the work whose queries each stage holds.
  static constexpr int kWorksAt = (2 * kRingBytes + QueryRing::kBytes + 15) / 16 * 16;
  static constexpr int kSharedBytes =
      kPacked<Params> ? kWorksAt + kTile.query_stages * static_cast<int>(sizeof(FlashAttentionWork)) : kWorksAt;
  using Shape = LaunchShape<kThreads, kSharedBytes>;
  using Wgmma = HeadWgmma<Element>;

  // Register reallocation (setmaxnreg) between producer and consumers: registers of a thread, multiples of 8.
  static constexpr int kAtLaunch = 65536 / kTile.blocks / kThreads / 8 * 8;
  static constexpr int kOfCopier = kGroups == 1 ? 40 : kGroups == 2 ? 24 : 32;
  static constexpr int kLeft = (kAtLaunch * (kGroups + 1) - kOfCopier) / kGroups / 8 * 8;
  static constexpr int kOfGroups = kLeft > 240 ? 240 : kLeft;
  static constexpr bool kShareOut = kAtLaunch < 240;

  static __device__ __forceinline__ int last_key_tile(const FlashAttentionWork& work) {
    return (work.keys + kKeys - 1) / kKeys - 1;
  }
  static __device__ __forceinline__ int first_key_tile(const FlashAttentionWork& work) {
    return kWindowed ? work.first_key / kKeys : 0;
  }

  static __device__ __forceinline__ void run(const Params& p, const FlashAttentionSchedule& schedule,
                                             const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v) {
    extern __shared__ __align__(1024) unsigned char shared[];
    FlashAttentionWork* const works = reinterpret_cast<FlashAttentionWork*>(shared + kWorksAt);
    if (threadIdx.x == kCopier) {  // otherwise the first copies would wait for the maps
      for (const CUtensorMap* map : {&q, &k, &v}) prefetch_tensor_map(*map);
    }
    const KeyRing keys(shared, BeforePublish{});
    const KeyRing values(shared + kRingBytes, BeforePublish{});
    const QueryRing queries(shared + 2 * kRingBytes, BeforePublish{});
    publish_tma_rings();
    if (threadIdx.x >= kCopier) {
      if constexpr (kShareOut) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kOfCopier));
      if (threadIdx.x == kCopier) copy(p, schedule, works, q, k, v, keys, values, queries);
    } else {
      if constexpr (kShareOut) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kOfGroups));
      attend(p, schedule, works, keys, values, queries, shared + 2 * kRingBytes);
    }
  }

 private:
  // Packed sequences: a tile may lie behind all queries of its sequence.
  static __device__ __forceinline__ bool has_none(const FlashAttentionWork& work) {
    return kPacked<Params> && work.first_query >= work.seq_q;
  }

  // The values of the next sequence lie behind a packed sequence. Their weights are 0, but 0 times NaN or infinity is NaN, so
  // they are overwritten with zeros. Each warpgroup writes all of them, so that no warpgroup waits for another.
  static __device__ __forceinline__ void clear_values(const FlashAttentionWork& work, int tile, uint32_t values, int group) {
    const int live = work.seq_kv - tile * kKeys;
    if (live >= kKeys) return;
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      for (int at = live * 128 + threadIdx.x % 128 * 16; at < kKeys * 128; at += 128 * 16) {
        const uint32_t to = values + slab * kKeys * 128 + at;
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};\n" ::"r"(to), "r"(0) : "memory");
      }
    }
    asm volatile("fence.proxy.async.shared::cta;\nbar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
  }

  // Calls `each` on the block's works. Tiles of packed sequences differ in length and may be empty, so blocks take all but
  // their first tile from a counter (dynamic scheduling); other problems have a static order.
  template <typename Each>
  static __device__ __forceinline__ void for_each_work(const Params& p, const FlashAttentionSchedule& schedule,
                                                       const Each& each) {
    if constexpr (kPacked<Params>) {
      for (int block = blockIdx.x; block < schedule.blocks;) {
        const int next = static_cast<int>(gridDim.x) + atomicAdd(p.next_tile, 1);
        const FlashAttentionWork work = work_of_block<kWindowed>(p, schedule, block, kQueries);
        if (!has_none(work)) each(work);
        block = next;
      }
    } else {
      for (int round = 0; tile_of_round(round) < static_cast<unsigned>(schedule.blocks); ++round) {
        each(work_of_block<kWindowed>(p, schedule, tile_of_round(round), kQueries));
      }
    }
  }

  static __device__ __forceinline__ void copy(const Params& p, const FlashAttentionSchedule& schedule,
                                              FlashAttentionWork* works, const CUtensorMap& q, const CUtensorMap& k,
                                              const CUtensorMap& v, const KeyRing& keys, const KeyRing& values,
                                              const QueryRing& queries) {
    int use = 0, query_use = 0;
    for_each_work(p, schedule, [&](const FlashAttentionWork& work) {
      const int batch = kPacked<Params> ? 0 : work.batch;
      const int last = last_key_tile(work), first = first_key_tile(work);
      const auto copy_keys = [&](const KeyRing& ring, const CUtensorMap& map, int tile) {
        ring.producer_acquire(use);
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab) {
          ring.copy(use, slab * kKeys * 128, map, slab * 64, work.key_row + tile * kKeys, work.head_kv, batch);
        }
      };
      // A stage for the first keys may be free before one for the queries.
      if (last >= first) copy_keys(keys, k, last);
      queries.producer_acquire(query_use, [&] {
        if constexpr (kPacked<Params>) works[query_use % kTile.query_stages] = work;
      });
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int slab = 0; slab < kSlabs; ++slab) {
          queries.copy(query_use, group * kGroupBytes + slab * 64 * 128, q, slab * 64,
                       work.query_row + work.first_query + 64 * group, work.head, batch);
        }
      }
      ++query_use;
      for (int tile = last; tile >= first; --tile, ++use) {
        if (tile < last) copy_keys(keys, k, tile);
        copy_keys(values, v, tile);
      }
    });
    if constexpr (kPacked<Params>) {
      queries.producer_commit(query_use, [&] { works[query_use % kTile.query_stages].seq_q = 0; });  // no more work
    }
  }

  static __device__ __forceinline__ void multiply_keys(float (&scores)[1][kKeyTiles][4], uint32_t queries,
                                                       uint32_t keys) {
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int slab = step / 4, of_slab = step % 4;
      const uint64_t q = wgmma_rows(queries + slab * 64 * 128) + 2 * of_slab;
      const uint64_t k = wgmma_rows(keys + slab * kKeys * 128) + 2 * of_slab;
      Wgmma::scores(scores[0], q, k, step > 0);
    }
    wgmma_commit();
  }
  static __device__ __forceinline__ void multiply_values(float (&out)[1][kHeadDim / 8][4],
                                                         const PackedWeights<kKeyTiles>& weights, uint32_t values) {
    const uint64_t v = wgmma_columns(values, kKeys * 128);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) Wgmma::values(out[0], weights.a[n], v + 128 * n);
    wgmma_commit();
  }

  static __device__ __forceinline__ void attend(const Params& p, const FlashAttentionSchedule& schedule,
                                                const FlashAttentionWork* works, const KeyRing& keys,
                                                const KeyRing& values, const QueryRing& queries,
                                                unsigned char* queries_at) {
    const int warp = threadIdx.x / 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // warp-uniform for the compiler
    const auto exponents = exponents_of(p);
    int use = 0, query_use = 0;
    for (int round = 0;; ++round) {
      FlashAttentionWork work;
      if constexpr (kPacked<Params>) {
        queries.consumer_wait(query_use);
        work = works[query_use % kTile.query_stages];
        if (work.seq_q == 0) break;  // a work has queries
      } else {
        if (tile_of_round(round) >= static_cast<unsigned>(schedule.blocks)) break;
        work = work_of_block<kWindowed>(p, schedule, tile_of_round(round), kQueries);
      }
      const int last = last_key_tile(work), first = first_key_tile(work);
      const int first_query = work.first_query + 16 * warp;

      float out[1][kHeadDim / 8][4] = {};
      SplitSoftmax softmax;
      if constexpr (!kPacked<Params>) queries.consumer_wait(query_use);
      if (last >= first) {
        const uint32_t group_queries = queries.stage(query_use) + group * kGroupBytes;
        typename BiasOf<Params, Element, kKeyTiles>::Type bias(p, work, first_query);
        const auto mask = [&](float (&scores)[1][kKeyTiles][4], int tile) {
          bias.add_to(scores, tile * kKeys);
          mask_scores<kWindowed>(scores, first_query, tile * kKeys, work.seq_kv, work.diagonal, p.causal, p.window);
        };
        float scores[1][kKeyTiles][4] = {};
        PackedWeights<kKeyTiles> weights;
        keys.consumer_wait(use);
        warpgroup_fence_operand(scores[0]);
        wgmma_fence();
        multiply_keys(scores, group_queries, keys.stage(use));
        bias.ask_for(last * kKeys);
        wgmma_wait<0>();
        warpgroup_fence_operand(scores[0]);
        keys.consumer_release(use);
        mask(scores, last);
        softmax.exp_and_sum(scores, exponents);
        weights.template take<Element>(scores);

        for (int tile = last - 1; tile >= first; --tile) {
          ++use;
          keys.consumer_wait(use);
          warpgroup_fence_operand(scores[0]);
          warpgroup_fence_operand(out[0]);
          weights.fence_operand();
          wgmma_fence();
          multiply_keys(scores, group_queries, keys.stage(use));
          bias.ask_for(tile * kKeys);
          values.consumer_wait(use - 1);
          if (kPacked<Params> && tile == last - 1) clear_values(work, last, values.stage(use - 1), group);
          wgmma_fence();
          multiply_values(out, weights, values.stage(use - 1));
          wgmma_wait<1>();
          warpgroup_fence_operand(scores[0]);
          keys.consumer_release(use);
          mask(scores, tile);
          const bool rescales = softmax.exp_and_sum(scores, exponents);
          warpgroup_fence_operand(scores[0]);
          // Outside the branch: all warps of the warpgroup must execute the same wait, and not all of them rescale.
          wgmma_wait<0>();
          warpgroup_fence_operand(out[0]);
          if (rescales) softmax.rescale(out);
          weights.fence_operand();
          values.consumer_release(use - 1);
          weights.template take<Element>(scores);
        }

        values.consumer_wait(use);
        if (kPacked<Params> && last == first) clear_values(work, last, values.stage(use), group);
        warpgroup_fence_operand(out[0]);
        weights.fence_operand();
        wgmma_fence();
        multiply_values(out, weights, values.stage(use));
        wgmma_wait<0>();
        warpgroup_fence_operand(out[0]);
        weights.fence_operand();
        values.consumer_release(use);
        ++use;
      }

      // The warpgroup has read its queries; each warp stages its output rows in a quarter of their memory.
      asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
      Element* to = query_rows(static_cast<Element*>(p.out), p.out_strides, work) + first_query * p.out_strides.row;
      unsigned char* staged = queries_at + query_use % kTile.query_stages * (kGroups * kGroupBytes) + warp * 16 * kRowBytes;
      store_out<Element, kHeadDim>(out, softmax, staged, to, p.out_strides.row, work.seq_q - first_query);
      if (p.lse != nullptr) {
        store_log_sum_exp<1>(softmax, p.scale, exponents, lse_rows(p, work) + first_query,
                             work.seq_q - first_query);
      }
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");  // TMA writes there next
      __syncwarp();
      queries.consumer_release(query_use);
      ++query_use;
    }
    if constexpr (kPacked<Params>) {
      const int heads = p.batch * p.heads_q;
      const FlashAttentionSchedule of_heads{1, heads, heads};
      for (int head = blockIdx.x; head < heads; head += gridDim.x) {
        const FlashAttentionWork work = work_of_block<kWindowed>(p, of_heads, head, kQueries);
        zero_uncovered_rows<Element>(p, of_heads, work, kQueries, kCopier);
      }
    }
  }
};

// The tile as separate integers: nvcc 13.0 accepts no kernel with a struct as template argument.
template <typename Element, int kHeadDim, int kGroups, int kKeys, int kStages, int kQueryStages, int kBlocks, bool kWindowed,
          typename Params, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    flash_attention_sm90a_kernel(const Params p, const FlashAttentionSchedule schedule,
                                 const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                                 const __grid_constant__ CUtensorMap v) {
  constexpr FlashAttentionSm90aTile kTile{kGroups, kKeys, kStages, kQueryStages, kBlocks};
  Sm90aKernel<Element, kHeadDim, kTile, kWindowed, Params>::run(p, schedule, q, k, v);
}

// Launches as many blocks as fit on the GPU; a block prefetches the next tile's queries and keys during this tile.
template <typename Element, int kHeadDim, FlashAttentionSm90aTile kTile, bool kWindowed, typename Params>
cudaError_t launch_sm90a(const Params& p, cudaStream_t stream) {
  using K = Sm90aKernel<Element, kHeadDim, kTile, kWindowed, Params>;
  using Shape = typename K::Shape;
  const auto kernel = flash_attention_sm90a_kernel<Element, kHeadDim, kTile.groups, kTile.keys, kTile.stages,
                                                   kTile.query_stages, kTile.blocks, kWindowed, Params, Shape>;
  FlashAttentionSchedule schedule;
  if (cudaError_t error = make_schedule(p, K::kQueries, sizeof(Element), &schedule); error != cudaSuccess) return error;
  if (schedule.blocks == 0) return cudaSuccess;
  CUtensorMap q, k, v;
  HeadSizes queries{p.batch, p.heads_q, p.seq_q, p.head_dim}, keys{p.batch, p.heads_kv, p.seq_kv, p.head_dim};
  if constexpr (kPacked<Params>) {
    queries.batch = keys.batch = 1;
    queries.rows = p.total_q;
    keys.rows = p.total_kv;
  }
  cudaError_t status = map_rows(q, p.q, p.q_strides, queries, 64);
  if (status == cudaSuccess) status = map_rows(k, p.k, p.k_strides, keys, K::kKeys);
  if (status == cudaSuccess) status = map_rows(v, p.v, p.v_strides, keys, K::kKeys);
  if (status == cudaSuccess) {
    status = allow_dynamic_shared_bytes(kernel, Shape::kDynamicSharedBytes);
  }
  int processors = 0;
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status != cudaSuccess) return status;
  int blocks = std::min(schedule.blocks, processors * kTile.blocks);
  if constexpr (kPacked<Params>) {
    if (cudaError_t error = cudaMemsetAsync(p.next_tile, 0, sizeof(int), stream); error != cudaSuccess) return error;
  } else {
    blocks = share_out(p, processors, blocks, schedule);
  }
  kernel<<<blocks, Shape::kThreads, Shape::kDynamicSharedBytes, stream>>>(p, schedule, q, k, v);
  return cudaGetLastError();
}

}  // namespace
}  // namespace warpwatch
