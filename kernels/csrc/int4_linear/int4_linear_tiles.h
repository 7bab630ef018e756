// The one file a tuner edits: how the two kernels divide their work.
//
// Both take weights as the 16-row operand of an mma and x as its 8-column operand, so their tiles count 16 rows of
// weight and 8 rows of x. Below, "group" is a quantization group: 64 or 128 neighbours in k with one scale.
#pragma once

namespace warpwatch {

// Few rows of x: a block owns 16 * weight_tiles outputs for all of x, and its warps take turns at the groups of k.
// Each thread keeps `depth` groups of weights in flight, 32 * weight_tiles bytes apiece for groups of 128.
struct Int4DecodeTile {
  int x_tiles;
  int weight_tiles;
  int warps;
  int depth;
  int blocks_per_sm;  // the compiler keeps registers few enough for these, and need not for more
};

// At 4.4 TB/s and 0.7 us of latency an H200 wants about 24 KB in flight on each SM; one block of the first two tiles
// asks for 32 KB (8 warps * 32 threads * 128 bytes). More weight rows a block read x less often: at 8 rows of x, x is
// 64 KB for k = 4096, against 32 KB of weights for each weight tile. Reasoned, not measured yet on any chip.
constexpr Int4DecodeTile kInt4DecodeTiles[] = {{1, 1, 8, 4, 2}, {1, 2, 8, 2, 2}, {2, 2, 8, 2, 1}};

// Most rows of x that the decode kernel takes; more go to the batch kernel.
constexpr int kInt4DecodeRows = 16;

// An index into kInt4DecodeTiles.
constexpr int int4_decode_tile(int m) { return m <= 4 ? 0 : m <= 8 ? 1 : 2; }

// More rows of x: a block owns 16 * warps outputs of 8 * x_tiles rows of x, which its warps share in shared memory.
// A thread keeps `depth` groups of weights in flight, 32 bytes apiece for groups of 128.
struct Int4BatchTile {
  int x_tiles;
  int warps;
  int depth;

  constexpr int x_rows() const { return 8 * x_tiles; }
  constexpr int outputs() const { return 16 * warps; }
};

// Reasoned, not measured yet: 64 rows of x take 64 accumulators a thread and 32 KB of shared memory.
constexpr Int4BatchTile kInt4BatchTiles[] = {{4, 8, 4}, {8, 8, 4}};

// An index into kInt4BatchTiles.
constexpr int int4_batch_tile(int m) { return m <= 32 ? 0 : 1; }

// Into how many parts k is divided between thread blocks, so that they fill the GPU in one wave. A part is at least
// four groups long: below that its own start and the sum over parts cost more than they bring.
constexpr int int4_linear_splits(int m, int n, int k, int group_size, int multiprocessors) {
  if (m <= kInt4DecodeRows) return 1;
  const Int4BatchTile tile = kInt4BatchTiles[int4_batch_tile(m)];
  const long long blocks = static_cast<long long>((n + tile.outputs() - 1) / tile.outputs()) *
                           ((m + tile.x_rows() - 1) / tile.x_rows());
  const long long wanted = multiprocessors / blocks;
  const long long most = k / group_size / 4;
  const long long splits = wanted < most ? wanted : most;
  return splits < 1 ? 1 : static_cast<int>(splits);
}

}  // namespace warpwatch
