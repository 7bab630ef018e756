// kv_append on the CPU: rows are distributed over PyTorch's threads.
#include <algorithm>
#include <cstring>

#include "framework/parallel.h"
#include "kv_append/kv_append.h"

namespace warpwatch {

void kv_append_cpu(const KvAppendParams& p) {
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, p.row_bytes));  // about 10 us of work per task
  const auto at = [](const KvAppendRows& strides, int64_t batch, int64_t head, int64_t token) {
    return batch * strides.batch + head * strides.head + token * strides.token;
  };
  parallel_for(0, p.batch * p.heads * p.tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = row % p.tokens;
      const int64_t head = row / p.tokens % p.heads;
      const int64_t batch = row / p.tokens / p.heads;
      const int64_t place = (p.positions != nullptr ? p.positions[batch] : p.position) + token;
      std::memcpy(p.k_cache + at(p.k_cache_strides, batch, head, place), p.k + at(p.k_strides, batch, head, token),
                  p.row_bytes);
      std::memcpy(p.v_cache + at(p.v_cache_strides, batch, head, place), p.v + at(p.v_strides, batch, head, token),
                  p.row_bytes);
    }
  });
}

}  // namespace warpwatch
