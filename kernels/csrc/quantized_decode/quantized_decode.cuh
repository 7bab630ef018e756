// Decode attention over quantized keys and values: what a block does, whatever their format; sm_75 and newer.
//
// Warp w of a block takes tiles w, w + warps, ... of 32 keys and values. A lane reads from shared memory only the pieces that
// it copied there itself, but for scales, in the order in which mma wants them: so nothing is transposed, no bank is asked
// twice, and codes become fp16 in registers, exactly.
//
// Of a tile, lane l (g = l / 4, t = l % 4) holds scores of keys 8 t .. 8 t + 7: column 2 t + e of mma's key tile n is key
// 8 t + 2 n + e, and so row 2 t + e of the values' k is that same key. Its columns of the values are, in mma's tile j, those
// that the format says.
//
// A Format says how codes are copied, how they become fragments, and whether values have one scale a key, which then goes
// into the weights: out = sum of (2^(score - top) scale) code / sum of 2^(score - top), with `top` the maximum of
// score + log2(scale). So the weights in fp16 lie in 0 .. 1, however small or large the values are.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "decode_attention/decode_attention_launch.cuh"
#include "decode_attention/decode_attention_merge.cuh"
#include "decode_attention/decode_attention_work.cuh"
#include "flash_attention/flash_attention_softmax.cuh"
#include "primitives/byte_mma.cuh"
#include "primitives/launch_shape.h"
#include "quantized_decode/quantized_decode_queries.cuh"
#include "quantized_decode/quantized_decode_tiles.h"
#include "quantized_decode/quantized_decode_words.cuh"

namespace warpwatch {

constexpr int kQuantizedKeys = 32;  // of a tile

// Within a tile, the key that lane l copies for column l / 4 of mma's key tile n.
__device__ __forceinline__ int quantized_key_of_lane(int n) {
  const int g = threadIdx.x % 32 / 4;
  return 8 * (g / 2) + 2 * n + g % 2;
}

// Mma: HalfMmaSm75, or FloatMmaSm80<__half>, which also stands for having cp.async. Element is that of q and out.
template <typename Mma, typename Element, int HeadDim, typename Format, int Warps, int Stages>
struct QuantizedDecode {
  static constexpr bool kAsync = Stages > 1;
  static constexpr int kRows = kQuantizedDecodeRows;
  static constexpr int kRingBytes = Warps * Stages * Format::kStageBytes;
  static constexpr int kColumns = kMergeColumns<HeadDim, 1>;
  using Space = MergeSpace<Warps, kRows, kColumns>;
  using Queries = typename Format::Queries;
  static constexpr int kSharedBytes = std::max<int>(kRingBytes + Queries::kSharedBytes, sizeof(Space));
  using Shape = LaunchShape<32 * Warps, kSharedBytes>;

  float out[HeadDim / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};  // of score + log2(scale of the value); the same in a quad
  float row_sum[2] = {0.0f, 0.0f};            // of this lane's keys
  float factor[2];                            // turns a row's products into log2 of weights

  // Scores become weights times the values' scales, packed as A fragments; what was summed shrinks to the new maximum.
  __device__ __forceinline__ void weigh(uint32_t (&a)[2][4], float (&scores)[4][4], const float (&scales)[4][2],
                                        const float (&logs)[4][2], const DecodeAttentionParams& p,
                                        const DecodeAttentionWork& work, int key) {
    const bool all_seen = key + kQuantizedKeys <= work.length - p.seq_q + 1;  // by every row, as in most tiles
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && work.rows <= 8) {
#pragma unroll
        for (int n = 0; n < 4; ++n) a[n / 2][n % 2 * 2 + 1] = 0;
        break;
      }
      float x[4][2];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        x[n][0] = scores[n][2 * half] * factor[half];
        x[n][1] = scores[n][2 * half + 1] * factor[half];
      }
      if (!all_seen) {
        // Counted from this lane's first key.
        const int lane = threadIdx.x % 32;
        const int seen = keys_seen_by_row(p, work, lane / 4 + 8 * half) - key - 8 * (lane % 4);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (2 * n >= seen) x[n][0] = -INFINITY;
          if (2 * n + 1 >= seen) x[n][1] = -INFINITY;
        }
      }
      float top = row_max[half];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if constexpr (Format::kScaledValues) {
          top = fmaxf(top, fmaxf(x[n][0] + logs[n][0], x[n][1] + logs[n][1]));
        } else {
          top = fmaxf(top, fmaxf(x[n][0], x[n][1]));
        }
      }
      top = quad_max(top);
      // A row that has seen no key has the maximum -inf. Subtracting 0 then gives weights 0, not -inf + inf.
      const float base = top == -INFINITY ? 0.0f : top;
      const float shrink = exp2_approximate(row_max[half] - base);
      row_max[half] = top;
      float sum = row_sum[half] * shrink;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float first = exp2_approximate(x[n][0] - base);
        float second = exp2_approximate(x[n][1] - base);
        sum += first + second;
        if constexpr (Format::kScaledValues) {
          first *= scales[n][0];
          second *= scales[n][1];
        }
        a[n / 2][n % 2 * 2 + half] = pack<__half>(first, second);
      }
      row_sum[half] = sum;
#pragma unroll
      for (int j = 0; j < HeadDim / 8; ++j) {
        out[j][2 * half] *= shrink;
        out[j][2 * half + 1] *= shrink;
      }
    }
  }

  // One tile: `tile` has score(), values() and, where values are scaled, scales().
  template <typename Tile>
  __device__ __forceinline__ void add(const Tile& tile, const Queries& queries, const DecodeAttentionParams& p,
                                      const DecodeAttentionWork& work, int key) {
    float scores[4][4];
    tile.template score<Mma>(scores, queries);
    float scales[4][2], logs[4][2];
    if constexpr (Format::kScaledValues) tile.scales(scales, logs);
    uint32_t a[2][4];
    weigh(a, scores, scales, logs, p, work, key);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto values = tile.values(half);
#pragma unroll
      for (int w = 0; w < HeadDim / 8 / Format::kWordColumns; ++w) {
        uint32_t b[Format::kWordColumns][2];
        values.fragments(b, w);
#pragma unroll
        for (int i = 0; i < Format::kWordColumns; ++i) {
          Mma::run(out[w * Format::kWordColumns + i], a[half], b[i][0], b[i][1]);
        }
      }
    }
  }

  // Puts the block's warps together and stores. All of the block call it, when nobody needs the tiles any more.
  __device__ __forceinline__ void finish(unsigned char* shared, const DecodeAttentionParams& p,
                                         const DecodeAttentionWork& work) const {
    auto& space = *reinterpret_cast<Space*>(shared);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    constexpr int kNear = Format::kPieceColumns;  // tiles j .. of mma whose column c are neighbours in a row
#pragma unroll
    for (int first = 0; first < HeadDim; first += kColumns) {
      __syncthreads();  // every warp has left its tiles, or the columns of before
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + 8 * half;
        if (first == 0) {
          const float sum = quad_sum(row_sum[half]);
          if (lane % 4 == 0) {
            space.row_max[warp][row] = row_max[half];
            space.row_sum[warp][row] = sum;
          }
        }
#pragma unroll
        for (int j = 0; j < HeadDim / 8; j += 4) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = j / kNear * 8 * kNear + (2 * (lane % 4) + e) * kNear + j % kNear - first;
            const int c = 2 * half + e;
            if (column >= 0 && column < kColumns) {
              *reinterpret_cast<float4*>(&space.out[warp][row][column]) =
                  make_float4(out[j][c], out[j + 1][c], out[j + 2][c], out[j + 3][c]);
            }
          }
        }
      }
      __syncthreads();
      merge_columns<Element, HeadDim>(space, p, work, 1.0f, first);  // row_max is in powers of two already
    }
  }

  static __device__ __forceinline__ void run(const DecodeAttentionParams& p, const typename Format::Cache& cache) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int warp = threadIdx.x / 32;
    unsigned char* const ring = shared + warp * Stages * Format::kStageBytes;
    const DecodeAttentionWork work = decode_attention_work_of_block<kRows, kQuantizedKeys>(p, blockIdx.x);
    const typename Format::Head head(cache, work.batch, work.head_kv);
    const int end_codes = Format::end_of_codes(work);

    constexpr int kStride = Warps * kQuantizedKeys;  // from one of the warp's tiles to its next
    int key = work.first_key + warp * kQuantizedKeys;
    const auto copy = [&](int coming, int stage) {
      if (coming < end_codes) {
        Format::template copy<PieceCopy<kAsync>>(ring + stage * Format::kStageBytes, head, coming, end_codes);
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
    queries.template take<Element>(shared + kRingBytes, p, work);
    QuantizedDecode state;
    state.factor[0] = p.scale * kLog2E * queries.power[0];
    state.factor[1] = p.scale * kLog2E * queries.power[1];

    int stage = 0;
    for (; key < end_codes; key += kStride) {
      if constexpr (kAsync) {
        cp_async_wait<Stages - 2>();
        __syncwarp();  // the tile has landed for all lanes, and all have left the one that is written over next
        copy(key + (Stages - 1) * kStride, stage == 0 ? Stages - 1 : stage - 1);
        cp_async_commit();  // also when empty, so that the number of groups tells which tile has landed
      } else {
        __syncwarp();  // all lanes have left the tile before
        copy(key, 0);
        __syncwarp();
      }
      state.add(typename Format::Tile(ring + stage * Format::kStageBytes), queries, p, work, key);
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    if constexpr (kAsync) cp_async_wait<0>();
    if constexpr (Format::kHasWindow) {
      if (key < work.end_key) state.add(typename Format::WindowTile(head, key, work.length), queries, p, work, key);
    }

    // Worked out again rather than kept in registers through the loop.
    int block = blockIdx.x;
    asm volatile("" : "+r"(block));
    state.finish(shared, p, decode_attention_work_of_block<kRows, kQuantizedKeys>(p, block));
  }
};

}  // namespace warpwatch
