// What the operators that write rows into pages, or read them out, ask of their tensors.
#pragma once

#include "framework/checks.h"
#include "paged_kv/paged_kv.h"

namespace warpwatch {

struct PagedKvOperands {
  const char* op;

  // The pages, the table and the lengths.
  void check_pages(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table, const Tensor& lengths) const;
  // New rows, beside checked pages that they are written to.
  void check_rows(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& v_pages,
                  const Tensor& block_table) const;
  // Only where the table can be read: on the CPU. Of each sequence the new positions are wanted, or else the first ones.
  void check_table(const PagedKvParams& p, bool append, int64_t pages) const;
  // A GPU moves 16 bytes at a time.
  void check_aligned(const Argument& argument) const;

  // Of checked tensors.
  PagedKvParams parameters(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& v_pages,
                           const Tensor& block_table, const Tensor& lengths) const;
};

}  // namespace warpwatch
