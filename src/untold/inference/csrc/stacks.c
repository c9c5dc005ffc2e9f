/* A whole encoder, and a whole step of a decoder, in one call. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "numbers.h"

CLONED static void norm_rows(const struct shape *shape, const struct norm *norm, const float *x,
                             float *y, long rows) {
  for (long r = 0; r < rows; r++)
    layer_norm(x + r * shape->width, norm->weight, norm->bias, shape->eps, y + r * shape->width,
               shape->width);
}

/* Returns what a sublayer reads: the norm of x, or x itself where norms come after. */
static const float *enter(const struct shape *shape, const struct norm *norm, const float *x,
                          const struct room *room, long rows) {
  if (shape->norms_after) return x;
  norm_rows(shape, norm, x, room->normed, rows);
  return room->normed;
}

/* Ends a sublayer, which has added to x. */
static void leave(const struct shape *shape, const struct norm *norm, float *x,
                  const struct room *room, long rows) {
  if (!shape->norms_after) return;
  norm_rows(shape, norm, x, room->normed, rows);
  memcpy(x, room->normed, rows * shape->width * sizeof(float));
}

/* x becomes x sigmoid(x). The power is that of -|x|, which is always finite. */
CLONED static void swish(float *x, long count) {
  for (long k = 0; k < count; k += LANES) {
    long own = count - k < LANES ? count - k : LANES;
    lanes part = {0}, one = part + 1.0f;
    memcpy(&part, x + k, own * sizeof(float));
    masks negative = part < 0.0f;
    lanes power = exp_lanes((lanes)(((masks)part & negative) | ((masks)-part & ~negative)));
    lanes above = (lanes)(((masks)power & negative) | ((masks)one & ~negative));
    part *= above / (power + one);
    memcpy(x + k, &part, own * sizeof(float));
  }
}

static void gelu(float *x, long count) {
  for (long k = 0; k < count; k++) x[k] *= 0.5f * (1.0f + erff(x[k] * 0.70710678f));
}

static void feed_forward(const struct shape *shape, const struct norm *norm,
                         const struct linear *inner, const struct linear *outer, float *x,
                         const struct room *room, long rows) {
  const float *read = enter(shape, norm, x, room, rows);
  enum activation activation = shape->activation;
  untold_multiply(inner, read, room->wide, rows, activation == ACTIVATE_RELU ? RELU : KEEP);
  if (activation == ACTIVATE_SWISH) swish(room->wide, rows * inner->outputs);
  if (activation == ACTIVATE_GELU) gelu(room->wide, rows * inner->outputs);
  untold_multiply(outer, room->wide, x, rows, ADD);
  leave(shape, norm, x, room, rows);
}

static void finish(const struct shape *shape, const struct norm *last, const float *x,
                   float *states, long rows) {
  if (shape->norms_after) memcpy(states, x, rows * shape->width * sizeof(float));
  else norm_rows(shape, last, x, states, rows);
}

/* Reads one token a row: x is its embedding and is overwritten; `states` are those after the last
norm. */
void untold_decode(const struct shape *shape, const struct decoder_layer *layers,
                   const struct norm *last, const struct past *past, const struct sources *from,
                   const struct room *room, float *x, float *states, long rows, float *means,
                   long length, long explained) {
  for (long number = 0; number < shape->layers; number++) {
    const struct decoder_layer *layer = layers + number;
    const float *read = enter(shape, &layer->self_norm, x, room, rows);
    untold_multiply(&layer->qkv, read, room->wide, rows, KEEP);
    untold_read_past(shape, number, room->wide, past, rows, room->shares, room->context);
    untold_multiply(&layer->out, room->context, x, rows, ADD);
    leave(shape, &layer->self_norm, x, room, rows);
    read = enter(shape, &layer->cross_norm, x, room, rows);
    untold_multiply(&layer->query, read, room->wide, rows, KEEP);
    untold_read_source(shape, number, room->wide, from, rows, room->shares, room->context,
                       number == explained ? means : 0, length);
    untold_multiply(&layer->cross_out, room->context, x, rows, ADD);
    leave(shape, &layer->cross_norm, x, room, rows);
    feed_forward(shape, &layer->ffn_norm, &layer->inner, &layer->outer, x, room, rows);
  }
  finish(shape, last, x, states, rows);
}

/* Encodes sentences without padding: x are embeddings and are overwritten. */
void untold_encode(const struct shape *shape, const struct encoder_layer *layers,
                   const struct norm *last, const int64_t *starts, long sentences,
                   const struct room *room, float *x, float *states) {
  long rows = starts[sentences];
  for (long number = 0; number < shape->layers; number++) {
    const struct encoder_layer *layer = layers + number;
    const float *read = enter(shape, &layer->self_norm, x, room, rows);
    untold_multiply(&layer->qkv, read, room->wide, rows, KEEP);
    untold_read_own(shape, room->wide, starts, sentences, room->shares, room->context);
    untold_multiply(&layer->out, room->context, x, rows, ADD);
    leave(shape, &layer->self_norm, x, room, rows);
    feed_forward(shape, &layer->ffn_norm, &layer->inner, &layer->outer, x, room, rows);
  }
  finish(shape, last, x, states, rows);
}
