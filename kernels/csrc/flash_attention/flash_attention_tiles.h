// The one file a tuner edits: how much of the problem a thread block holds.
//
// A block of 32 * warps threads owns warps * rows_per_warp queries and walks over the keys, `keys` at a time.
// Registers per thread, in 32 bits: the output rows_per_warp * head_dim / 32, the scores rows_per_warp * keys / 32 and,
// when q_in_registers, the queries rows_per_warp * head_dim / 64.
// Shared memory, in bytes: 2 * head_dim * (queries + 2 * keys) on sm_80, 2 * head_dim * max(queries, 2 * keys) when
// q_in_registers on sm_75, where a block may take 64 KB.
// Of head_dim 256 one row tile alone takes 128 registers of output: 8 warps of it fill an SM's registers.
#pragma once

namespace warpwatch {

struct FlashAttentionTile {
  int warps;
  int rows_per_warp;    // 16 or 32: one or two row tiles of an mma
  int keys;             // a multiple of 16
  bool q_in_registers;  // else each product reads its queries from shared memory again

  constexpr bool operator==(const FlashAttentionTile&) const = default;
};

// sm_75: 64 KB of shared memory and 64 K registers an SM. Queries pass once through the space of keys and values and stay
// in registers; 64 keys and 64 values of 128 take 32 KB, so two blocks share an SM. Not measured on a T4 yet.
constexpr FlashAttentionTile flash_attention_sm75_tile(int head_dim) {
  if (head_dim == 256) return {4, 16, 16, false};  // beside 128 registers of output, 64 of queries would spill
  return {4, 16, 64, true};
}

// sm_80 and newer. Two row tiles a warp halve the key and value traffic from shared memory, which bounds one row tile:
// an ldmatrix.x4 takes 4 cycles of the SM and feeds 2 mma per row tile, which take 2 to 4 together.
// Queries of 128 do not fit in registers beside 32 x 128 outputs and 32 x 64 scores.
// 64 KB a block for head_dim 128 leaves two blocks on an SM of 164 KB or more (sm_80, sm_90), but one on the 100 KB of
// sm_86, sm_89 and sm_120; 32 keys take 48 KB and let two in.
constexpr int kLargeSharedBytes = 2 * (64 + 1) * 1024;  // two blocks of 64 KB, 1 KB of each the system's
constexpr FlashAttentionTile flash_attention_sm80_tile(int head_dim, bool large_shared) {
  if (head_dim == 64) return {4, 32, 64, true};
  if (head_dim == 96) return {4, 32, 64, false};   // 48 KB: two blocks on any of them
  if (head_dim == 256) return {8, 16, 32, false};  // 96 KB: one block on any of them
  return large_shared ? FlashAttentionTile{4, 32, 64, false} : FlashAttentionTile{4, 32, 32, false};
}

// fp32 on the ordinary units, any GPU. A block is (queries / 2) x 8 threads: 8 lanes share a pair of query rows.
constexpr int kFlashAttentionFp32Queries = 32;
constexpr int flash_attention_fp32_keys(int head_dim) {
  return head_dim == 256 ? 16 : 32;  // 52 KB of 256: a block on sm_75 may take 64
}

}  // namespace warpwatch
