// vector_add_tiles.h: how the vectors are cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

struct VectorAddTile {
  int threads;  // of a block
  int pieces;   // of 16 bytes of each vector that a thread adds, all loaded before the first is used
};

// Two of each vector: 64 bytes in flight a thread, 128 KB on a full multiprocessor of 2048 threads, where some 26 KB
// cover DRAM's latency on an H200.
constexpr VectorAddTile kVectorAddTile = {256, 2};

}  // namespace warpwatch
