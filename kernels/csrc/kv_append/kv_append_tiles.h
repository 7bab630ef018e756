// kv_append_tiles.h: how the copy is cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

// Of a block. Each copies 16 bytes of a key or of a value: 32 KB in flight on a multiprocessor of 2048 threads, where some
// 26 KB cover DRAM's latency on an H200. There 268 MB take 70.9 us so, 71.4 by a key and a value a thread, 73.0 by two
// tokens at 256 threads; with 512 threads 73.3. cudaMemcpyAsync takes 69.5 for as many bytes in one piece.
constexpr int kKvAppendThreads = 128;

}  // namespace warpwatch
