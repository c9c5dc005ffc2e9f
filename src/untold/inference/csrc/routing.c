/* One step of guided routing: what prepared_routing.py computes in torch, row by row. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "numbers.h"

INLINED float squash_factor(float square) {
  square = square > 0.0f ? square : 0.0f;
  return sqrtf(square) / (square + 1.0f);
}

/* Softmax over the capsules of each word, which has a column. */
INLINED void share_words(const float *logits, float *restrict shares, long capsules, long stride,
                         long count, float *restrict sums) {
  memcpy(sums, logits, count * sizeof(float));
  for (long j = 1; j < capsules; j++)
    for (long k = 0; k < count; k++)
      sums[k] = logits[j * stride + k] > sums[k] ? logits[j * stride + k] : sums[k];
  for (long j = 0; j < capsules; j++) {
    float *own = shares + j * stride;
    for (long k = 0; k < count; k++) own[k] = logits[j * stride + k] - sums[k];
    exp_all(own, 0.0f, own, count);
  }
  memset(sums, 0, count * sizeof(float));
  for (long j = 0; j < capsules; j++) add_scaled(sums, shares + j * stride, 1.0f, count);
  for (long j = 0; j < capsules; j++)
    for (long k = 0; k < count; k++) shares[j * stride + k] /= sums[k];
}

/* Sums the rows of a table, each times its share. */
INLINED void weigh_rows(const float *table, long stride, const float *shares, long count,
                        float *restrict sums, long width) {
  memset(sums, 0, width * sizeof(float));
  for (long k = 0; k < count; k++) add_scaled(sums, table + k * stride, shares[k], width);
}

/* Adds what `token` has spoken of to what was covered before. */
INLINED void speak(const struct folded *from, const float *keys, const float *token_keys,
                   const float *state, const float *token, const float *covered, long count,
                   float *spoken) {
  for (long k = 0; k < count; k++)
    spoken[k] = dot(keys + k * from->width, state, from->width) +
                dot(token_keys + k * from->outputs, token, from->outputs);
  softmax(spoken, count);
  for (long k = 0; k < count; k++) spoken[k] += covered[k];
}

/* Room for one row: logits, guided, shares (capsules, length), products (2 length), sums (length). */
INLINED void route_row(const struct folded *from, const struct routed *io, long sentence, long count,
                       long r, float *room) {
  long length = from->length, width = from->width, outputs = from->outputs, j, k;
  long capsules = from->capsules, table = capsules * length;
  const float *keys = from->keys + sentence * (1 + capsules) * length * width;
  const float *start = from->start + sentence * table, *state = io->states + r * width;
  float *logits = room, *guided = room + table, *shares = room + 2 * table;
  float *products = room + 3 * table, *sums = products + 2 * length;
  float *spoken = io->spoken + r * length, *holistic = io->holistic + r * outputs;
  memset(spoken, 0, length * sizeof(float));
  if (io->covered)
    speak(from, keys, from->token_keys + sentence * length * outputs, state,
          from->tokens + io->last[r] * outputs, io->covered + r * length, count, spoken);
  for (j = 0; j < capsules; j++)
    for (k = 0; k < count; k++) {
      long at = j * length + k;
      guided[at] = dot(keys + (length + at) * width, state, width);
      logits[at] = guided[at] + from->strength[j] * spoken[k] + start[at];
    }
  for (long round = 1; round < from->rounds; round++) {
    share_words(logits, shares, capsules, length, count, sums);
    for (j = 0; j < capsules; j++) {
      const float *grams = from->grams + (sentence * capsules + j) * 2 * length * length;
      const float *own = shares + j * length;
      weigh_rows(grams, 2 * length, own, count, products, length + count);
      float factor = squash_factor(dot(own, products, count));
      for (k = 0; k < count; k++)
        logits[j * length + k] += guided[j * length + k] + factor * products[length + k];
    }
  }
  share_words(logits, shares, capsules, length, count, sums);
  memset(io->shares + r * length * 3, 0, length * 3 * sizeof(float));
  for (j = 0; j < capsules; j++)
    for (k = 0; k < count; k++)
      io->shares[(r * length + k) * 3 + from->categories[j]] += shares[j * length + k];
  memcpy(holistic, state, outputs * sizeof(float));
  for (j = 0; j < from->read; j++) {
    const float *own = shares + j * length;
    weigh_rows(from->read_grams + (sentence * from->read + j) * length * length, length, own, count,
               products, count);
    float factor = squash_factor(dot(own, products, count));
    const float *fusion = from->fusion + (sentence * from->read + j) * length * outputs;
    for (k = 0; k < count; k++) add_scaled(holistic, fusion + k * outputs, factor * own[k], outputs);
  }
}

/* Routes the source words as each row sees them. */
CLONED void untold_route(const struct folded *from, const struct sources *sources,
                         const struct routed *io, long rows, float *room) {
  for (long r = 0; r < rows; r++) {
    long sentence = sources->sentences[r / sources->beams];
    long count = sources->starts[sentence + 1] - sources->starts[sentence];
    route_row(from, io, sentence, count, r, room);
  }
}
