// rope_tiles.h: how a problem is cut for the GPU. The one file a tuner edits.
#pragma once

#include <cstdint>

namespace warpwatch {

constexpr int kRopeMostThreads = 256;

struct RopeTile {
  int threads;  // of a block, at most kRopeMostThreads
  int heads;    // each thread turns the same piece of so many heads, with one reading of cos and sin
};

// `pieces` is what one row is cut into, one thread each.
constexpr RopeTile rope_tile(int64_t batch, int64_t heads, int64_t seq, int64_t pieces) {
  // A warp's worth at least; a whole block where the rows fill one.
  const int64_t wanted = (pieces * seq + 31) / 32 * 32;
  const int threads = static_cast<int>(wanted < kRopeMostThreads ? wanted : kRopeMostThreads);
  // Four heads: at fp16 cos and sin are twice the bytes of a row, so reading them per head would ask more of L2 than
  // of DRAM; and eight loads of 16 bytes in flight per thread cover DRAM's latency. One head while that is what it
  // takes to give each multiprocessor of a large GPU (132 and more) something to do.
  const int64_t work = batch * heads * seq * pieces;
  return {threads, work < int64_t{4} * 132 * 2 * kRopeMostThreads ? 1 : 4};
}

}  // namespace warpwatch
