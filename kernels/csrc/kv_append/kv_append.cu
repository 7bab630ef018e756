// Appends rows to a KV cache on every GPU: copies 16 bytes at a time if strides and
// alignment allow it, else element by element.
#include "kv_append/kv_append.h"
#include "primitives/divisor.cuh"
#include "primitives/kept_load.cuh"

namespace warpwatch {
namespace {

// Threads per block. Each copies 16 bytes of a key or of a value: 32 KB in flight per SM of 2048 threads; covering DRAM latency
// on an H200 takes about 26 KB. Evidence: one H200, 268 MB, us: this 70.9; a key and a value per thread 71.4; two tokens per
// thread with 256 threads 73.0; 512 threads 73.3; cudaMemcpyAsync of as many bytes in one piece 69.5.
constexpr int kKvAppendThreads = 128;

// The kernel's parameters: strides in units, equal for keys and values. With 32-bit strides they take 112 bytes: a launch with
// 240 takes 0.2 us longer, even if the kernel reads only the first ones (H100, cold L2).
template <class Stride>
struct Rows {
  Divisor lanes, tokens, heads;  // lanes: units per row
  uint32_t threads;
  const int64_t* positions;
  const void* from[2];  // k, v
  void* to[2];
  Stride from_batch, from_head, from_token, to_batch, to_head, to_token, capacity, position;
};
static_assert(sizeof(Rows<int32_t>) <= 112);

// A thread copies one unit of one row. Rows are numbered along tokens first, then heads, then batch. Blocks of blockIdx.y 0
// copy keys, those of 1 values: one read and one write stream each.
template <class Unit, class Stride>
__global__ __launch_bounds__(kKvAppendThreads) void kv_append_rows(const Rows<Stride> p) {
  const uint32_t thread = blockIdx.x * kKvAppendThreads + threadIdx.x;
  if (thread >= p.threads) return;
  const uint32_t row = p.lanes.quotient(thread), head_batch = p.tokens.quotient(row);
  const uint32_t batch = p.heads.quotient(head_batch), head = head_batch - batch * p.heads.divisor();
  const uint32_t lane = thread - row * p.lanes.divisor(), token = row - head_batch * p.tokens.divisor();
  const auto offset = [&](Stride of_batch, Stride of_head, Stride of_token, int64_t at_token) {
    return static_cast<int64_t>(batch) * of_batch + static_cast<int64_t>(head) * of_head + at_token * of_token + lane;
  };

  // Loaded even if the position is outside the cache: one wait covers the unit and the position.
  const bool is_value = blockIdx.y != 0;
  const void* from = is_value ? p.from[1] : p.from[0];  // an index would move the parameters to local memory
  void* to = is_value ? p.to[1] : p.to[0];
  const Unit* const at = static_cast<const Unit*>(from) + offset(p.from_batch, p.from_head, p.from_token, token);
  Unit held;
  if constexpr (sizeof(Unit) >= 4) held = load_streamed(at);
  else held = *at;
  const int64_t position = p.positions != nullptr ? load_kept(p.positions + batch) : p.position;
  load_before(held);
  // Compares differences, since the sum with an arbitrary position may overflow.
  if (position < -static_cast<int64_t>(token) || position >= static_cast<int64_t>(p.capacity) - token) return;
  // Plain stores, without a hint: attention reads the newest rows next, from L2.
  static_cast<Unit*>(to)[offset(p.to_batch, p.to_head, p.to_token, position + token)] = held;
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

bool same(const KvAppendRows& a, const KvAppendRows& b) {
  return a.batch == b.batch && a.head == b.head && a.token == b.token;
}

// Which tensors a launch copies: keys, values, or both if their strides are equal.
template <class Unit, class Stride>
cudaError_t launch(const KvAppendParams& p, int first, int count, cudaStream_t stream) {
  constexpr int64_t kBytes = sizeof(Unit);
  const KvAppendRows& from = first == 0 ? p.k_strides : p.v_strides;
  const KvAppendRows& to = first == 0 ? p.k_cache_strides : p.v_cache_strides;
  const auto units = [](int64_t bytes) { return static_cast<Stride>(bytes / kBytes); };
  const int64_t lanes = p.row_bytes / kBytes;
  Rows<Stride> rows;
  rows.lanes = Divisor(static_cast<uint32_t>(lanes));
  rows.tokens = Divisor(static_cast<uint32_t>(p.tokens));
  rows.heads = Divisor(static_cast<uint32_t>(p.heads));
  rows.threads = static_cast<uint32_t>(lanes * p.tokens * p.heads * p.batch);
  rows.positions = p.positions;
  rows.from[0] = first == 0 ? p.k : p.v;
  rows.from[1] = p.v;
  rows.to[0] = first == 0 ? p.k_cache : p.v_cache;
  rows.to[1] = p.v_cache;
  rows.capacity = static_cast<Stride>(p.capacity);
  rows.position = static_cast<Stride>(p.position);
  rows.from_batch = units(from.batch), rows.from_head = units(from.head), rows.from_token = units(from.token);
  rows.to_batch = units(to.batch), rows.to_head = units(to.head), rows.to_token = units(to.token);
  const dim3 blocks((rows.threads - 1) / kKvAppendThreads + 1, count);
  kv_append_rows<Unit, Stride><<<blocks, kKvAppendThreads, 0, stream>>>(rows);
  return cudaGetLastError();
}

template <class Unit>
cudaError_t launch(const KvAppendParams& p, cudaStream_t stream) {
  constexpr int64_t kBytes = sizeof(Unit);
  if (p.row_bytes / kBytes > INT32_MAX / p.tokens / p.heads / p.batch) {
    if (p.batch == 1) return cudaErrorInvalidConfiguration;
    KvAppendParams rest = p;  // more units than a thread index can count
    rest.batch = p.batch / 2;
    const cudaError_t error = launch<Unit>(rest, stream);
    if (error != cudaSuccess) return error;
    rest.k += rest.batch * p.k_strides.batch, rest.v += rest.batch * p.v_strides.batch;
    rest.k_cache += rest.batch * p.k_cache_strides.batch, rest.v_cache += rest.batch * p.v_cache_strides.batch;
    if (rest.positions != nullptr) rest.positions += rest.batch;
    rest.batch = p.batch - rest.batch;
    return launch<Unit>(rest, stream);
  }
  bool fits_int32 = p.capacity <= INT32_MAX;
  for (const KvAppendRows& strides : {p.k_strides, p.v_strides, p.k_cache_strides, p.v_cache_strides}) {
    for (const int64_t stride : {strides.batch, strides.head, strides.token}) {
      fits_int32 = fits_int32 && stride / kBytes >= INT32_MIN && stride / kBytes <= INT32_MAX;
    }
  }
  const auto launch_tensors = fits_int32 ? launch<Unit, int32_t> : launch<Unit, int64_t>;
  if (same(p.k_strides, p.v_strides) && same(p.k_cache_strides, p.v_cache_strides)) return launch_tensors(p, 0, 2, stream);
  const cudaError_t error = launch_tensors(p, 0, 1, stream);
  return error != cudaSuccess ? error : launch_tensors(p, 1, 1, stream);
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
