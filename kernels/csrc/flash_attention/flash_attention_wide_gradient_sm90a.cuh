// Gradients of head_dim 256 on Hopper. One gradient's accumulators take half of a thread's
// registers, so each gradient has its own kernel:
//
//   dq   rows are queries, columns keys:   s = q k^T,  dp = d_out v^T,  dq += ds k
//   dk   rows are keys, columns queries:   s = k q^T,  dp = v d_out^T,  dk += ds q
//   dv   rows are keys, columns queries:   s = k q^T,                   dv += p d_out
//
// The columns are loaded as two tensors: `first`, which gives the scores, and `second`. A block owns 128 rows of one or two
// tensors, 64 for each of its two consumer warpgroups. No product stays in flight from one step to the next: the other
// warpgroup fills the gap.
#pragma once

#include <type_traits>

#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_warp.cuh"

namespace warpwatch {
namespace {

enum class Gradient { kQueries, kKeys, kValues };

template <typename Element, Gradient kWhich>
struct WideGradientSm90a : BackwardSm90a<Element, 256, FlashAttentionBackwardSm90aTile{2, 64, 1, 1, 1}> {
  static constexpr int kHeadDim = 256;
  using Base = BackwardSm90a<Element, kHeadDim, FlashAttentionBackwardSm90aTile{2, 64, 1, 1, 1}>;
  using Base::kColumnBytes, Base::kColumns, Base::kColumnTiles, Base::kGroupBytes, Base::kGroups, Base::kOwned,
      Base::kOwnedBytes, Base::kRowBytes, Base::kSlabs;
  static constexpr bool kOfQueries = kWhich == Gradient::kQueries;
  static constexpr bool kOfValues = kWhich == Gradient::kValues;
  // Shared memory: stages of `first` and `second`, the owned rows, the query numbers of each stage of `second` if columns are
  // queries, and the mbarriers of the three rings.
  static constexpr int kFirstStages = 2, kSecondStages = kOfValues ? 2 : 1;
  static constexpr int kNumberBytes = kOfQueries ? 0 : QueryNumbers::kBytes;
  static constexpr int kSecondAt = kFirstStages * kColumnBytes;
  static constexpr int kOwnedAt = kSecondAt + kSecondStages * kColumnBytes;
  static constexpr int kAllOwnedBytes = (kOfValues ? 1 : 2) * kOwnedBytes;
  static constexpr int kNumbersAt = kOwnedAt + kAllOwnedBytes;
  static constexpr int kBarriersAt = kNumbersAt + kSecondStages * kNumberBytes;
  static constexpr int kSharedBytes = kBarriersAt + 16 * (kFirstStages + kSecondStages + 1);
  using First = TmaRing<kFirstStages, kColumnBytes, 4 * kGroups, kColumnBytes, kBarriersAt>;
  using Second = TmaRing<kSecondStages, kColumnBytes, 4 * kGroups, kColumnBytes + kNumberBytes,
                         kBarriersAt + 16 * kFirstStages - kSecondAt>;
  using Owned = TmaRing<1, kAllOwnedBytes, 4 * kGroups, kAllOwnedBytes,
                        kBarriersAt + 16 * (kFirstStages + kSecondStages) - kOwnedAt>;
  using Shape = LaunchShape<Base::kThreads, kSharedBytes>;
  using Schedule = std::conditional_t<kOfQueries, FlashAttentionSchedule, KeySchedule>;

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p, const Schedule& schedule,
                                             const BackwardMaps& maps) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const First first(shared, BeforePublish{});
    const Second second(shared + kSecondAt, BeforePublish{});
    const Owned owned(shared + kOwnedAt, BeforePublish{});
    publish_tma_rings();
    // The dq kernel waits for the numbers. The dk and dv kernels start after it, so the numbers are complete for them too.
    if constexpr (kOfQueries) grid_dependency_wait();
    launch_dependents();
    if (threadIdx.x >= Base::kFirstProducer) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Base::kProducerRegisters));
      if (threadIdx.x == Base::kFirstProducer) copy(p, schedule, maps, first, second, owned);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Base::kConsumerRegisters));
      differentiate(p, schedule, first, second, owned, shared);
      // This kernel reads nothing that the previous kernel writes. But the next kernel in the stream may, as soon as this one
      // has ended, so this one must not end first.
      if constexpr (!kOfQueries) grid_dependency_wait();
    }
  }

 private:
  // A block's tile: its rows and the columns they meet, in the order in which producer and consumers process them.
  struct Tile {
    std::conditional_t<kOfQueries, FlashAttentionWork, KeyWork> work;
    int row;         // the block's first
    int begin, end;  // columns; begin is a multiple of kColumns

    __device__ __forceinline__ Tile(const FlashAttentionParams& f, const Schedule& schedule, unsigned tile) {
      if constexpr (kOfQueries) {
        work = work_of_block<true>(f, schedule, tile, kOwned);
        row = work.first_query;
        begin = work.first_key / kColumns * kColumns;
        end = work.keys;
      } else {
        work = schedule.work(f, tile, kOwned, kColumns);
        row = work.first_key;
        begin = work.begin;
        end = work.end;
      }
    }
  };

  static __device__ __forceinline__ unsigned tiles_of(const Schedule& schedule) {
    if constexpr (kOfQueries) {
      return schedule.blocks;
    } else {
      return schedule.tiles;
    }
  }

  // Calls step(member, column) for each column tile; where columns are queries, for each query head that shares the keys.
  template <typename Step>
  static __device__ __forceinline__ void for_each_step(const FlashAttentionParams& f, const Tile& tile, const Step& step) {
    const int sharing = kOfQueries ? 1 : f.heads_q / f.heads_kv;
    for (int member = 0; member < sharing; ++member) {
      for (int column = tile.begin; column < tile.end; column += kColumns) step(member, column);
    }
  }

  template <typename Ring>
  static __device__ __forceinline__ void copy_rows(const Ring& ring, int use, int offset, const CUtensorMap& map, int row,
                                                   int head, int batch) {
#pragma unroll
    for (int slab = 0; slab < kSlabs; ++slab) {
      ring.copy(use, offset + slab * kColumns * 128, map, slab * 64, row, head, batch);
    }
  }

  static __device__ __forceinline__ void copy(const FlashAttentionBackwardParams& p, const Schedule& schedule,
                                              const BackwardMaps& maps, const First& first, const Second& second,
                                              const Owned& owned) {
    const FlashAttentionParams& f = p.forward;
    const CUtensorMap& first_map = kOfQueries ? maps.k : maps.q;
    const CUtensorMap& second_map = kOfQueries ? maps.v : maps.d_out;
    int use = 0;
    for (int round = 0; tile_of_round(round) < tiles_of(schedule); ++round) {
      const Tile tile(f, schedule, tile_of_round(round));
      const int batch = tile.work.batch;
      const auto copy_owned = [&] {
        int head;
        if constexpr (kOfQueries) {
          head = tile.work.head;
        } else {
          head = tile.work.head_kv;
        }
        owned.producer_acquire(round);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          copy_rows(owned, round, group * kGroupBytes, kOfQueries ? maps.q : maps.k, tile.row + 64 * group, head, batch);
          if constexpr (!kOfValues) {
            copy_rows(owned, round, kOwnedBytes + group * kGroupBytes, kOfQueries ? maps.d_out : maps.v,
                      tile.row + 64 * group, head, batch);
          }
        }
      };
      bool has_owned = false;
      for_each_step(f, tile, [&](int member, int column) {
        const int head = kOfQueries ? tile.work.head_kv : tile.work.head_kv * (f.heads_q / f.heads_kv) + member;
        first.producer_acquire(use);  // the first columns' stage may be free before the owned rows' stage
        copy_rows(first, use, 0, first_map, column, head, batch);
        if (!has_owned) copy_owned();
        has_owned = true;
        second.producer_acquire(use);
        copy_rows(second, use, 0, second_map, column, head, batch);
        if constexpr (!kOfQueries) {
          const int to = kNumbersAt + use % kSecondStages * kNumberBytes - kSecondAt - use % kSecondStages * kColumnBytes;
          second.copy_bytes(use, to, QueryNumbers::of(p, batch, head, column), QueryNumbers::kBytes);
        }
        ++use;
      });
      if (!has_owned) copy_owned();
    }
  }

  static __device__ __forceinline__ void differentiate(const FlashAttentionBackwardParams& p, const Schedule& schedule,
                                                       const First& first, const Second& second, const Owned& owned,
                                                       unsigned char* shared) {
    const FlashAttentionParams& f = p.forward;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the shuffle makes it warp-uniform for the compiler
    int use = 0;
    for (int round = 0; tile_of_round(round) < tiles_of(schedule); ++round) {
      const Tile tile(f, schedule, tile_of_round(round));
      const int first_row = tile.row + 16 * warp;
      float high[2], rest[2], delta[2];  // of the lane's two rows, where rows are queries
      if constexpr (kOfQueries) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int query = first_row + lane / 4 + 8 * half;
          const float* numbers = QueryNumbers::of(p, tile.work.batch, tile.work.head, query);
          high[half] = query < f.seq_q ? numbers[0] : INFINITY;
          rest[half] = query < f.seq_q ? numbers[QueryNumbers::kQueries] : 0.0f;
          delta[half] = query < f.seq_q ? numbers[2 * QueryNumbers::kQueries] : 0.0f;
        }
      }
      float sums[1][kHeadDim / 8][4] = {};
      owned.consumer_wait(round);
      const typename Base::RowsInShared rows{owned.stage(round) + group * kGroupBytes};
      const typename Base::RowsInShared other_rows{rows.rows + kOwnedBytes};
      for_each_step(f, tile, [&](int, int column) {
        float scores[1][kColumnTiles][4], d_weights[1][kColumnTiles][4];
        PackedWeights<kColumnTiles> packed;
        const float* numbers =
            reinterpret_cast<const float*>(shared + kNumbersAt + use % kSecondStages * kNumberBytes) + 2 * (lane % 4);
        first.consumer_wait(use);
        warpgroup_fence_operand(scores[0]);
        warpgroup_fence_operand(sums[0]);
        wgmma_fence();
        Base::multiply_rows(scores, rows, first.stage(use));
        second.consumer_wait(use);
        if constexpr (kOfValues) {
          wgmma_wait<0>();
        } else {
          warpgroup_fence_operand(d_weights[0]);
          wgmma_fence();
          Base::multiply_rows(d_weights, other_rows, second.stage(use));
          wgmma_wait<1>();
        }
        warpgroup_fence_operand(scores[0]);
        if constexpr (kOfValues) first.consumer_release(use);
        if constexpr (kOfQueries) {
          mask_scores<true>(scores, first_row, column, tile.work.seq_kv, tile.work.diagonal, f.causal, f.window);
          Base::weigh_rows(scores, high, rest, f.scale);
        } else {
          if (f.causal) Base::mask_keys(scores, first_row, column, tile.work.diagonal, f.window);
          Base::weigh_columns(scores, numbers, f.scale);
        }
        if constexpr (!kOfValues) {
          warpgroup_fence_operand(scores[0]);
          wgmma_wait<0>();
          warpgroup_fence_operand(d_weights[0]);
          if constexpr (kOfQueries) {
            second.consumer_release(use);
            Base::differentiate_rows(scores, d_weights, delta);
          } else {
            Base::differentiate_columns(scores, d_weights, numbers);
          }
        }
        packed.template take<Element>(scores);
        if constexpr (kWhich == Gradient::kKeys) {
          packed.fence_operand();  // also orders everything computed from the numbers
          __syncwarp();
          second.consumer_release(use);
        }
        warpgroup_fence_operand(sums[0]);
        packed.fence_operand();
        wgmma_fence();
        Base::add_product(sums, packed, kOfValues ? second.stage(use) : first.stage(use));
        wgmma_wait<0>();
        warpgroup_fence_operand(sums[0]);
        packed.fence_operand();
        if constexpr (kOfValues) {
          __syncwarp();  // all lanes have read the numbers
          second.consumer_release(use);
        } else {
          first.consumer_release(use);
        }
        ++use;
      });

      // Named barrier: the whole warpgroup has read its rows. Each warp overwrites a quarter of them with its output.
      asm volatile("bar.sync %0, 128;\n" ::"r"(1 + group) : "memory");
      unsigned char* staged = shared + kOwnedAt + warp * 16 * kRowBytes;
      const auto store = [&](void* gradient, const FlashAttentionStrides& strides, int head, int there, float factor) {
        Element* to = head_pointer(static_cast<Element*>(gradient), strides, tile.work.batch, head) + first_row * strides.row;
        store_out<Element, kHeadDim>(sums, Factor{factor}, staged, to, strides.row, there - first_row);
      };
      if constexpr (kOfQueries) {
        store(p.dq, p.dq_strides, tile.work.head, f.seq_q, f.scale);
      } else if constexpr (kOfValues) {
        store(p.dv, p.dv_strides, tile.work.head_kv, f.seq_kv, 1.0f);
      } else {
        store(p.dk, p.dk_strides, tile.work.head_kv, f.seq_kv, f.scale);
      }
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");  // before TMA writes to the stage again
      __syncwarp();
      owned.consumer_release(round);
    }
  }
};

template <typename Element, Gradient kWhich, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_wide_gradient_sm90a_kernel(const FlashAttentionBackwardParams p,
                                               const typename WideGradientSm90a<Element, kWhich>::Schedule schedule,
                                               const __grid_constant__ BackwardMaps maps) {
  WideGradientSm90a<Element, kWhich>::run(p, schedule, maps);
}

template <typename Element, Gradient kWhich>
cudaError_t launch_wide_gradient_sm90a(const FlashAttentionBackwardParams& p, cudaStream_t stream) {
  using W = WideGradientSm90a<Element, kWhich>;
  using Shape = typename W::Shape;
  typename W::Schedule schedule;
  BackwardMaps maps;
  int processors = 0;
  cudaError_t status = maps.encode(p, 64, 64);
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status != cudaSuccess) return status;
  int blocks;
  if constexpr (kWhich == Gradient::kQueries) {
    status = make_schedule(p.forward, W::kOwned, sizeof(Element), &schedule);
    if (status == cudaSuccess) blocks = share_out(p.forward, processors, processors, schedule);
  } else {
    status = KeySchedule::make(p.forward, 0, p.forward.batch * p.forward.heads_kv, W::kOwned, processors, schedule);
    if (status == cudaSuccess) blocks = schedule.blocks;
  }
  if (status != cudaSuccess) return status;
  return launch_behind<Shape>(flash_attention_wide_gradient_sm90a_kernel<Element, kWhich, Shape>, blocks, stream, p,
                              schedule, maps);
}

}  // namespace
}  // namespace warpwatch
