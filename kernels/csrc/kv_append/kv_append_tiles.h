// kv_append_tiles.h: how the copy is cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

struct KvAppendTile {
  int threads;  // of a block, at most
  int tokens;   // whose keys and values a thread copies, all loaded before the first is stored
};

// One token, its key and its value: 32 bytes in flight a thread, 64 KB on a multiprocessor of 2048 threads, where some
// 26 KB cover DRAM's latency on an H200. There a copy of 268 MB takes 68.3 us so, and so does cudaMemcpyAsync.
constexpr KvAppendTile kKvAppendTile = {256, 1};

}  // namespace warpwatch
