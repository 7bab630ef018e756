// Checks shared by the operators that write rows into pages or read them out.
#pragma once

#include "framework/checks.h"
#include "paged_kv/paged_kv.h"

namespace warpwatch {

struct PagedKvOperands {
  const char* op;

  // Checks the pages, the block table and the lengths.
  void check_pages(const Tensor& k_pages, const Tensor& v_pages, const Tensor& block_table, const Tensor& lengths) const;
  // Checks new rows against already checked pages that they are written to.
  void check_rows(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& v_pages,
                  const Tensor& block_table) const;
  // Checks the block table's entries; on the CPU only, where they can be read. append: those
  // of the new positions, else of the first.
  void check_table(const PagedKvParams& p, bool append, int64_t pages) const;
  // Checks 16-byte alignment for vector accesses on a GPU.
  void check_aligned(const Argument& argument) const;

  // The params of checked tensors.
  PagedKvParams parameters(const Tensor& k, const Tensor& v, const Tensor& k_pages, const Tensor& v_pages,
                           const Tensor& block_table, const Tensor& lengths) const;
};

}  // namespace warpwatch
