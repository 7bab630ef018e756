// int4_decode_attention on the CPU; the loops are in decode_attention_cpu.h.
#include "decode_attention/decode_attention_cpu.h"
#include "int4_decode_attention/int4_decode_attention.h"

namespace warpwatch {

// A row as those loops read it: element by element, in fp32.
template <class Element>
struct Int4Row {
  const Element* window;  // null: the row is quantized
  const uint8_t* codes;
  const Half* scales;
  bool is_key;
  int head_dim;

  float operator[](int d) const {
    if (window != nullptr) return within_half(static_cast<float>(window[d]));
    const float code = static_cast<float>(codes[d / 2] >> (4 * (d % 2)) & 15);
    const int scale = is_key ? d : d / kInt4Group * 2;
    const int zero = is_key ? head_dim + d : scale + 1;
    return static_cast<float>(scales[scale]) * code + static_cast<float>(scales[zero]);
  }
};

template <class Element>
struct Int4Head {
  const Int4Cache& cache;
  int64_t index;  // of the head among all heads of the batch
  int whole;      // quantized keys: those of complete groups

  Int4Head(const Int4Cache& of, int batch, int head)
      : cache(of),
        index(int64_t{batch} * of.heads_kv + head),
        whole(std::clamp(of.lengths[batch], 0, of.capacity) / kInt4Group * kInt4Group) {}

  int page_of(int) const { return 0; }
  Int4Row<Element> key_row(int, int key) const {
    const auto* scales = static_cast<const Half*>(cache.k_scales);
    const int64_t group = index * (cache.capacity / kInt4Group) + key / kInt4Group;
    return row(cache.k_window, cache.k_codes, scales + group * 2 * cache.head_dim, true, key);
  }
  Int4Row<Element> value_row(int, int key) const {
    const auto* scales = static_cast<const Half*>(cache.v_scales);
    const int64_t token = index * cache.capacity + key;
    return row(cache.v_window, cache.v_codes, scales + token * (cache.head_dim / kInt4Group) * 2, false, key);
  }

 private:
  Int4Row<Element> row(const void* window, const uint8_t* codes, const Half* scales, bool is_key,
                       int key) const {
    const auto* rows = static_cast<const Element*>(window) + index * kInt4Group * cache.head_dim;
    return {.window = key < whole ? nullptr : rows + int64_t{key - whole} * cache.head_dim,
            .codes = codes + (index * cache.capacity + key) * (cache.head_dim / 2),
            .scales = scales,
            .is_key = is_key,
            .head_dim = cache.head_dim};
  }
};

template <typename Element>
struct HeadOf<Int4Cache, Element> {
  using Type = Int4Head<Element>;
};

void int4_decode_attention_cpu(const DecodeAttentionParams& p, const Int4Cache& cache) {
  decode_any_dtype_on_cpu(p, cache);
}

}  // namespace warpwatch
