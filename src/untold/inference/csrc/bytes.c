/* A linear layer with 8-bit weights: it reads a quarter of the memory, and sums four products at once.

Each row of inputs is rounded to 8 bits on a scale of its own, as they come, and so are the weights
of each output. What is summed are whole numbers: sums are exact. */

#include <string.h>

#include "kernels.h"
#include "numbers.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_VNNI 1
#endif

enum { PANEL = 2 * LANES, BLOCK = 4, GROUP = 4, ZERO = 128, LARGEST = 127 };

/* The rounded inputs of up to four rows. A zero becomes 128, because products want them without a
sign. */
struct rounded {
  uint8_t numbers[BLOCK][UNTOLD_MOST_INPUTS];
  float scales[BLOCK];
};

CLONED static void round_rows(const float *x, long inputs, long rows, struct rounded *to) {
  for (long r = 0; r < rows; r++) {
    const float *row = x + r * inputs;
    float largest = 1e-12f, bad = 0.0f; /* NaN where an input is not a finite number, else zero */
    for (long k = 0; k < inputs; k++) {
      float size = row[k] < 0.0f ? -row[k] : row[k];
      largest = size > largest ? size : largest;
      bad += row[k] * 0.0f;
    }
    for (long k = 0; k < inputs; k++)
      to->numbers[r][k] = (uint8_t)(int)(ZERO + 0.5f + (float)LARGEST * (row[k] / largest));
    for (long k = inputs; k % GROUP; k++) to->numbers[r][k] = ZERO; /* their weights are zero */
    to->scales[r] = largest + bad;
  }
}

typedef void panel_function(const int8_t *panel, const struct rounded *x, long groups, long rows,
                            int32_t sums[BLOCK][PANEL]);

/* A panel is (groups of four inputs, 32 outputs, the four). */
static void panel_plain(const int8_t *panel, const struct rounded *x, long groups, long rows,
                        int32_t sums[BLOCK][PANEL]) {
  memset(sums, 0, sizeof(int32_t) * BLOCK * PANEL);
  for (long r = 0; r < rows; r++)
    for (long g = 0; g < groups; g++)
      for (long o = 0; o < PANEL; o++)
        for (long k = 0; k < GROUP; k++)
          sums[r][o] += x->numbers[r][g * GROUP + k] * panel[(g * PANEL + o) * GROUP + k];
}

#ifdef HAS_VNNI
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

VNNI static inline __m512i four(const struct rounded *x, long row, long group) {
  int32_t bytes;
  memcpy(&bytes, x->numbers[row] + group * GROUP, sizeof(bytes));
  return _mm512_set1_epi32(bytes);
}

VNNI static void one_row_vnni(const int8_t *panel, const struct rounded *x, long groups,
                              int32_t sums[PANEL]) {
  __m512i a0 = _mm512_setzero_si512(), a1 = a0, b0 = a0, b1 = a0;
  long g = 0;
  for (; g + 2 <= groups; g += 2, panel += 2 * PANEL * GROUP) {
    __m512i first = four(x, 0, g), second = four(x, 0, g + 1);
    a0 = _mm512_dpbusd_epi32(a0, first, _mm512_loadu_si512(panel));
    a1 = _mm512_dpbusd_epi32(a1, first, _mm512_loadu_si512(panel + 64));
    b0 = _mm512_dpbusd_epi32(b0, second, _mm512_loadu_si512(panel + 128));
    b1 = _mm512_dpbusd_epi32(b1, second, _mm512_loadu_si512(panel + 192));
  }
  if (g < groups) {
    a0 = _mm512_dpbusd_epi32(a0, four(x, 0, g), _mm512_loadu_si512(panel));
    a1 = _mm512_dpbusd_epi32(a1, four(x, 0, g), _mm512_loadu_si512(panel + 64));
  }
  _mm512_storeu_si512(sums, _mm512_add_epi32(a0, b0));
  _mm512_storeu_si512(sums + LANES, _mm512_add_epi32(a1, b1));
}

VNNI static void panel_vnni(const int8_t *panel, const struct rounded *x, long groups, long rows,
                            int32_t sums[BLOCK][PANEL]) {
  if (rows == 1) {
    one_row_vnni(panel, x, groups, sums[0]);
    return;
  }
  __m512i a0 = _mm512_setzero_si512(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  for (long g = 0; g < groups; g++, panel += PANEL * GROUP) {
    __m512i low = _mm512_loadu_si512(panel), high = _mm512_loadu_si512(panel + 64);
    a0 = _mm512_dpbusd_epi32(a0, four(x, 0, g), low), a1 = _mm512_dpbusd_epi32(a1, four(x, 0, g), high);
    b0 = _mm512_dpbusd_epi32(b0, four(x, 1, g), low), b1 = _mm512_dpbusd_epi32(b1, four(x, 1, g), high);
    c0 = _mm512_dpbusd_epi32(c0, four(x, 2, g), low), c1 = _mm512_dpbusd_epi32(c1, four(x, 2, g), high);
    d0 = _mm512_dpbusd_epi32(d0, four(x, 3, g), low), d1 = _mm512_dpbusd_epi32(d1, four(x, 3, g), high);
  }
  _mm512_storeu_si512(sums[0], a0), _mm512_storeu_si512(sums[0] + LANES, a1);
  _mm512_storeu_si512(sums[1], b0), _mm512_storeu_si512(sums[1] + LANES, b1);
  _mm512_storeu_si512(sums[2], c0), _mm512_storeu_si512(sums[2] + LANES, c1);
  _mm512_storeu_si512(sums[3], d0), _mm512_storeu_si512(sums[3] + LANES, d1);
}
#endif

/* Tells if this processor multiplies 8-bit numbers faster than floats. */
int untold_has_bytes(void) {
#ifdef HAS_VNNI
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return 0;
#endif
}

static panel_function *fastest(void) {
#ifdef HAS_VNNI
  if (untold_has_bytes()) return panel_vnni;
#endif
  return panel_plain;
}

/* Turns sums of one row into outputs. */
CLONED static void finish_bytes(const struct linear *layer, long first, long count,
                                const int32_t *sums, float scale, float *y, enum after after) {
  const float *scales = layer->scales + first, *bias = layer->bias ? layer->bias + first : 0;
  const int32_t *zeros = layer->zeros + first;
  for (long o = 0; o < count; o++) {
    float sum = (float)(sums[o] - zeros[o]) * scales[o] * scale + (bias ? bias[o] : 0.0f);
    y[o] = after == ADD ? y[o] + sum : after == RELU && sum < 0.0f ? 0.0f : sum;
  }
}

void untold_multiply_bytes(const struct linear *layer, const float *x, float *y, long rows,
                           enum after after) {
  long inputs = layer->inputs, outputs = layer->outputs, groups = (inputs + GROUP - 1) / GROUP;
  panel_function *multiply = fastest();
  struct rounded small;
  int32_t sums[BLOCK][PANEL];
  for (long r = 0; r < rows; r += BLOCK) {
    long own = rows - r < BLOCK ? rows - r : BLOCK;
    round_rows(x + r * inputs, inputs, own, &small);
    for (long k = own; k < BLOCK && own > 1; k++) /* a row that is missing repeats the first */
      memcpy(small.numbers[k], small.numbers[0], groups * GROUP);
    for (long first = 0; first < outputs; first += PANEL) {
      long count = outputs - first < PANEL ? outputs - first : PANEL;
      multiply(layer->bytes + first * groups * GROUP, &small, groups, own, sums);
      for (long k = 0; k < own; k++)
        finish_bytes(layer, first, count, sums[k], small.scales[k], y + (r + k) * outputs + first,
                     after);
    }
  }
}
