// Appending to a cache on every GPU: a copy of rows, 16 bytes at a time where strides and alignment allow it, else an
// element at a time.
#include "kv_append/kv_append.h"
#include "kv_append/kv_append_tiles.h"

namespace warpwatch {
namespace {

constexpr int kMostThreads = kKvAppendTile.threads;
constexpr int kTokens = kKvAppendTile.tokens;

// How blocks and threads cover the problem: `lanes` threads side by side along a row, `rows` tokens beside each other.
struct Cover {
  int lanes, rows, units;  // units: of a row
  uint32_t token_blocks;
};

__device__ int64_t offset(const KvAppendRows& strides, int64_t batch, int64_t head, int64_t token) {
  return batch * strides.batch + head * strides.head + token * strides.token;
}

template <class Unit>
__global__ __launch_bounds__(kMostThreads) void kv_append_rows(const KvAppendParams p, const Cover cover) {
  const int row = threadIdx.x / cover.lanes;
  if (row >= cover.rows) return;
  const int lane = threadIdx.x % cover.lanes;
  // One half of the blocks copies keys, the other values: two streams at a time, one read and one written.
  const uint32_t of_keys = gridDim.x / 2;
  const bool is_value = blockIdx.x >= of_keys;
  const uint32_t block = is_value ? blockIdx.x - of_keys : blockIdx.x;
  const uint32_t head_batch = block / cover.token_blocks;
  const int64_t head = head_batch % static_cast<uint32_t>(p.heads);
  const int64_t batch = head_batch / static_cast<uint32_t>(p.heads);
  const int64_t first = static_cast<int64_t>(block - head_batch * cover.token_blocks) * (cover.rows * kTokens) + row;
  const KvAppendRows& from_strides = is_value ? p.v_strides : p.k_strides;
  const KvAppendRows& to_strides = is_value ? p.v_cache_strides : p.k_cache_strides;
  const char* from = (is_value ? p.v : p.k) + offset(from_strides, batch, head, 0);
  char* to = static_cast<char*>(is_value ? p.v_cache : p.k_cache);

  for (int unit = lane; unit < cover.units; unit += cover.lanes) {
    Unit held[kTokens];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {  // all of them, also what has no place: one wait covers rows and position
      const int64_t token = first + i * cover.rows;
      if (token < p.tokens) held[i] = reinterpret_cast<const Unit*>(from + token * from_strides.token)[unit];
    }
    const int64_t position = p.positions[batch];
#pragma unroll
    for (int i = 0; i < kTokens; ++i) {
      const int64_t token = first + i * cover.rows;
      // By differences, for a sum with any position may overflow.
      if (token >= p.tokens || position < -token || position >= p.capacity - token) continue;
      // Plain stores: attention reads the newest rows at once, out of the L2.
      reinterpret_cast<Unit*>(to + offset(to_strides, batch, head, position + token))[unit] = held[i];
    }
  }
}

bool fits(const KvAppendParams& p, int64_t bytes) {
  for (const KvAppendRows& strides : {p.k_strides, p.v_strides, p.k_cache_strides, p.v_cache_strides}) {
    if (strides.batch % bytes != 0 || strides.head % bytes != 0 || strides.token % bytes != 0) return false;
  }
  for (const char* pointer : {p.k, p.v, static_cast<const char*>(p.k_cache), static_cast<const char*>(p.v_cache)}) {
    if (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) return false;
  }
  return p.row_bytes % bytes == 0;
}

template <class Unit>
cudaError_t launch(const KvAppendParams& p, cudaStream_t stream) {
  Cover cover;
  const int64_t units = p.row_bytes / static_cast<int64_t>(sizeof(Unit));
  if (units > INT32_MAX) return cudaErrorInvalidConfiguration;
  cover.units = static_cast<int>(units);
  cover.lanes = units < kMostThreads ? cover.units : kMostThreads;
  const int64_t most_rows = kMostThreads / cover.lanes;
  cover.rows = static_cast<int>(p.tokens < most_rows ? p.tokens : most_rows);
  const int64_t token_blocks = (p.tokens - 1) / (cover.rows * kTokens) + 1;
  if (token_blocks > INT32_MAX / 2 / p.heads / p.batch) return cudaErrorInvalidConfiguration;
  cover.token_blocks = static_cast<uint32_t>(token_blocks);
  const int threads = (cover.lanes * cover.rows + 31) / 32 * 32;
  const auto blocks = static_cast<unsigned>(2 * token_blocks * p.heads * p.batch);
  kv_append_rows<Unit><<<blocks, threads, 0, stream>>>(p, cover);
  return cudaGetLastError();
}

}  // namespace

cudaError_t kv_append_cuda(const KvAppendParams& p, cudaStream_t stream) {
  if (p.batch == 0 || p.heads == 0 || p.tokens == 0 || p.row_bytes == 0) return cudaSuccess;
  if (p.heads > INT32_MAX || p.batch > INT32_MAX) return cudaErrorInvalidConfiguration;
  if (fits(p, 16)) return launch<uint4>(p, stream);
  if (p.element_bytes == 4) return launch<unsigned int>(p, stream);
  if (p.element_bytes == 2) return launch<unsigned short>(p, stream);
  return cudaErrorInvalidValue;
}

}  // namespace warpwatch
