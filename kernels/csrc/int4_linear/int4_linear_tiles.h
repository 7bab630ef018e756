// The one file a tuner edits: how the kernels divide their work.
//
// All take weights as the 16-row operand of an mma and x as its 8-column operand, so their tiles count 16 rows of weight
// and 8 rows of x. Below, "group" is a quantization group: 64 or 128 neighbours in k with one scale.
#pragma once

namespace warpwatch {

// Few rows of x: a block owns 16 * weight_tiles outputs for all of x, and its warps take turns at the groups of k.
// Each thread keeps `depth` groups of weights in flight, 32 * weight_tiles bytes apiece for groups of 128.
struct Int4DecodeTile {
  int x_tiles;
  int weight_tiles;
  int warps;
  int depth;
  int blocks_per_sm;  // the compiler keeps registers few enough for these, and so many run at once

  constexpr int outputs() const { return 16 * weight_tiles; }
};

// For up to 8 rows of x (the first for up to 4), then for up to 16; in each the narrowest first. Wider ones read x less
// often, and the best is the first whose blocks all run at once: a last wave that is half empty wastes bandwidth.
// On an H200, fp16, group 128, cold L2, the previous choice (the first tile of each run, the second from 5 rows on)
// beside this one: 4096 -> 14336, 1 row 18.0 and 17.0 us, 16 rows 30.3 and 22.1 us; 8192 -> 28672, 1 row 48.3 and
// 43.5 us; 4096 -> 6144, 1 row 12.6 and 10.8 us; 8192 -> 8192, 16 rows 28.2 and 23.7 us. A plain read of the 30 MB of
// 4096 -> 14336 takes 13.2 us.
constexpr Int4DecodeTile kInt4DecodeTiles[] = {{1, 1, 8, 4, 2}, {1, 2, 8, 2, 2}, {1, 2, 4, 2, 4}, {1, 4, 4, 1, 4},
                                               {2, 2, 8, 2, 1}, {2, 4, 8, 1, 1}, {2, 2, 4, 1, 4}};

// Most rows of x that the decode kernel takes; more go to the batch kernel.
constexpr int kInt4DecodeRows = 16;

// An index into kInt4DecodeTiles.
constexpr int int4_decode_tile(int m, int n, int multiprocessors) {
  const int first = m <= 4 ? 0 : m <= 8 ? 1 : 4, last = m <= 8 ? 3 : 6;
  for (int tile = first; tile < last; ++tile) {
    const Int4DecodeTile& t = kInt4DecodeTiles[tile];
    if (n <= static_cast<long long>(t.outputs()) * t.blocks_per_sm * multiprocessors) return tile;
  }
  return last;
}

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

// Most rows that these kernels take; more are dequantized to a matrix of 16 bits for cuBLAS.
constexpr int kInt4DirectRows = 128;

// How a call is cut.
struct Int4Plan {
  int tile;    // of the kernel's table
  int splits;  // blocks that share one output by dividing k between them
};

// k is divided so that the blocks fill the GPU in one wave. A part is at least four groups long: below that its own
// start and the sum over parts cost more than they bring.
constexpr Int4Plan int4_linear_plan(int m, int n, int k, int group_size, int multiprocessors) {
  if (m <= kInt4DecodeRows) return {int4_decode_tile(m, n, multiprocessors), 1};
  const int index = int4_batch_tile(m);
  const Int4BatchTile tile = kInt4BatchTiles[index];
  const long long blocks = static_cast<long long>((n + tile.outputs() - 1) / tile.outputs()) *
                           ((m + tile.x_rows() - 1) / tile.x_rows());
  const long long wanted = multiprocessors / blocks;
  const long long most = k / group_size / 4;
  const long long splits = wanted < most ? wanted : most;
  return {index, splits < 1 ? 1 : static_cast<int>(splits)};
}

// Hopper, few rows of x, by mma from a ring of TMA: a block owns 16 * n16_tiles outputs for all of x, `teams` of `n16_tiles` warps
// take turns at `stages` stages of `slabs` times 128 of k. `splits` blocks, a cluster, divide k among them.
struct Int4FewTile {
  int n16_tiles;
  int rows;
  int slabs;
  int teams;
  int stages;
  int splits;
  int blocks_per_sm;

  constexpr int outputs() const { return 16 * n16_tiles; }
};

// Two runs, of up to 8 and up to 16 rows of x. On an H200, fp16, group 128, cold L2, the decode kernel and, for 16 rows,
// the one by wgmma beside these: 4096 -> 14336, 1 row 17.6 and 16.4 us, 8 rows 17.8 and 16.5 us, 16 rows 20.0 and 17.8 us;
// 14336 -> 4096, 1 row 20.2 and 16.5 us, 16 rows 24.4 and 18.9 us. A plain read of the 30 MB takes 15.1 us there. Why there are
// blocks of 6 and of 14 n16 tiles: in a kernel for one row that was much like this one, 4096 -> 11008 took 14.3 us with 7
// n16 tiles and 13.7 with 6, 8192 -> 28672 took 45.5 us with 7, in two rounds, and 39.8 with 14. More teams,
// each with fewer stages: 2 n16 tiles, 1 row, 4096 -> 4096 10.2 us with four and 9.9 with eight (groups of 64: 11.9 and 12.1),
// 14336 -> 4096 18.6, where 4 n16 tiles with k divided take 20.2 (H100, fp16, cold L2). Stages of two slabs, {7, 8, 2, 4, 8},
// would take 18.7 us of 4096 -> 14336 and not 19.4, in groups of 64 20.3 and not 22.1, but spill: 928 threads leave 64
// registers each.
constexpr Int4FewTile kInt4FewTiles[] = {
    {14, 8, 1, 2, 12, 1, 1}, {7, 8, 1, 4, 20, 1, 1},  {6, 8, 1, 4, 24, 1, 1},  {3, 8, 2, 4, 20, 1, 1},
    {2, 8, 2, 8, 16, 1, 1},  {4, 8, 2, 2, 8, 2, 2},   {7, 16, 1, 3, 18, 1, 1}, {6, 16, 1, 3, 18, 1, 1},
    {3, 16, 2, 4, 12, 1, 1}, {4, 16, 2, 2, 6, 2, 2}};
constexpr int kInt4FewTileCount = sizeof(kInt4FewTiles) / sizeof(kInt4FewTiles[0]);

// Most rows of x that these take.
constexpr int kInt4FewRows = 16;

// An index into kInt4FewTiles: the tile with which the busiest multiprocessor reads the fewest weights, that with the
// widest blocks among equals. Blocks that cannot run at once begin anew with nothing under way, which costs about as much as
// one and a half n16 tiles. Dividing k pays where it is long, and up to 8 rows only where it makes the busiest read less.
constexpr int int4_few_tile(int m, int n, int k, int multiprocessors) {
  const int rows = m <= 8 ? 8 : 16;
  const long long n16_tiles = (n - 1LL) / 16 + 1;
  int best = -1;
  long long least = 0;
  for (int tile = 0; tile < kInt4FewTileCount; ++tile) {
    const Int4FewTile& t = kInt4FewTiles[tile];
    if (t.rows != rows || (t.splits > 1 && k < 8192 && m <= 8)) continue;
    const long long blocks = ((n16_tiles - 1) / t.n16_tiles + 1) * t.splits;
    const long long each = (blocks - 1) / multiprocessors + 1, rounds = (each - 1) / t.blocks_per_sm + 1;
    const long long cost = each * t.n16_tiles * 2 / t.splits + 3 * (rounds - 1);  // in halves of a n16_tile
    if (best < 0 || cost < least || (t.splits > 1 && cost == least && m > 8)) best = tile, least = cost;
  }
  return best;
}

// Hopper, by wgmma: a block owns `outputs` outputs for `rows` rows of x, and `stages` slabs of 128 of k are in shared
// memory. `splits` blocks, a cluster, divide k among them.
struct Int4ManyTile {
  int outputs;
  int rows;
  int stages;
  int splits;
  int blocks_per_sm;
};

// On an H200, fp16, group 128, cold L2, the kernels of sm_80 beside these: 4096 -> 14336, 32 rows 36.9 and 19.8 us, 64 rows
// 46.5 and 24.2 us, 128 rows 86 and 42 us.
constexpr Int4ManyTile kInt4ManyTiles[] = {{64, 32, 8, 1, 2}, {64, 32, 8, 2, 2}, {64, 64, 5, 1, 2}, {64, 64, 5, 2, 2}};

// An index into kInt4ManyTiles: k divided where the tiles are too few to give most multiprocessors one.
constexpr int int4_many_tile(int m, int n, int multiprocessors) {
  const int undivided = m <= 32 ? 0 : 2;
  const Int4ManyTile& tile = kInt4ManyTiles[undivided];
  const long long tiles =
      static_cast<long long>((m - 1) / tile.rows + 1) * ((n - 1) / tile.outputs + 1);
  return 4 * tiles >= 3LL * multiprocessors ? undivided : undivided + 1;
}

// The same for stages of 64 of k, with sums of two groups in registers, so that one is scaled while the tensor cores sum
// the other. On an H200, fp16, group 128, cold L2, the tiles above beside these: 4096 -> 14336, 128 rows 41.6 and 31.8 us, 256
// rows 76.4 and 57.6 us; 14336 -> 4096, 256 rows 63.2 and 51.9 us; 4096 -> 4096, 256 rows 23.5 and 21.6 us.
constexpr Int4ManyTile kInt4WideTiles[] = {{128, 128, 8, 1, 1}, {128, 128, 6, 2, 1}};

// An index into kInt4WideTiles, or -1 where those above are better: few rows, or too few tiles to give most
// multiprocessors one.
constexpr int int4_wide_tile(int m, int n, int multiprocessors) {
  const Int4ManyTile& tile = kInt4WideTiles[0];
  const long long tiles = static_cast<long long>((m - 1) / tile.rows + 1) * ((n - 1) / tile.outputs + 1);
  if (m <= 64 || 8 * tiles < 3LL * multiprocessors) return -1;
  // Waves of blocks, in halves of a tile.
  const long long undivided = 2 * ((tiles - 1) / multiprocessors + 1), divided = (2 * tiles - 1) / multiprocessors + 1;
  return divided < undivided ? 1 : 0;
}

}  // namespace warpwatch
