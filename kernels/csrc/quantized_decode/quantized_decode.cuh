// Decode attention over quantized keys and values, for any format; sm_75 and newer.
//
// Warp w of a block processes tiles w, w + warps, ... of 32 keys and values. A tile keeps the rows as they lie in the cache,
// with 16-byte chunks swizzled (primitives/swizzle.cuh). Keys and values are the 16-row operand (A) of the mma and queries the
// 8-column operand (B): there are rarely more than 8 queries, so this halves the mma work and the accumulators. ldmatrix gives
// a lane (g = l / 4, t = l % 4) word t of key g's chunk; of a chunk of values, bytes 2 g and 2 g + 1 of keys 2 t and 2 t + 1,
// adjacent, as mma needs neighbours along k. So codes become fp16 in registers by masks alone. The masks add a bias of 1024 or
// 64. It is subtracted from the values' codes one by one, exactly; from the scores it is subtracted in fp32, as bias times the
// sum of the query's columns.
//
// Layout: of a tile, lane l holds the scores of keys 8 n + g, n = 0 .. 3, and queries 8 r + 2 t + e, e = 0,
// 1, as scores[r][n][e]. Packed in pairs and transposed (movmatrix) they become the B fragments of the
// weights: keys 8 n + 2 t + e of query 8 r + g.
//
// A Format defines how codes are copied, how a tile is multiplied, and whether values have one scale per key. Such a scale is
// folded into the weights: out = sum of (2^(score - top) scale) code / sum of 2^(score - top), with `top` the maximum of
// score + log2(scale). So the fp16 weights lie in 0 .. 1 whatever the magnitude of the values.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "decode_attention/decode_attention_launch.cuh"
#include "decode_attention/decode_attention_merge.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/byte_mma.cuh"
#include "primitives/dependent_launch.cuh"
#include "primitives/element.cuh"
#include "primitives/launch_shape.h"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/swizzle.cuh"
#include "quantized_decode/quantized_decode_tiles.h"
#include "quantized_decode/quantized_decode_words.cuh"

namespace warpwatch {

// A tile of codes in shared memory: 32 rows as they lie in the cache, with swizzled 16-byte chunks.

constexpr int kQuantizedKeys = 32;  // per tile

// Offset of a row's 16-byte chunk within a tile (primitives/swizzle.cuh). Rows of 32 bytes are swizzled in pairs.
template <int RowBytes>
__device__ __forceinline__ constexpr uint32_t quantized_place(int row, int chunk) {
  if constexpr (RowBytes == 32) {
    return swizzled<64>(row / 2, row % 2 * 2 + chunk);
  } else {
    return swizzled<RowBytes>(row, chunk);
  }
}

// One warp copies a tile's 32 rows of RowBytes; rows from `live` on are filled with zeros.
template <int RowBytes, typename Copy>
__device__ __forceinline__ void copy_quantized_rows(uint32_t tile, const void* first_row, int64_t stride, int live) {
  constexpr int kChunks = RowBytes / 16;
  constexpr int kRows = 32 / kChunks;  // per step: 512 bytes
  const int first = threadIdx.x % 32 / kChunks;
  const int chunk = threadIdx.x % kChunks;
  const uint32_t to = tile + quantized_place<RowBytes>(first, chunk);
  const auto copy = [&](auto all) {
    const unsigned char* from = static_cast<const unsigned char*>(first_row) + first * stride + 16 * chunk;
#pragma unroll
    for (int row = 0; row < kQuantizedKeys; row += kRows) {
      // `first` and `row` share no bits, so the swizzle of their sum is the xor of both swizzles.
      const uint32_t by = quantized_place<RowBytes>(row, 0) - row * RowBytes;
      Copy::template run<16>((to ^ by) + row * RowBytes, from, decltype(all)::value || first + row < live);
      from += kRows * stride;
    }
  };
  if (live >= kQuantizedKeys) {
    copy(std::true_type{});
  } else {
    copy(std::false_type{});
  }
}

// The lane's ldmatrix row address in a tile. Chunk c is at `^ (c << 4)`, since tiles start on multiples of 256 bytes.
template <int RowBytes>
__device__ __forceinline__ uint32_t quantized_row_of_lane(uint32_t tile) {
  return tile + quantized_place<RowBytes>(threadIdx.x % 32, 0);
}

// The block's packed queries as fp16 B fragments, with columns permuted to the order in which lanes hold the keys' words.
//
// Any order of columns within a product is correct if both operands use it. Of each 16-byte chunk of a key, a lane with
// t = lane % 4 holds one word of WordDims consecutive columns. For mma step `sub`, half p = 0, 1 of a fragment's k, it uses
// columns 2 sub + p and 2 sub + p + WordDims / 2: those that one mask extracts from a word together.
//
// Each row is divided by a power of two so that its largest magnitude lies in [1, 2). Then no product with a scale overflows
// fp16, and bf16 queries fit it. The power is multiplied back into the scores in fp32.

// RowTiles tiles of eight queries: a lane holds columns of query 8 r + lane / 4; power and sum follow the layout of the scores,
// queries 8 r + 2 t and 8 r + 2 t + 1.
template <int HeadDim, int WordDims, int RowTiles>
struct QuantizedDecodeQueries {
  static constexpr int kWords = HeadDim / 4 / WordDims;  // per key and lane
  static constexpr int kSubs = WordDims / 4;             // mma steps per word

  // The lane's columns as loaded by load().
  struct Raw {
    uint32_t words[RowTiles][kWords][WordDims / 2];
  };

  uint32_t b[RowTiles][kWords][kSubs][2];
  float power[RowTiles][2];
  float sum[RowTiles][2];  // of the query's columns, as rounded in the fragments

  // First column of the lane's word.
  static __device__ __forceinline__ int column(int word) { return (4 * word + threadIdx.x % 4) * WordDims; }

  template <typename Element>
  static __device__ __forceinline__ void load(Raw& raw, const DecodeAttentionParams& p, const DecodeAttentionWork& work) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      const int row = 8 * r + threadIdx.x % 32 / 4;
      const bool live = row < work.rows;
      const Element* from = query_row<Element>(p, work, live ? row : 0);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < WordDims / 2; ++i) raw.words[r][w][i] = 0;
        if (live) load_words(raw.words[r][w], from + column(w));
      }
    }
  }

  template <typename Element>
  __device__ __forceinline__ void take(const Raw& raw) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      float largest = 0.0f;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int i = 0; i < WordDims; ++i) largest = fmaxf(largest, fabsf(element<Element>(raw.words[r][w], i)));
      }
      const int biased = static_cast<int>(__float_as_uint(quad_max(largest)) >> 23);
      const int exponent = min(max(biased - 127, -100), 126);
      const float own_power = __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
      const float inverse = __uint_as_float(static_cast<uint32_t>(127 - exponent) << 23);
      float own_sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int sub = 0; sub < kSubs; ++sub) {
#pragma unroll
          for (int pair = 0; pair < 2; ++pair) {
            const int i = 2 * sub + pair;
            b[r][w][sub][pair] = pack<__half>(inverse * element<Element>(raw.words[r][w], i),
                                              inverse * element<Element>(raw.words[r][w], i + WordDims / 2));
            const float2 rounded = __half22float2(as_half2(b[r][w][sub][pair]));
            own_sum += rounded.x + rounded.y;
          }
        }
      }
      own_sum = quad_sum(own_sum);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        power[r][e] = __shfl_sync(0xffffffffu, own_power, 4 * (2 * t + e));
        sum[r][e] = __shfl_sync(0xffffffffu, own_sum, 4 * (2 * t + e));
      }
    }
  }

 private:
  template <typename Element>
  static __device__ __forceinline__ float element(const uint32_t* raw, int i) {
    const uint16_t bits = static_cast<uint16_t>(raw[i / 2] >> (16 * (i % 2)));
    return as_float(*reinterpret_cast<const Element*>(&bits));
  }
};

// Transposes an 8 x 8 matrix of 16-bit elements: in, a lane holds two neighbours of row
// g; out, rows 2 t and 2 t + 1 of column g.
__device__ __forceinline__ uint32_t transposed(uint32_t pair) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(result) : "r"(pair));
  return result;
}

// A lane's accumulators of queries 8 r + 2 t and 8 r + 2 t + 1: the output, 16 columns per mma tile.
template <int HeadDim, int RowTiles>
struct QuantizedDecodeSums {
  float out[RowTiles][HeadDim / 16][4] = {};

  __device__ __forceinline__ void rescale(int r, const float (&factor)[2]) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int j = 0; j < HeadDim / 16; ++j) out[r][j][c] *= factor[c % 2];
    }
  }
};

// Mma: HalfMmaSm75, or FloatMmaSm80<__half>, which also selects cp.async. Element: type of q and out.
template <typename Mma, typename Element, int HeadDim, int RowTiles, typename Format, int Warps, int Stages>
struct QuantizedDecode {
  static constexpr bool kAsync = Stages > 1;
  static constexpr int kRows = 8 * RowTiles;
  static constexpr int kRingBytes = Warps * Stages * Format::kStageBytes;
  static constexpr int kColumns = kMergeColumns<HeadDim, 1>;
  using Space = MergeSpace<Warps, kRows, kColumns>;
  using Queries = typename Format::Queries;
  static constexpr int kSharedBytes = std::max<int>(kRingBytes, sizeof(Space));
  using Shape = LaunchShape<32 * Warps, kSharedBytes>;
  static constexpr float scale_log2(const DecodeAttentionParams&) { return 1.0f; }  // row_max is already in powers of two

  typename Format::Sums sums;
  float row_max[RowTiles][2];  // of score + log2(value's scale); equal in lanes with the same t
  float row_sum[RowTiles][2];  // of this lane's keys only
  float factor[RowTiles][2];   // turns a query's products into log2 of weights

  __device__ __forceinline__ explicit QuantizedDecode(const Queries& queries, float scale) {
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        row_max[r][e] = -INFINITY;
        row_sum[r][e] = 0.0f;
        factor[r][e] = scale * kLog2E * queries.power[r][e];
      }
    }
  }

  // Replaces scores by weights times the values' scales, packed as B fragments; rescales the sums where a maximum rises.
  __device__ __forceinline__ void exp_and_sum(uint32_t (&b)[RowTiles][4], float (&scores)[RowTiles][4][2],
                                        const float (&scales)[4], const float (&logs)[4], const DecodeAttentionParams& p,
                                        const DecodeAttentionWork& work, int key) {
    const bool all_seen = key + kQuantizedKeys <= work.length - p.seq_q + 1;  // by every row, as in most tiles
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
      float top[2], base[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int n = 0; n < 4; ++n) scores[r][n][e] *= factor[r][e];
        if (!all_seen) {
          // Relative to this lane's first key.
          const int lane = threadIdx.x % 32;
          const int seen = keys_seen_by_row(p, work, 8 * r + 2 * (lane % 4) + e) - key - lane / 4;
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            if (8 * n >= seen) scores[r][n][e] = -INFINITY;
          }
        }
        top[e] = row_max[r][e];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          top[e] = fmaxf(top[e], Format::kScaledValues ? scores[r][n][e] + logs[n] : scores[r][n][e]);
        }
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
#pragma unroll
        for (int e = 0; e < 2; ++e) top[e] = fmaxf(top[e], __shfl_xor_sync(0xffffffffu, top[e], step));
      }
      // A row that has seen no key has the maximum -inf. Subtracting 0 instead gives weights 0, not exp2(-inf + inf).
#pragma unroll
      for (int e = 0; e < 2; ++e) base[e] = top[e] == -INFINITY ? 0.0f : top[e];
      // After the first tiles a maximum rarely rises. If none of the warp's rows has a new one, all factors are 1: skip.
      if (__any_sync(0xffffffffu, top[0] != row_max[r][0] || top[1] != row_max[r][1])) {
        float factor[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          factor[e] = exp2_approximate(row_max[r][e] - base[e]);
          row_sum[r][e] *= factor[e];
          row_max[r][e] = top[e];
        }
        sums.rescale(r, factor);
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float weight[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          weight[e] = exp2_approximate(scores[r][n][e] - base[e]);
          row_sum[r][e] += weight[e];
          if constexpr (Format::kScaledValues) weight[e] *= scales[n];
        }
        b[r][n] = transposed(pack<__half>(weight[0], weight[1]));
      }
    }
  }

  // Processes one tile. `tile` has score(), add_values() and, if values are scaled, scales().
  template <typename Tile>
  __device__ __forceinline__ void add(const Tile& tile, const Queries& queries, const DecodeAttentionParams& p,
                                      const DecodeAttentionWork& work, int key) {
    float products[RowTiles][2][4];
    tile.template score<Mma>(products, queries);
    float scores[RowTiles][4][2];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) scores[r][n][e] = products[r][n / 2][n % 2 * 2 + e];
      }
    }
    float scales[4], logs[4];
    if constexpr (Format::kScaledValues) tile.scales(scales, logs);
    uint32_t b[RowTiles][4];
    exp_and_sum(b, scores, scales, logs, p, work, key);
    tile.template add_values<Mma>(sums, b);
  }

  // Merges the block's warps and stores. All threads of the block must call it, once no tile is needed any more.
  __device__ __forceinline__ void finish(unsigned char* shared, const DecodeAttentionParams& p,
                                         const DecodeAttentionWork& work) const {
    auto& space = *reinterpret_cast<Space*>(shared);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    constexpr int kNear = Format::kNear;  // consecutive columns per lane, from kNear / 2 mma tiles
#pragma unroll
    for (int first = 0; first < HeadDim; first += kColumns) {
      __syncthreads();  // all warps are done with their tiles, or with the previous columns
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = 8 * r + 2 * (lane % 4) + e;
          if (first == 0) {
            float sum = row_sum[r][e];
#pragma unroll
            for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
            if (lane < 4) {
              space.row_max[warp][row] = row_max[r][e];
              space.row_sum[warp][row] = sum;
            }
          }
#pragma unroll
          for (int j = first / 16; j < (first + kColumns) / 16; j += kNear / 2) {
            float* const to = &space.out[warp][row][16 * j - first + kNear * (lane / 4)];
#pragma unroll
            for (int i = 0; i < kNear / 2; ++i) {
              *reinterpret_cast<float2*>(to + 2 * i) = make_float2(sums.out[r][j + i][e], sums.out[r][j + i][2 + e]);
            }
          }
        }
      }
      __syncthreads();
      merge_columns<Element, HeadDim>(space, p, work, RawScores{scale_log2(p)}, first);
    }
  }

  static __device__ __forceinline__ void run(const DecodeAttentionParams& p, const typename Format::Cache& cache) {
    extern __shared__ __align__(1024) unsigned char shared[];
    launch_dependents();  // the combine kernel, which waits for the end of this one
    const int warp = threadIdx.x / 32;
    unsigned char* const ring = shared + warp * Stages * Format::kStageBytes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows, kQuantizedKeys>(p, blockIdx.x);
    typename Queries::Raw raw;
    Queries::template load<Element>(raw, p, work);  // issued first, ahead of the tiles' copies
    const typename Format::Head head(cache, work.batch, work.head_kv);
    const int end_codes = Format::end_of_codes(work);

    constexpr int kStride = Warps * kQuantizedKeys;  // between consecutive tiles of a warp
    int key = work.first_key + warp * kQuantizedKeys;
    const auto copy = [&](int coming, int stage) {
      if (coming < end_codes) {
        const uint32_t tile = shared_address(ring) + stage * Format::kStageBytes;
        Format::template copy<PieceCopy<kAsync>>(tile, head, coming, end_codes);
      }
    };
    if constexpr (kAsync) {
#pragma unroll
      for (int stage = 0; stage < Stages - 1; ++stage) {
        copy(key + stage * kStride, stage);
        cp_async_commit();
      }
    }
    Queries queries;
    queries.template take<Element>(raw);
    QuantizedDecode state(queries, p.scale);

    int stage = 0;
    for (; key < end_codes; key += kStride) {
      if constexpr (kAsync) {
        cp_async_wait<Stages - 2>();
        __syncwarp();  // the tile has landed for all lanes, and all have read the stage that is overwritten next
        copy(key + (Stages - 1) * kStride, stage == 0 ? Stages - 1 : stage - 1);
        cp_async_commit();  // committed even if empty, so that the group count tells which tile has landed
      } else {
        __syncwarp();  // all lanes have read the previous tile
        copy(key, 0);
        __syncwarp();
      }
      state.add(typename Format::Tile(ring + stage * Format::kStageBytes), queries, p, work, key);
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    if constexpr (kAsync) cp_async_wait<0>();

    // Recomputed: keeping it across the loop would cost registers.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const DecodeAttentionWork again = decode_attention_work_of_block<kRows, kQuantizedKeys>(p, block);
    if constexpr (Format::kHasWindow) {
      if (key < again.end_key) {
        const typename Format::Head of_window(cache, again.batch, again.head_kv);
        state.add(typename Format::WindowTile(of_window, key, again.length), queries, p, again, key);
      }
    }
    state.finish(shared, p, again);
  }
};

// Calls `launch` with the template arguments <Element, HeadDim, RowTiles> for this problem.
template <typename Launch>
cudaError_t with_quantized_shape(const DecodeAttentionParams& p, const Launch& launch) {
  const bool two = quantized_decode_row_tiles(decode_attention_rows(p), p.head_dim) == 2;
  return with_16_bit_element(p, [&]<typename Element>() {
    switch (p.head_dim) {
      case 64: return two ? launch.template operator()<Element, 64, 2>() : launch.template operator()<Element, 64, 1>();
      case 128: return two ? launch.template operator()<Element, 128, 2>() : launch.template operator()<Element, 128, 1>();
      case 256: return launch.template operator()<Element, 256, 1>();
      default: return cudaErrorInvalidValue;
    }
  });
}

}  // namespace warpwatch
