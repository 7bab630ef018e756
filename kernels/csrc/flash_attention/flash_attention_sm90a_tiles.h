// Tile sizes of Hopper's wgmma kernel and the rules that choose among them: the file to edit when tuning it.
//
// A block has `groups` consumer warpgroups of 64 queries each and loops over the keys, `keys` at a time.
// Shared memory, in bytes: 2 * head_dim * (2 * stages * keys + query_stages * 64 * groups).
// 32-bit registers per thread: output head_dim / 2, scores keys / 2, packed weights keys / 4. Available: three consumer
// warpgroups 160; two 240; one, with two blocks per SM 216, with three 120.
//
// Evidence, in us. Tiles are {groups, keys, stages, query_stages, blocks}; problems are batch x heads x queries.
//
// 1. First choice of tiles. One H200, fp16, CUDA graphs of several calls, tiles alternated, best of seven.
//      head_dim 64      {3, 128, 2, 2}  {1, 64, 3, 2, 3}  {1, 128, 2, 2, 2}  {2, 128, 3, 2}
//      32 x 4096 causal      158              177                175
//      8 x 12 x 1024 causal   51.0             44.9               47.6
//      12 x 1024 causal       19.5             14.7               13.5
//      32 x 1024 full         32.5             31.3               27.1
//      16 x 32 x 512 full    108              114                117               112     (last 192-query tile 2/3 empty)
//      16 x 32 x 512 causal   92               78                 86                84
//
//      head_dim 128, causal                                   32 x 1024   32 x 2048   32 x 8192
//      {2, 128, 2, 2}                                            22.3        66.6        932
//      the same, warpgroups ping-pong as in FlashAttention-3     22.0        67.1        960
//      176 keys; three warpgroups with 64 keys; 96 keys: slower
//
//      wider heads                  this kernel   sm_80's kernel
//      96 (in the tile of 128), 32 x 2048 causal   72      95
//      96, 8 x 16 x 1024 full                     132     175
//      256, 16 x 2048 causal                       71     124
//      256, 2 x 16 x 1024 full                     69     123
//
//      16 packed sequences of 32 to 4096, causal
//      32 heads of 128 over 8 key heads   1464 (one block per tile: 1647; sm_80's kernel: 2404)
//      16 heads of 64                     {3, 128, 2, 2} 553, {2, 128, 2, 2} 614 (sm_80's kernel: 698)
//
// 2. Lazy rescaling in the softmax, and all tiles of one key head at the same time. One H100, before / after, same tiles.
//      head_dim 64            {3, 128, 2, 2}  {2, 128, 3, 2}  {1, 64, 3, 2, 3}  {1, 128, 2, 2, 2}
//      16 x 32 x 512 full       108 /  95         - /  97        119 / 100         117 / 101
//      16 x 32 x 512 causal      91 /  88         - /  78         76 /  72          85 /  83
//      32 x 2048 causal          53 /  48         - /  48         55 /  47          54 /  48
//      32 x 4096 causal         168 / 151         - / 158        194 / 167         193 / 177
//
//      head_dim 128   32 x 1024 causal 24.0 / 22.5   32 x 2048 causal 70.8 / 67.5   32 x 4096 causal 242 / 229
//                     32 x 1024 full   34.8 / 33.2
//      head_dim 256   16 x 2048 causal 71 / 63       2 x 16 x 1024 full 66 / 61
//
//    Tried on top and dropped: one software pipeline across query tiles, which issues the next queries' first product together
//    with the last values. head_dim 128: 32 x 2048 causal 72.6 against 71.2; 32 x 1024 full 35.7 against 34.2. The two
//    warpgroups already fill each other's gaps.
//
// 3. Dynamic scheduling of packed sequences. One H200, cold L2, the lengths above, 32 heads of 128.
//                                                32 key heads   8 key heads
//      equal shares of the tiles, static order        680           652
//      tiles fetched from a counter                   556           550
//      the same, kernel built without a window        545           534
//      FlashAttention-3                               553           529
//
// 4. Tile order of problems that run in the windowed kernel without having a window (head_dim 256, or a bias).
//    One H100, cold L2.                                 one section   rounds of heads
//      head_dim 256, 16 x 2048 causal                      107.7           68.3
//      head_dim 128 with a bias, 4 x 32 x 1024 full        227.9          214.5
//
// 5. Tiles chosen now. One H100, cold L2.
//      head_dim 64, full   {3, 128, 2, 2}  {4, 64, 6, 2}   other tiles
//      16 x 32 x 512           101.3           86.7        {4, 64, 4, 1} 98.6, {4, 64, 4, 2} 87.5, {3, 64, 4, 2} 104
//      8 x 16 x 1024            90.5           78.8
//      32 x 2048                81.8           74.1
//      32 x 4096               284            260
//      4 x 32 x 640             45.8           42.6
//      32 x 1024                               26.1        {1, 128, 2, 2, 2} 28.3
//
//      head_dim 64, causal  {3, 128, 2, 2}  {1, 64, 3, 2, 3}  {4, 64, 6, 2}   other tiles
//      32 x 2048                 52.7                              49.5
//      32 x 4096                163                               154
//      16 x 32 x 512                              77.5             82.6       {1, 64, 4, 1, 3} 82.5, {1, 64, 6, 2, 2} 120
//      8 x 12 x 1024                              45.4             48.2
//      8 x 16 x 1024                              61.9             58.7
//
//      head_dim 128, full   {2, 128, 2, 2}  {2, 64, 4, 2}  {2, 64, 5, 2}
//      32 x 512                  17.0            16.6           16.6
//      32 x 1024                 38.1            36.8           36.3
//      32 x 2048                115             119            119
//      4 x 32 x 1024            127             129            130
//
//      head_dim 128, causal  {2, 128, 2, 2}  {1, 64, 2, 2, 2}   other tiles
//      8 x 512                    15.2             12.5
//      16 x 512                   16.3             13.8
//      32 x 512                   19.0             17.5         {1, 64, 3, 1, 2} 20.2, {1, 128, 1, 1, 2} 18.5, and 17.9 with
//                                                               tiles paired so that each SM has a long and a short one
//      8 x 1024                   21.6             18.1
//      4 x 2048                   31.8             26.9
//      32 x 1024                  29.4             31.0         {2, 64, 5, 2} 28.9
//
// 6. More short problems. One H200, cold L2 / CUDA graph; cuDNN is what SDPA runs.
//      head_dim 64, full   {4, 64, 6, 2}   {1, 128, 2, 2, 2}   {3, 64, 6, 2}   cuDNN
//      16 x 32 x 128       21.4 / 17.9       16.9 / 11.9       19.4 / 15.3    16.2 / 12.3
//      64 x 16 x 128       36.0 / 33.2       26.3 / 23.2       31.2 / 28.6    25.1 / 22.3
//      32 x 16 x 384       67.4 / 63.6       65.3 / 62.0       56.3 / 53.7    58.0 / 56.1
//      40 x 1024           40.2 / 36.2       37.1 / 34.0       35.1 / 31.8    36.0 / 33.3
//      2 x 32 x 1024       41.6 / 37.7       48.9 / 44.9       49.2 / 45.9    46.2 / 43.1
//
//      head_dim 128, full  {2, 128, 2, 2}  {2, 64, 5, 2}   cuDNN
//      8 x 16 x 384        31.0 / 28.1     28.3 / 25.2     27.3 / 24.3
//      4 x 32 x 512        42.1 / 39.8     39.9 / 37.1     39.3 / 36.5
//      2 x 32 x 1024       67.0 / 63.7     65.0 / 61.6     64.2 / 61.7
//      8 x 16 x 577        55.2 / 52.9     57.5 / 54.4     57.3 / 55.1
//      8 x 16 x 1024      124.2 / 121.9   126.4 / 124.9   123.9 / 117.8
//
//    Tried and dropped: prefetching keys and values of this round and the next into L2 ({2, 128, 2, 1}, head_dim 128,
//    32 x 1024 full): 41.6 against 38.8.
//
// 7. head_dim 96. One H200, cold L2 / CUDA graph; before: the products of head_dim 128, on one H100.
//      causal              before      {2, 128, 2, 2}   {3, 96, 2, 2}   FlashAttention-3   cuDNN
//      32 over 8 x 8192  918 / 863       691 / 696        708 / 701       786 / 716     1162 / 1038
//      64 over 8 x 4096  457 / 439       380 / 370        368 / 385       409 / 403      549 / 553
//      32 x 2048                         61.5 / 57.2      64.1 / 59.8     77.1 / 73.5    88.9 / 85.2
//      32 x 512                          15.6 / 11.3      17.6 / 14.3     24.7 / 19.4    16.3 / 13.4
//      full
//      32 over 8 x 8192  1636 / 1859    1420 / 1364      1477 / 1438     1533 / 1605    1915 / 1810
//      4 x 32 x 1024                     110 / 106        117 / 112       182 / 129      122 / 117
//    {2, 192, 2, 1}: 4 to 25 % slower than {2, 128, 2, 2}. {1, 64, 2, 2, 2}, 32 x 512 causal: 14.4 / 10.5. {2, 64, 5, 2},
//    32 x 1024 full: 34.5 / 31.0, against 32.6 / 27.9.
#pragma once

namespace warpwatch {

struct FlashAttentionSm90aTile {
  int groups;
  int keys;
  int stages;        // of the rings of keys and of values, each
  int query_stages;  // 2: the next tile's queries load during the whole of the current tile
  int blocks = 1;    // per SM
};

constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile128{2, 128, 2, 2};         // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aDeepTile128{2, 64, 5, 2};      // 224 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aFewTile128{1, 64, 2, 2, 2};    // 96 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile256{2, 64, 2, 1};          // 192 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aTile64{4, 64, 6, 2};           // 160 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aThreeTile64{3, 64, 6, 2};      // 144 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aWindowedTile64{3, 128, 2, 2};  // 112 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aBiasedTile64{2, 128, 2, 2};    // 96 KB; the bias takes keys / 4 registers
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aShortTile64{1, 64, 3, 2, 3};   // 64 KB
constexpr FlashAttentionSm90aTile kFlashAttentionSm90aFewTile64{1, 128, 2, 2, 2};    // 80 KB

// head_dim 64, full: the tile whose rounds take the least time, in units of a round of kFlashAttentionSm90aTile64 (table 6).
constexpr double kFlashAttentionSm90aRoundOfThreeTile64 = 0.8;
constexpr double kFlashAttentionSm90aRoundOfFewTile64 = 0.6;
// Few, causal: at most this many rounds of tiles of 64 queries.
constexpr int kFlashAttentionSm90aFewRounds128 = 1;
constexpr int kFlashAttentionSm90aFewCausalRounds64 = 2;
// Deep: at most this many rounds of tiles of 128 queries, and at most this many keys. Such a problem is short, and first loads
// from DRAM dominate; more stages issue them earlier.
constexpr int kFlashAttentionSm90aDeepRounds128 = 4;
constexpr int kFlashAttentionSm90aDeepKeys128 = 1024;
// Short: causal sequences with fewer keys than this. The larger a tile, the larger its masked share of them.
constexpr int kFlashAttentionSm90aLongKeys64 = 2048;

}  // namespace warpwatch
