// paged_kv_tiles.h: how rows are cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

// A thread moves one 16-byte piece of a key and one of its value: 32 bytes in flight, 64 KB on a multiprocessor of 2048
// threads, where some 26 KB cover DRAM's latency on an H200.
constexpr int kPagedKvThreads = 128;  // of a block

// Of a block of paged_kv_append_rows, whose threads move a key's piece or a value's. One H200, behind an L2 flush, us, of 256, 128
// and 512 threads, and of 128 that move both: 268 MB in pages of 64 70.6, 70.4, 72.2, 71.1; in fp32 and pages of 256 69.3, 69.3,
// 71.0, 69.9; 64 rows of 8 heads 4.47, 4.56, 4.57, 4.51.
constexpr int kPagedKvRowsThreads = 256;

}  // namespace warpwatch
