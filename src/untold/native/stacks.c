/* A whole encoder, and a whole step of a decoder, in one call. */

#include "kernels.h"
#include "numbers.h"

CLONED static void norm_rows(const struct shape *shape, const struct norm *norm, const float *x,
                             float *y, long rows) {
  for (long r = 0; r < rows; r++)
    layer_norm(x + r * shape->width, norm->weight, norm->bias, shape->eps, y + r * shape->width,
               shape->width);
}

static void feed_forward(const struct shape *shape, const struct norm *norm,
                          const struct linear *inner, const struct linear *outer, float *x,
                          const struct room *room, long rows) {
  norm_rows(shape, norm, x, room->normed, rows);
  untold_multiply(inner, room->normed, room->wide, rows, RELU);
  untold_multiply(outer, room->wide, x, rows, ADD);
}

/* Reads one token a row: x is its embedding and is overwritten; `states` are those after the last
norm. */
void untold_decode(const struct shape *shape, const struct decoder_layer *layers,
                   const struct norm *last, const struct past *past, const struct sources *from,
                   const struct room *room, float *x, float *states, long rows, float *means,
                   long length, long explained) {
  for (long number = 0; number < shape->layers; number++) {
    const struct decoder_layer *layer = layers + number;
    norm_rows(shape, &layer->self_norm, x, room->normed, rows);
    untold_multiply(&layer->qkv, room->normed, room->wide, rows, KEEP);
    untold_read_past(shape, number, room->wide, past, rows, room->shares, room->context);
    untold_multiply(&layer->out, room->context, x, rows, ADD);
    norm_rows(shape, &layer->cross_norm, x, room->normed, rows);
    untold_multiply(&layer->query, room->normed, room->wide, rows, KEEP);
    untold_read_source(shape, number, room->wide, from, rows, room->shares, room->context,
                       number == explained ? means : 0, length);
    untold_multiply(&layer->cross_out, room->context, x, rows, ADD);
    feed_forward(shape, &layer->ffn_norm, &layer->inner, &layer->outer, x, room, rows);
  }
  norm_rows(shape, last, x, states, rows);
}

/* Encodes sentences without padding: x are embeddings and are overwritten. */
void untold_encode(const struct shape *shape, const struct encoder_layer *layers,
                   const struct norm *last, const int64_t *starts, long sentences,
                   const struct room *room, float *x, float *states) {
  long rows = starts[sentences];
  for (long number = 0; number < shape->layers; number++) {
    const struct encoder_layer *layer = layers + number;
    norm_rows(shape, &layer->self_norm, x, room->normed, rows);
    untold_multiply(&layer->qkv, room->normed, room->wide, rows, KEEP);
    untold_read_own(shape, room->wide, starts, sentences, room->shares, room->context);
    untold_multiply(&layer->out, room->context, x, rows, ADD);
    feed_forward(shape, &layer->ffn_norm, &layer->inner, &layer->outer, x, room, rows);
  }
  norm_rows(shape, last, x, states, rows);
}
