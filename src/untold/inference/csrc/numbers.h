/* Sums, softmax and norms of a few numbers. They are written into each function that uses them, so
that a compiler knows their lengths and makes vectors of their loops. */

#ifndef UNTOLD_NUMBERS
#define UNTOLD_NUMBERS

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
/* The compiler makes three versions and the processor picks its own when the library is loaded. */
#define CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONED
#endif
#define INLINED static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));

typedef int32_t masks __attribute__((vector_size(64), aligned(4), may_alias));

enum { LANES = 16 };

INLINED lanes larger(lanes a, lanes b) {
  masks first = a > b;
  return (lanes)(((masks)a & first) | ((masks)b & ~first));
}

/* The largest of some numbers; if one is NaN, NaN or any of them. */
INLINED float largest_of(const float *x, long count) {
  float largest = x[0];
  long k = 1;
  if (count >= LANES) {
    lanes found = *(const lanes *)x;
    for (k = LANES; k + LANES <= count; k += LANES) found = larger(*(const lanes *)(x + k), found);
    for (int n = 0; n < LANES; n++) largest = found[n] > largest ? found[n] : largest;
  }
  for (; k < count; k++) largest = x[k] > largest ? x[k] : largest;
  return largest;
}

/* Adds halves until one number is left. */
INLINED float sum_of(lanes x) {
  x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  x += __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return x[0];
}

INLINED float dot(const float *a, const float *b, long count) {
  float sum = 0.0f;
  long k = 0;
  if (count >= LANES) {
    lanes sums = *(const lanes *)a * *(const lanes *)b;
    for (k = LANES; k + LANES <= count; k += LANES)
      sums += *(const lanes *)(a + k) * *(const lanes *)(b + k);
    sum = sum_of(sums);
  }
  for (; k < count; k++) sum += a[k] * b[k];
  return sum;
}

/* y += factor * x */
INLINED void add_scaled(float *restrict y, const float *restrict x, float factor, long count) {
  for (long k = 0; k < count; k++) y[k] += factor * x[k];
}

/* exp(x) for x <= 0, to a few units of 1e-7 of its value (1e-6 at -20); at least exp(-87). */
INLINED lanes exp_lanes(lanes x) {
  x = larger((lanes){0} - 87.0f, x);
  masks power = __builtin_convertvector(x * 1.44269504f - 0.5f, masks);
  lanes whole = __builtin_convertvector(power, lanes);
  lanes rest = x - whole * 0.693145752f - whole * 1.42860677e-6f;
  lanes value = rest * 0.00138888889f + 0.00833333333f;
  value = value * rest + 0.0416666667f;
  value = value * rest + 0.166666667f;
  value = value * rest + 0.5f;
  value = value * rest + 1.0f;
  value = value * rest + 1.0f;
  return value * (lanes)((power + 127) << 23);
}

/* Returns the sum of exp(x - shift), and writes each into y unless it is NULL. */
INLINED float exp_all(const float *x, float shift, float *y, long count) {
  lanes sums = {0};
  for (long k = 0; k < count; k += LANES) {
    long own = count - k < LANES ? count - k : LANES;
    lanes part = {0};
    if (own == LANES) part = *(const lanes *)(x + k);
    else memcpy(&part, x + k, own * sizeof(float));
    part = exp_lanes(part - shift);
    if (own < LANES)
      for (long n = own; n < LANES; n++) part[n] = 0.0f;
    sums += part;
    if (y && own == LANES) *(lanes *)(y + k) = part;
    else if (y) memcpy(y + k, &part, own * sizeof(float));
  }
  return sum_of(sums);
}

INLINED void softmax(float *x, long count) {
  float factor = 1.0f / exp_all(x, largest_of(x, count), x, count);
  for (long k = 0; k < count; k++) x[k] *= factor;
}

INLINED void layer_norm(const float *restrict x, const float *weight, const float *bias, float eps,
                        float *restrict y, long width) {
  float mean = 0.0f, square = 0.0f;
  for (long k = 0; k < width; k++) mean += x[k];
  mean /= (float)width;
  for (long k = 0; k < width; k++) square += (x[k] - mean) * (x[k] - mean);
  float factor = 1.0f / sqrtf(square / (float)width + eps);
  for (long k = 0; k < width; k++) y[k] = (x[k] - mean) * factor * weight[k] + bias[k];
}

#endif
