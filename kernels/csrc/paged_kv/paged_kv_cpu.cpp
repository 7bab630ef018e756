// paged_kv_append and paged_kv_gather on the CPU: rows are distributed over PyTorch's threads.
#include <cstring>

#include "framework/parallel.h"
#include "paged_kv/paged_kv.h"

namespace warpwatch {
namespace {

// Calls move(row of k or v, its row in the pages or null) for each row.
template <bool Append, class Move>
void for_each_row(const PagedKvParams& p, const Move& move) {
  parallel_for(0, p.batch * p.heads * p.seq, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % p.seq;
      const int64_t head = i / p.seq % p.heads;
      const int64_t batch = i / p.seq / p.heads;
      InPages in;
      const bool held = find_in_pages(p, batch, Append ? p.lengths[batch] - p.seq + row : row, in);
      for (int tensor = 0; tensor < 2; ++tensor) {
        const int64_t* strides = p.row_strides[tensor];
        char* in_rows = static_cast<char*>(p.rows[tensor]) + batch * strides[0] + head * strides[1] + row * strides[2];
        char* in_pages = static_cast<char*>(p.pages[tensor]);
        move(in_rows, held ? in_pages + in.of[tensor] + head * p.page_strides[tensor][1] : nullptr);
      }
    }
  });
}

}  // namespace

void paged_kv_append_cpu(const PagedKvParams& p) {
  for_each_row<true>(p, [&](const char* row, char* in_pages) {
    if (in_pages != nullptr) std::memcpy(in_pages, row, p.row_bytes);
  });
}

void paged_kv_gather_cpu(const PagedKvParams& p) {
  for_each_row<false>(p, [&](char* row, const char* in_pages) {
    if (in_pages == nullptr) {
      std::memset(row, 0, p.row_bytes);
    } else {
      std::memcpy(row, in_pages, p.row_bytes);
    }
  });
}

}  // namespace warpwatch
