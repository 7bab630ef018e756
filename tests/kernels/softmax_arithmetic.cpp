// The online softmax of the 16-bit kernels, from their own source, run on the CPU for one row.
//   softmax_arithmetic [step|split] [half|bfloat16] scale < "score value" lines > "weighted mean, log-sum-exp"
// A warp is one lane here: a shuffle gives the lane its own number, and a vote its own word. So each key counts four times,
// for the four lanes of a quad.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

static struct { unsigned x; } threadIdx;
template <typename T>
static T __shfl_xor_sync(unsigned, T x, int) { return x; }
static int __any_sync(unsigned, int predicate) { return predicate; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __frcp_rn(float x) { return 1.0f / x; }
static unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
static float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
using std::max;
using std::min;

#include "flash_attention/flash_attention_split_softmax.cuh"

constexpr int kKeyTiles = 8;            // 64 keys a tile, of which a lane has two in eight
constexpr int kKeys = 2 * kKeyTiles;

template <typename Element>
static float packed(float x) { return static_cast<float>(static_cast<Element>(x)); }

template <typename Element>
static void run(bool split, float scale, const std::vector<float>& scores, const std::vector<float>& values) {
  const warpwatch::RawScores exponents{scale * warpwatch::kLog2E};
  warpwatch::SplitSoftmax softmax;
  float out[1][1][4] = {};
  for (size_t first = 0; first < scores.size(); first += kKeys) {
    float tile[1][kKeyTiles][4];
    for (int key = 0; key < kKeys; ++key) {
      const float score = first + key < scores.size() ? scores[first + key] : -INFINITY;
      tile[0][key / 2][key % 2] = tile[0][key / 2][2 + key % 2] = score;
    }
    if (!split) {
      softmax.step(tile, out, exponents);
    } else if (softmax.exp_and_sum(tile, exponents)) {
      softmax.rescale(out);
    }
    for (size_t key = 0; key < kKeys && first + key < scores.size(); ++key) {
      for (int half = 0; half < 2; ++half) {
        out[0][0][2 * half] += packed<Element>(tile[0][key / 2][2 * half + key % 2]) * values[first + key];
      }
    }
  }
  const float mean = 4.0f * out[0][0][0] * softmax.normalizer(0, 0);
  std::printf("%.9g %.17g\n", mean, double(softmax.log_sum_exp(0, 0, scale, exponents)) - std::log(4.0));
}

int main(int, char** words) {
  std::vector<float> scores, values;
  float score, value;
  while (std::scanf("%f %f", &score, &value) == 2) {
    scores.push_back(score);
    values.push_back(value);
  }
  const bool split = std::strcmp(words[1], "split") == 0;
  const float scale = static_cast<float>(std::atof(words[3]));
  if (std::strcmp(words[2], "half") == 0) {
    run<__half>(split, scale, scores, values);
  } else {
    run<__nv_bfloat16>(split, scale, scores, values);
  }
}
