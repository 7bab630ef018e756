// rope_paged_kv_append_tiles.h: how a problem is cut for the GPU. The one file a tuner edits.
#pragma once

namespace warpwatch {

// Of a block. Each thread turns one head's pieces, 74.1 us of 268 MB on an H200; two heads with one reading of cos and sin
// take 75.4, four 74.7, and two in blocks of 256 threads 75.8. Values share the trip, so that angles are half of what rope
// alone asks of L2.
constexpr int kRopePagedKvThreads = 128;

constexpr int kRopePagedKvSmallElements = 2;  // of a piece where rows are few

}  // namespace warpwatch
