// dk and dv for Hopper: a block owns keys and loops over the query tiles that see them, of all heads that share the keys.
// The scores are transposed (rows are keys), so weights and ds are wgmma A operands in registers.
#pragma once

#include <algorithm>
#include <type_traits>

#include "flash_attention/flash_attention_backward_sm90a.cuh"
#include "flash_attention/flash_attention_backward_warp.cuh"
#include "flash_attention/flash_attention_warp.cuh"

namespace warpwatch {

// dq = ds k, from the ds that the dk/dv kernel has stored: one product instead of three. Hopper, head_dim 128.
//
// Layout of ds in memory: A fragments of this product. Per head there are tiles of 64 queries x 64 keys; per tile 4 x 4 pieces
// of 16 queries x 16 keys; per piece the four registers of each lane. Under the causal mask only tiles with a visible pair are
// stored.
// A block owns 256 queries, or 128 if 256 would leave blocks without work: two or one tile for each of its two consumer
// warpgroups. A producer warp copies keys by TMA; each consumer warp loads its own pieces of ds, three steps ahead.

namespace {

// Addresses the stored tiles of ds of the query heads from `first_head` on.
struct ScoreGradients {
  static constexpr int kTileBytes = 64 * 64 * 2;
  static constexpr int kPieceBytes = 16 * 16 * 2;

  unsigned char* memory;
  int first_head;  // of the batch * heads_q query heads
  int key_tiles;   // of 64 keys
  int tiles_of_head;
  bool causal;  // implies seq_q == seq_kv

  static ScoreGradients of_shape(const FlashAttentionParams& f) {
    const int query_tiles = static_cast<int>(ceil_div(f.seq_q, 64)), key_tiles = static_cast<int>(ceil_div(f.seq_kv, 64));
    const int64_t tiles = f.causal ? int64_t{query_tiles} * (query_tiles + 1) / 2 : int64_t{query_tiles} * key_tiles;
    return {nullptr, 0, key_tiles, tiles > INT_MAX ? INT_MAX : static_cast<int>(tiles), f.causal};
  }

  // Number of key tiles that this query tile sees.
  __device__ __forceinline__ int seen(int query_tile) const { return causal ? min(query_tile + 1, key_tiles) : key_tiles; }
  __device__ __forceinline__ unsigned char* tile(int head, int query_tile, int key_tile) const {
    const int row = causal ? query_tile * (query_tile + 1) / 2 : query_tile * key_tiles;
    return memory + (int64_t{head - first_head} * tiles_of_head + row + key_tile) * kTileBytes;
  }
};

// Transposes an 8 x 8 matrix of 16-bit elements that a warp holds in one register per lane.
__device__ __forceinline__ uint32_t transposed(uint32_t matrix) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(matrix));
  return out;
}

template <typename Element, int kParts>
struct QueryGradientOfScores {
  static constexpr int kHeadDim = 128, kGroups = 2, kQueries = 64 * kParts * kGroups, kKeys = 64, kStages = 6;
  static constexpr int kSteps = kParts;               // per key tile
  static constexpr int kPieces = kKeys / 16 / kSteps;  // pieces of 16 keys, per part and step
  static constexpr int kFirstProducer = 128 * kGroups;
  static constexpr int kThreads = kFirstProducer + 128;
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;  // per thread after setmaxnreg; 168 at launch
  static constexpr int kRowBytes = 2 * kHeadDim;
  using KeyRing = TmaRing<kStages, kKeys * kRowBytes, 4 * kGroups>;
  static constexpr int kRingBytes = (KeyRing::kBytes + 1023) / 1024 * 1024;
  using Shape = LaunchShape<kThreads, kRingBytes + 64 * kGroups * kRowBytes>;
  using Wgmma = HeadWgmma<Element>;

  struct Tile {
    int head, batch, head_kv;
    int first_query;
    int key_tiles;  // that the last of its queries sees

    // Longest tiles first; heads vary fastest.
    __device__ __forceinline__ Tile(const FlashAttentionParams& f, const ScoreGradients& ds, int heads, int tiles_of_head,
                                    unsigned number) {
      const int of_head = static_cast<int>(number) / heads;
      head = ds.first_head + static_cast<int>(number) - of_head * heads;
      batch = head / f.heads_q;
      head_kv = (head - batch * f.heads_q) / (f.heads_q / f.heads_kv);
      first_query = (tiles_of_head - 1 - of_head) * kQueries;
      key_tiles = ds.seen(min(first_query + kQueries, f.seq_q + 63) / 64 - 1);
    }
  };

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p, const ScoreGradients& ds, int heads,
                                             int tiles_of_head, const CUtensorMap& k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const KeyRing keys(shared);
    const FlashAttentionParams& f = p.forward;
    const auto tiles = static_cast<unsigned>(heads * tiles_of_head);
    grid_dependency_wait();  // ds is written by the previous kernel
    launch_dependents();
    int use = 0;
    if (threadIdx.x >= kFirstProducer) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kProducerRegisters));
      if (threadIdx.x > kFirstProducer) return;
      for (int round = 0; tile_of_round(round) < tiles; ++round) {
        const Tile tile(f, ds, heads, tiles_of_head, tile_of_round(round));
        for (int key_tile = 0; key_tile < tile.key_tiles; ++key_tile, ++use) {
          keys.producer_acquire(use);
          for (int slab = 0; slab < kHeadDim / 64; ++slab) {
            keys.copy(use, slab * kKeys * 128, k, slab * 64, key_tile * kKeys, tile.head_kv, tile.batch);
          }
        }
      }
      return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kConsumerRegisters));
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the shuffle makes it warp-uniform for the compiler
    for (int round = 0; tile_of_round(round) < tiles; ++round) {
      const Tile tile(f, ds, heads, tiles_of_head, tile_of_round(round));
      const int query_tile = tile.first_query / 64 + kParts * group;
      // Number of key tiles that each of the warpgroup's parts sees. The last part sees most, but may lie past the end.
      int seen[kParts], here = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        seen[part] = (query_tile + part) * 64 < f.seq_q ? ds.seen(query_tile + part) : 0;
        here = max(here, seen[part]);
      }
      const unsigned char* const from =
          ds.tile(tile.head, query_tile, 0) + warp % 4 * (4 * ScoreGradients::kPieceBytes) + lane * 16;
      const int64_t to_next_part = ds.tile(tile.head, query_tile + 1, 0) - ds.tile(tile.head, query_tile, 0);
      float dq[kParts][1][kHeadDim / 8][4] = {};
      struct Share {
        PackedWeights<2 * kPieces> of[kParts];
      } shares[4];
      const auto load_share = [&](Share& to, int i) {
        const unsigned char* const pieces =
            from + int64_t{i / kSteps} * ScoreGradients::kTileBytes + i % kSteps * (kPieces * ScoreGradients::kPieceBytes);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int is_there = i / kSteps < seen[part];
#pragma unroll
          for (int n = 0; n < kPieces; ++n) {
            uint32_t(&piece)[4] = to.of[part].a[n];
            piece[0] = piece[1] = piece[2] = piece[3] = 0;
            asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %5, 0;\n"
                         "@there ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}\n"
                         : "+r"(piece[0]), "+r"(piece[1]), "+r"(piece[2]), "+r"(piece[3])
                         : "l"(pieces + part * to_next_part + n * ScoreGradients::kPieceBytes), "r"(is_there)
                         : "memory");
          }
        }
      };
      const auto fence_operand = [&](Share& share) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          warpgroup_fence_operand(dq[part][0]);
          share.of[part].fence_operand();
        }
      };
      const auto step = [&](Share& share, Share& next_share, int i) {
        load_share(next_share, i + 3);
        if (i % kSteps == 0) keys.consumer_wait(use);
        fence_operand(share);
        wgmma_fence();
        const uint64_t b = wgmma_columns(keys.stage(use), kKeys * 128) + i % kSteps * (kPieces * 128);
#pragma unroll
        for (int n = 0; n < kPieces; ++n) {
#pragma unroll
          for (int part = 0; part < kParts; ++part) Wgmma::values(dq[part][0], share.of[part].a[n], b + 128 * n);
        }
        wgmma_commit();
        wgmma_wait<0>();
        fence_operand(share);
        if (i % kSteps == kSteps - 1) keys.consumer_release(use++);
      };
#pragma unroll
      for (int i = 0; i < 3; ++i) load_share(shares[i], i);
      for (int i = 0; i < kSteps * here; i += 4) {
        step(shares[0], shares[3], i);
        if (i + 1 == kSteps * here) break;
        step(shares[1], shares[0], i + 1);
        if (i + 2 == kSteps * here) break;
        step(shares[2], shares[1], i + 2);
        if (i + 3 == kSteps * here) break;
        step(shares[3], shares[2], i + 3);
      }
      for (int key_tile = here; key_tile < tile.key_tiles; ++key_tile) {  // key tiles that only the other warpgroup reads
        keys.consumer_wait(use);
        keys.consumer_release(use++);
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int first_row = (query_tile + part) * 64 + 16 * (warp % 4);
        Element* to = head_pointer(static_cast<Element*>(p.dq), p.dq_strides, tile.batch,
                                   tile.head - tile.batch * f.heads_q) + first_row * p.dq_strides.row;
        __syncwarp();  // all lanes have written; the previous content was read
        store_out<Element, kHeadDim>(dq[part], Factor{f.scale}, shared + kRingBytes + warp * 16 * kRowBytes, to,
                                     p.dq_strides.row, f.seq_q - first_row, f.head_dim);
      }
    }
  }
};

template <typename Element, int kParts, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    flash_attention_dq_of_ds_sm90a_kernel(const FlashAttentionBackwardParams p, const ScoreGradients ds, const int heads,
                                          const int tiles_of_head, const __grid_constant__ CUtensorMap k) {
  QueryGradientOfScores<Element, kParts>::run(p, ds, heads, tiles_of_head, k);
}

// Launches dq for `heads` query heads from ds.first_head on.
template <typename Element, int kParts>
cudaError_t launch_dq_of_ds_sm90a(const FlashAttentionBackwardParams& p, const ScoreGradients& ds, int heads, int processors,
                                  const CUtensorMap& k, cudaStream_t stream) {
  using Q = QueryGradientOfScores<Element, kParts>;
  using Shape = typename Q::Shape;
  const int tiles_of_head = static_cast<int>(ceil_div(p.forward.seq_q, Q::kQueries));
  return launch_behind<Shape>(flash_attention_dq_of_ds_sm90a_kernel<Element, kParts, Shape>,
                              std::min(heads * tiles_of_head, processors), stream, p, ds, heads, tiles_of_head, k);
}

// Under the causal mask, two rounds of tiles of 256 queries balance the blocks' loads; a single round does not.
template <typename Element>
cudaError_t launch_dq_of_ds_sm90a(const FlashAttentionBackwardParams& p, const ScoreGradients& ds, int heads,
                                  cudaStream_t stream) {
  BackwardMaps maps;
  int processors = 0;
  cudaError_t status = maps.encode(p, 64, 64);
  if (status == cudaSuccess) status = device_attribute(cudaDevAttrMultiProcessorCount, processors);
  if (status != cudaSuccess) return status;
  const int64_t large = heads * ceil_div(p.forward.seq_q, 256);
  return large > (p.forward.causal ? processors : processors / 2)
             ? launch_dq_of_ds_sm90a<Element, 2>(p, ds, heads, processors, maps.k, stream)
             : launch_dq_of_ds_sm90a<Element, 1>(p, ds, heads, processors, maps.k, stream);
}

}  // namespace

namespace {

// kStoresScoreGradients: stores ds in memory; the dq kernel runs next and reads it.
template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile, bool kStoresScoreGradients>
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
  // Whether ds^T q of one query tile stays in flight while the warpgroup computes the weights of the next. At head_dim 128 a
  // single tile keeps the tensor cores busy, and deferring is slower: figures in flash_attention_backward_sm90a.cuh.
  static constexpr bool kDefers = kHeadDim == 64;

  static __device__ __forceinline__ void run(const FlashAttentionBackwardParams& p, const KeySchedule& schedule,
                                             const ScoreGradients& left, const CUtensorMap& q, const CUtensorMap& d_out,
                                             const CUtensorMap& k, const CUtensorMap& v) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const QueryRing queries(shared);
    const OwnedRing keys(shared + kRingBytes);
    if constexpr (kStoresScoreGradients) {
      grid_dependency_wait();  // for the numbers; or until dq's kernel has read the previous heads' ds
      launch_dependents();
    }
    if (threadIdx.x >= Base::kFirstProducer) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Base::kProducerRegisters));
      if (threadIdx.x == Base::kFirstProducer) copy(p, schedule, q, d_out, k, v, queries, keys);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Base::kConsumerRegisters));
      differentiate(p, schedule, left, queries, keys, shared, shared + kRingBytes);
      // The dq kernel may still be running (it was launched behind the numbers), and this kernel reads nothing that it writes.
      // But the next kernel in the stream may read dq once this one has ended, so this one must not end first.
      if constexpr (!kStoresScoreGradients) grid_dependency_wait();
    }
  }

 private:
  static __device__ __forceinline__ void copy(const FlashAttentionBackwardParams& p, const KeySchedule& schedule,
                                              const CUtensorMap& q, const CUtensorMap& d_out, const CUtensorMap& k,
                                              const CUtensorMap& v, const QueryRing& queries, const OwnedRing& keys) {
    const int sharing = p.forward.heads_q / p.forward.heads_kv;
    int use = 0;
    for (int round = 0; tile_of_round(round) < static_cast<unsigned>(schedule.tiles); ++round) {
      const KeyWork work = schedule.work(p.forward, tile_of_round(round), Base::kOwned, kColumns);
      Base::copy_owned(keys, round, k, v, work.first_key, work.head_kv, work.batch);
      for (int head = work.head_kv * sharing; head < (work.head_kv + 1) * sharing; ++head) {
        for (int query = work.begin; query < work.end; query += kColumns, ++use) {
          Base::copy_columns(queries, use, q, d_out, query, head, work.batch);
          queries.copy_bytes(use, 2 * kColumnBytes, QueryNumbers::of(p, work.batch, head, query), QueryNumbers::kBytes);
        }
      }
    }
  }

  // Stores the ds of a warp's 16 keys and 64 queries in the layout that dq's kernel loads: transposed, rows are queries.
  static __device__ __forceinline__ void store_score_gradients(const ScoreGradients& left,
                                                               const PackedWeights<kColumnTiles>& d_scores, int head,
                                                               int first_query, int first_key, int seq_kv) {
    const int query_tile = first_query / 64, key_tile = first_key / 64, lane = threadIdx.x % 32;
    if (key_tile >= left.seen(query_tile)) return;
    // ds of keys past the end may be infinite; store zeros instead.
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
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // the shuffle makes it warp-uniform for the compiler
    const int sharing = f.heads_q / f.heads_kv;
    int use = 0;
    for (int round = 0; tile_of_round(round) < static_cast<unsigned>(schedule.tiles); ++round) {
      const KeyWork work = schedule.work(f, tile_of_round(round), Base::kOwned, kColumns);
      const int first_key = work.first_key + 16 * warp;
      float dk[1][kHeadDim / 8][4] = {};
      float dv[1][kHeadDim / 8][4] = {};
      keys.consumer_wait(round);
      // Keys are held in registers at head_dim 64 only; at 128 no registers are left.
      const uint32_t keys_at_group = keys.stage(round) + group * kGroupBytes;
      std::conditional_t<kHeadDim == 64, typename Base::Rows, typename Base::RowsInShared> key_rows, value_rows;
      key_rows.load(keys_at_group);
      value_rows.load(keys_at_group + kOwnedBytes);
      PackedWeights<kColumnTiles> d_scores;
      const auto step = [&](auto is_first, int head, int first_query) {
        constexpr bool kIsFirst = decltype(is_first)::value || !kDefers;
        float weights[1][kColumnTiles][4], d_weights[1][kColumnTiles][4];
        PackedWeights<kColumnTiles> packed;
        queries.consumer_wait(use);
        const uint32_t queries_here = queries.stage(use);
        const float* numbers =
            reinterpret_cast<const float*>(queries_at + use % kTile.stages * kStageBytes + 2 * kColumnBytes) +
            2 * (lane % 4);
        warpgroup_fence_operand(weights[0]);
        warpgroup_fence_operand(d_weights[0]);
        warpgroup_fence_operand(dk[0]);
        if constexpr (!kIsFirst) d_scores.fence_operand();
        wgmma_fence();
        Base::multiply_rows(weights, key_rows, queries_here);
        if constexpr (!kIsFirst) Base::add_product(dk, d_scores, queries.stage(use - 1));
        Base::multiply_rows(d_weights, value_rows, queries_here + kColumnBytes);
        wgmma_wait<kIsFirst ? 1 : 2>();
        warpgroup_fence_operand(weights[0]);
        if (f.causal) Base::mask_keys(weights, first_key, first_query, work.diagonal, f.window);
        Base::weigh_columns(weights, numbers, f.scale);
        packed.template take<Element>(weights);
        warpgroup_fence_operand(dv[0]);
        packed.fence_operand();
        wgmma_fence();
        Base::add_product(dv, packed, queries_here + kColumnBytes);
        wgmma_wait<1>();
        warpgroup_fence_operand(d_weights[0]);
        warpgroup_fence_operand(dk[0]);
        if constexpr (!kIsFirst) {
          d_scores.fence_operand();
          queries.consumer_release(use - 1);
        }
        Base::differentiate_columns(weights, d_weights, numbers);
        d_scores.template take<Element>(weights);
        if constexpr (!kDefers) {
          warpgroup_fence_operand(dk[0]);
          d_scores.fence_operand();
          wgmma_fence();
          Base::add_product(dk, d_scores, queries_here);
        }
        if constexpr (kStoresScoreGradients) {  // overlaps the running products, so it needs its own registers
          warpgroup_fence_operand(weights[0]);
          PackedWeights<kColumnTiles> leaving;
          leaving.template take<Element>(weights);
          store_score_gradients(left, leaving, head, first_query, first_key, f.seq_kv);
        }
        wgmma_wait<0>();
        warpgroup_fence_operand(dv[0]);
        packed.fence_operand();
        __syncwarp();  // all lanes have read the numbers
        if constexpr (!kDefers) {
          warpgroup_fence_operand(dk[0]);
          d_scores.fence_operand();
          queries.consumer_release(use);
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
        warpgroup_fence_operand(dk[0]);
        d_scores.fence_operand();
        wgmma_fence();
        Base::add_product(dk, d_scores, queries.stage(use - 1));
        wgmma_wait<0>();
        warpgroup_fence_operand(dk[0]);
        d_scores.fence_operand();
        queries.consumer_release(use - 1);
      }

      // Named barrier: the whole warpgroup has read its keys and values. Each warp overwrites a quarter with output.
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
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");  // before TMA writes to the stage again
      __syncwarp();
      keys.consumer_release(round);
    }
  }
};

// The tile's fields as separate template arguments: nvcc 13.0 cannot declare a kernel with a struct as template argument.
template <typename Element, int kHeadDim, int kGroups, int kColumns, int kStages, int kOwnedStages, int kBlocks,
          bool kStoresScoreGradients, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, kBlocks)
    flash_attention_dkdv_sm90a_kernel(const FlashAttentionBackwardParams p, const KeySchedule schedule,
                                      const ScoreGradients left, const __grid_constant__ CUtensorMap q,
                                      const __grid_constant__ CUtensorMap d_out,
                                      const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v) {
  constexpr FlashAttentionBackwardSm90aTile kTile{kGroups, kColumns, kStages, kOwnedStages, kBlocks};
  KeyGradientSm90a<Element, kHeadDim, kTile, kStoresScoreGradients>::run(p, schedule, left, q, d_out, k, v);
}

// Launches dk and dv for `heads` key heads from first_head on.
template <typename Element, int kHeadDim, FlashAttentionBackwardSm90aTile kTile, bool kStoresScoreGradients>
cudaError_t launch_dkdv_sm90a(const FlashAttentionBackwardParams& p, int first_head, int heads, const ScoreGradients& left,
                              cudaStream_t stream) {
  using K = KeyGradientSm90a<Element, kHeadDim, kTile, kStoresScoreGradients>;
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
                                        kTile.blocks, kStoresScoreGradients, Shape>,
      schedule.blocks, stream, p, schedule, left, maps.q, maps.d_out, maps.k, maps.v);
}

}  // namespace
}  // namespace warpwatch
