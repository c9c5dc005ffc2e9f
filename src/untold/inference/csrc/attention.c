/* Attention of few queries to keys and values that lie anywhere: no hypothesis is ever copied, and
padding is never read. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "numbers.h"

/* Where the keys and values of one query lie. Row number k of `keys` is path[k], or start + k. */
struct seen {
  const float *keys, *values;
  long stride;
  const int32_t *path;
  long start, count;
};

INLINED long row_of(const struct seen *seen, long k) {
  return (seen->path ? seen->path[k] : seen->start + k) * seen->stride;
}

INLINED void attend(const float *restrict query, const struct seen *seen, long heads, long width,
                    float *restrict shares, float *restrict out) {
  float scale = 1.0f / sqrtf((float)width);
  long count = seen->count;
  for (long k = 0; k < count; k++) {
    const float *key = seen->keys + row_of(seen, k);
    for (long h = 0; h < heads; h++)
      shares[h * count + k] = dot(query + h * width, key + h * width, width) * scale;
  }
  for (long h = 0; h < heads; h++) softmax(shares + h * count, count);
  memset(out, 0, heads * width * sizeof(float));
  for (long k = 0; k < count; k++) {
    const float *value = seen->values + row_of(seen, k);
    for (long h = 0; h < heads; h++)
      add_scaled(out + h * width, value + h * width, shares[h * count + k], width);
  }
}

INLINED void attend_by_width(const float *query, const struct seen *seen, long heads, long width,
                             float *shares, float *out) {
  if (width == 32) attend(query, seen, heads, 32, shares, out);
  else if (width == 64) attend(query, seen, heads, 64, shares, out);
  else attend(query, seen, heads, width, shares, out);
}

/* Writes the keys and values of each row's new token, and lets each row attend to what it has read. `shares` has room for (heads, count + 1). */
CLONED void untold_read_past(const struct shape *shape, long layer, const float *qkv,
                             const struct past *past, long rows, float *shares, float *out) {
  long width = shape->width, stride = 2 * width;
  float *base = past->tokens + layer * past->capacity * stride;
  for (long r = 0; r < rows; r++) {
    const float *own = qkv + r * 3 * width;
    int32_t *path = past->path + r * past->room;
    path[past->count] = (int32_t)(past->next + r);
    memcpy(base + (past->next + r) * stride, own + width, 2 * width * sizeof(float));
    struct seen seen = {base, base + width, stride, path, 0, past->count + 1};
    attend_by_width(own, &seen, shape->heads, width / shape->heads, shares, out + r * width);
  }
}

/* Lets each row attend to its source. `means` gets the mean share of each
source position, (rows, length), unless it is NULL. */
CLONED void untold_read_source(const struct shape *shape, long layer, const float *queries,
                               const struct sources *from, long rows, float *shares, float *out,
                               float *means, long length) {
  long width = shape->width, heads = shape->heads;
  const float *base = from->keys_values + layer * 2 * width;
  for (long r = 0; r < rows; r++) {
    long sentence = from->sentences[r / from->beams];
    long start = from->starts[sentence], count = from->starts[sentence + 1] - start;
    struct seen seen = {base, base + width, shape->layers * 2 * width, 0, start, count};
    attend_by_width(queries + r * width, &seen, heads, width / heads, shares, out + r * width);
    if (means) {
      float *mean = means + r * length;
      memset(mean, 0, length * sizeof(float));
      for (long h = 0; h < heads; h++)
        add_scaled(mean, shares + h * count, 1.0f / (float)heads, count);
    }
  }
}

/* Lets the positions of each sentence attend to their own sentence. */
CLONED void untold_read_own(const struct shape *shape, const float *qkv, const int64_t *starts,
                            long sentences, float *shares, float *out) {
  long width = shape->width, heads = shape->heads;
  for (long s = 0; s < sentences; s++)
    for (long r = starts[s]; r < starts[s + 1]; r++) {
      struct seen seen = {qkv + width, qkv + 2 * width, 3 * width, 0, starts[s],
                          starts[s + 1] - starts[s]};
      attend_by_width(qkv + r * 3 * width, &seen, heads, width / heads, shares, out + r * width);
    }
}
