// Tile sizes of int4_linear and the rules that choose among them: the file to edit when tuning it.
//
// All kernels use the weight as the 16-row operand of an mma and x as its 8-column operand, so tiles count 16 weight rows and 8
// rows of x. "Group" means a quantization group: 64 or 128 consecutive k with one scale.
#pragma once

namespace warpwatch {

// Decode kernel (few rows of x): a block owns 16 * weight_tiles outputs for all of x, and its warps take the groups of k
// round-robin. Each thread keeps `depth` groups of weights in flight, 32 * weight_tiles bytes each for groups of 128.
struct Int4DecodeTile {
  int x_tiles;
  int weight_tiles;
  int warps;
  int depth;
  int blocks_per_sm;  // minimum per SM (__launch_bounds__), and expected to run at once

  constexpr int outputs() const { return 16 * weight_tiles; }
};

// Three runs of tiles: up to 8 rows of x (the first tile up to 4 rows only), then up to 16; each ordered from narrow to wide.
// Wider tiles read x less often. The best tile is the first whose blocks all fit in one wave: a half-empty last wave wastes
// bandwidth. Evidence: one H200, fp16, group 128, cold L2, us. Before: always the first tile of a run (the second from 5 rows
// on). Reading the 30 MB of 4096 -> 14336 alone takes 13.2 us.
//   k -> n          rows   before   this rule
//   4096 -> 14336      1     18.0      17.0
//   4096 -> 14336     16     30.3      22.1
//   8192 -> 28672      1     48.3      43.5
//   4096 -> 6144       1     12.6      10.8
//   8192 -> 8192      16     28.2      23.7
constexpr Int4DecodeTile kInt4DecodeTiles[] = {{1, 1, 8, 4, 2}, {1, 2, 8, 2, 2}, {1, 2, 4, 2, 4}, {1, 4, 4, 1, 4},
                                               {2, 2, 8, 2, 1}, {2, 4, 8, 1, 1}, {2, 2, 4, 1, 4}};

// Most rows of x for the decode kernel; more go to the batch kernel.
constexpr int kInt4DecodeRows = 16;

// Index into kInt4DecodeTiles.
constexpr int int4_decode_tile(int m, int n, int multiprocessors) {
  const int first = m <= 4 ? 0 : m <= 8 ? 1 : 4, last = m <= 8 ? 3 : 6;
  for (int tile = first; tile < last; ++tile) {
    const Int4DecodeTile& t = kInt4DecodeTiles[tile];
    if (n <= static_cast<long long>(t.outputs()) * t.blocks_per_sm * multiprocessors) return tile;
  }
  return last;
}

// Batch kernel (more rows of x): a block owns 16 * warps outputs for 8 * x_tiles rows of x, which its warps share in shared
// memory. A thread keeps `depth` groups of weights in flight, 32 bytes each for groups of 128.
struct Int4BatchTile {
  int x_tiles;
  int warps;
  int depth;

  constexpr int x_rows() const { return 8 * x_tiles; }
  constexpr int outputs() const { return 16 * warps; }
};

// Reasoned, not measured yet: 64 rows of x take 64 accumulators per thread and 32 KB of shared memory.
constexpr Int4BatchTile kInt4BatchTiles[] = {{4, 8, 4}, {8, 8, 4}};

// Index into kInt4BatchTiles.
constexpr int int4_batch_tile(int m) { return m <= 32 ? 0 : 1; }

// Most rows for these kernels; with more, the weight is dequantized to 16 bits for cuBLAS.
constexpr int kInt4DirectRows = 128;

// Tile and split-K factor of a call.
struct Int4Plan {
  int tile;    // index into the kernel's table
  int splits;  // blocks per output, which split k
};

// k is split so that the blocks fill the GPU in one wave. A split has at least four groups: with fewer, its prologue and the
// sum over splits cost more than they gain.
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

// Hopper, few rows of x, mma fed by a TMA ring: a block owns 16 * n16_tiles outputs for all of x. `teams` teams of `n16_tiles`
// warps take the `stages` stages of `slabs` * 128 of k round-robin. `splits` blocks, a cluster, split k.
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

// Two runs of tiles: up to 8 and up to 16 rows of x. Evidence: one H200, fp16, group 128, cold L2, us. Before: the decode
// kernel; for 16 rows the wgmma kernel. Reading the 30 MB alone takes 15.1 us.
//   k -> n          rows   before   these tiles
//   4096 -> 14336      1     17.6      16.4
//   4096 -> 14336      8     17.8      16.5
//   4096 -> 14336     16     20.0      17.8
//   14336 -> 4096      1     20.2      16.5
//   14336 -> 4096     16     24.4      18.9
// Why n16_tiles 6 and 14 exist (an earlier kernel for one row, much like this one):
//   4096 -> 11008      1     7 n16 tiles: 14.3                    6: 13.7
//   8192 -> 28672      1     7 n16 tiles: 45.5 (two waves)       14: 39.8
// More teams, each with fewer stages; one H100, fp16, cold L2, 1 row:
//   4096 -> 4096       2 n16 tiles, four teams: 10.2 (groups of 64: 11.9), eight teams: 9.9 (12.1)
//   14336 -> 4096      2 n16 tiles: 18.6, 4 n16 tiles with k split: 20.2
// Not taken: two slabs per stage, {7, 8, 2, 4, 8}, 4096 -> 14336: 18.7 against 19.4 (groups of 64: 20.3 against 22.1). It
// spills: 928 threads leave 64 registers each.
constexpr Int4FewTile kInt4FewTiles[] = {
    {14, 8, 1, 2, 12, 1, 1}, {7, 8, 1, 4, 20, 1, 1},  {6, 8, 1, 4, 24, 1, 1},  {3, 8, 2, 4, 20, 1, 1},
    {2, 8, 2, 8, 16, 1, 1},  {4, 8, 2, 2, 8, 2, 2},   {7, 16, 1, 3, 18, 1, 1}, {6, 16, 1, 3, 18, 1, 1},
    {3, 16, 2, 4, 12, 1, 1}, {4, 16, 2, 2, 6, 2, 2}};
constexpr int kInt4FewTileCount = sizeof(kInt4FewTiles) / sizeof(kInt4FewTiles[0]);

// Most rows of x for these tiles.
constexpr int kInt4FewRows = 16;

// Index into kInt4FewTiles: the tile that minimises the weights read by the busiest SM, with the widest blocks among equals.
// Blocks of a second wave start with an empty pipeline, which costs about as much as one and a half n16 tiles. Splitting k pays
// for long k, and up to 8 rows only if the busiest SM then reads less.
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
    const long long cost = each * t.n16_tiles * 2 / t.splits + 3 * (rounds - 1);  // in units of half an n16 tile
    if (best < 0 || cost < least || (t.splits > 1 && cost == least && m > 8)) best = tile, least = cost;
  }
  return best;
}

// Hopper, wgmma: a block owns `outputs` outputs for `rows` rows of x and keeps `stages` slabs of 128 of k in shared memory.
// `splits` blocks, a cluster, split k.
struct Int4ManyTile {
  int outputs;
  int rows;
  int stages;
  int splits;
  int blocks_per_sm;
};

// Evidence: one H200, fp16, group 128, cold L2, us, 4096 -> 14336:
//   rows             32     64    128
//   sm_80's kernels  36.9   46.5   86
//   these tiles      19.8   24.2   42
constexpr Int4ManyTile kInt4ManyTiles[] = {{64, 32, 8, 1, 2}, {64, 32, 8, 2, 2}, {64, 64, 5, 1, 2}, {64, 64, 5, 2, 2}};

// Index into kInt4ManyTiles: k is split if there are too few tiles to give most SMs one.
constexpr int int4_many_tile(int m, int n, int multiprocessors) {
  const int undivided = m <= 32 ? 0 : 2;
  const Int4ManyTile& tile = kInt4ManyTiles[undivided];
  const long long tiles =
      static_cast<long long>((m - 1) / tile.rows + 1) * ((n - 1) / tile.outputs + 1);
  return 4 * tiles >= 3LL * multiprocessors ? undivided : undivided + 1;
}

// Hopper, wgmma, stages of 64 of k. Two groups' sums are in registers: one is scaled while the tensor cores accumulate the
// other. Evidence: one H200, fp16, group 128, cold L2, us:
//   k -> n          rows   kInt4ManyTiles   these tiles
//   4096 -> 14336    128        41.6            31.8
//   4096 -> 14336    256        76.4            57.6
//   14336 -> 4096    256        63.2            51.9
//   4096 -> 4096     256        23.5            21.6
constexpr Int4ManyTile kInt4WideTiles[] = {{128, 128, 8, 1, 1}, {128, 128, 6, 2, 1}};

// Index into kInt4WideTiles, or -1 if the tiles above are better: few rows, or too few tiles to give most SMs one.
constexpr int int4_wide_tile(int m, int n, int multiprocessors) {
  const Int4ManyTile& tile = kInt4WideTiles[0];
  const long long tiles = static_cast<long long>((m - 1) / tile.rows + 1) * ((n - 1) / tile.outputs + 1);
  if (m <= 64 || 8 * tiles < 3LL * multiprocessors) return -1;
  // Waves of blocks, in units of half a tile.
  const long long undivided = 2 * ((tiles - 1) / multiprocessors + 1), divided = (2 * tiles - 1) / multiprocessors + 1;
  return divided < undivided ? 1 : 0;
}

}  // namespace warpwatch
