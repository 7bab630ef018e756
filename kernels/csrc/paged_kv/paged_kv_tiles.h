// paged_kv_tiles.h: how rows are cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

// A thread moves one 16-byte piece of a key and one of its value: 32 bytes in flight, 64 KB on a multiprocessor of 2048
// threads, where some 26 KB cover DRAM's latency on an H200.
constexpr int kPagedKvThreads = 128;  // of a block

}  // namespace warpwatch
