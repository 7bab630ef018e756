// vector_add_tiles.h: how the vectors are cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

struct VectorAddTile {
  int threads;  // of a block
  int pieces;   // of 16 bytes of each vector that a thread adds, all loaded before the first is used
};

// One of each vector: 32 bytes in flight a thread, 64 KB on a full multiprocessor of 2048 threads, where some 26 KB cover
// DRAM's latency on an H200. There 1 to 4 pieces and 128 to 1024 threads are within 1.5 % of each other, as long as loads
// carry no hint: 2^28 elements in fp32 take 734 us, and 835 us with evict-first loads and stores.
constexpr VectorAddTile kVectorAddTile = {256, 1};

}  // namespace warpwatch
