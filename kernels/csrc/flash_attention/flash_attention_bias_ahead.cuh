// Prefetches the bias of a warp's score fragments into registers while wgmma computes the scores. 16-bit elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "flash_attention/flash_attention_bias.cuh"
#include "flash_attention/flash_attention_schedule.cuh"

namespace warpwatch {
namespace {

// The bias of a warp's 16 rows by 8 * kKeyTiles keys. It is loaded before the scores are ready if it can be read in pairs and
// all keys of the tile exist; otherwise add_to reads it. Empty for params without a bias.
template <typename Params, typename Element, int kKeyTiles>
class BiasAhead {
 public:
  __device__ __forceinline__ BiasAhead(const Params& p, const FlashAttentionWork& work, int first_query)
      : p_(p),
        work_(work),
        first_query_(first_query),
        rows_(head_pointer(static_cast<const Element*>(p.bias), p.bias_strides, work.batch, work.head) +
              first_query * p.bias_strides.row) {}

  __device__ __forceinline__ void ask_for(int first_key) {
    if (!is_ahead(first_key)) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Element* at = pair(half, first_key);
#pragma unroll
      for (int n = 0; n < kAhead; ++n) pairs_[half][n] = __ldg(reinterpret_cast<const unsigned int*>(at + 8 * n));
    }
  }

  // scores = scale scores + bias
  __device__ __forceinline__ void add_to(float (&scores)[1][kKeyTiles][4], int first_key) const {
    if (!is_ahead(first_key)) {
      add_bias(scores, rows_ + first_key, p_.bias_strides.row, work_.seq_q - first_query_, work_.seq_kv - first_key,
               p_.bias_in_pairs, p_.scale);
      return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Element* at = pair(half, first_key);
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        const uint32_t both = n < kAhead ? pairs_[half][n < kAhead ? n : 0] : __ldg(reinterpret_cast<const unsigned int*>(at + 8 * n));
        const Element* each = reinterpret_cast<const Element*>(&both);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[0][n][2 * half + c];
          score = fmaf(score, p_.scale, static_cast<float>(each[c]));
        }
      }
    }
  }

 private:
  static_assert(sizeof(Element) == 2);
  // Loading more ahead would spill. The rest hits L1: each row's last line is prefetched.
  static constexpr int kAhead = kKeyTiles * 3 / 4;
  const Params& p_;
  const FlashAttentionWork& work_;
  int first_query_;
  const Element* rows_;
  uint32_t pairs_[2][kAhead];

  // The lane's first pair of its row. Rows past the last one read the last row's bias; they are not stored.
  __device__ __forceinline__ const Element* pair(int half, int first_key) const {
    const int lane = threadIdx.x % 32, row = min(lane / 4 + 8 * half, work_.seq_q - 1 - first_query_);
    return rows_ + row * p_.bias_strides.row + first_key + 2 * (lane % 4);
  }
  __device__ __forceinline__ bool is_ahead(int first_key) const {
    return p_.bias_in_pairs && work_.seq_kv - first_key >= 8 * kKeyTiles;
  }
};

struct NoBias {
  template <typename Params>
  __device__ __forceinline__ NoBias(const Params&, const FlashAttentionWork&, int) {}
  __device__ __forceinline__ void ask_for(int) {}
  template <typename Scores>
  __device__ __forceinline__ void add_to(Scores&, int) const {}
};

template <typename Params, typename Element, int kKeyTiles>
struct BiasOf {
  using Type = std::conditional_t<kBiased<Params>, BiasAhead<Params, Element, kKeyTiles>, NoBias>;
};

}  // namespace
}  // namespace warpwatch
