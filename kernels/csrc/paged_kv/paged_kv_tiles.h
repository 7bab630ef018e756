// paged_kv_tiles.h: how rows are cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

// A thread moves one 16-byte piece of a key and one of its value: 32 bytes in flight, as kv_append, whose copy of 268 MB
// is as fast as cudaMemcpyAsync's on an H200.
constexpr int kPagedKvThreads = 256;  // of a block

}  // namespace warpwatch
