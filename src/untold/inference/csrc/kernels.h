/* What the kernels share with their callers; library.py has the same structures.

All numbers are float32. A matrix is given row by row, unless a comment says otherwise. No kernel
allocates memory, keeps anything or starts threads. */

#ifndef UNTOLD_KERNELS
#define UNTOLD_KERNELS

#include <stdint.h>

enum { UNTOLD_MOST_INPUTS = 8192 }; /* of a layer with 8-bit weights */

/* A weight lies in panels: those of 32 outputs at a time, input by input. 8-bit weights lie in groups
of four inputs, and `panels` is NULL. */
struct linear {
  long outputs, inputs;
  const float *panels, *bias; /* bias may be NULL */
  const int8_t *bytes;
  const float *scales;  /* of each output's 8-bit sums */
  const int32_t *zeros; /* what inputs of zero add up to, for each output */
};

struct norm {
  const float *weight, *bias;
};

enum activation { ACTIVATE_RELU, ACTIVATE_SWISH, ACTIVATE_GELU };

/* Widths and numbers of a stack of layers. */
struct shape {
  long width, heads, layers;
  float eps;
  int norms_after; /* each sublayer is followed by its norm, and nothing by a last one */
  enum activation activation;
};

struct decoder_layer {
  struct linear qkv, out, query, cross_out, inner, outer;
  struct norm self_norm, cross_norm, ffn_norm;
};

struct encoder_layer {
  struct linear qkv, out, inner, outer;
  struct norm self_norm, ffn_norm;
};

/* What the hypotheses of a search have read: keys and values by (token, layer), and for each
hypothesis the tokens that lead to it. */
struct past {
  float *tokens;    /* (layers, capacity, keys and values, width) */
  int32_t *path;    /* (rows, room) */
  long capacity;    /* tokens for which there is room */
  long room, count; /* of a path, and tokens read before this one */
  long next;        /* where the token of the first row is written */
};

/* Sources without padding: sentence number k begins at row starts[k]. */
struct sources {
  const float *keys_values; /* each position is (layers, keys and values, width) */
  const int64_t *starts;    /* of all sentences, and the end */
  const int64_t *sentences; /* which one each group of `beams` rows belongs to */
  long beams;
};

/* Room for the rows of one call: (rows, width), (rows, the widest), (rows, width), and shares. */
struct room {
  float *normed, *wide, *context, *shares;
};

/* What a source decides: see prepared_routing.py. Each begins with an axis of sentences, and has
room for `length` words. */
struct folded {
  const float *keys;       /* (1 + capsules, length, width): of the focus, then of the capsules */
  const float *token_keys; /* (length, outputs) */
  const float *start;      /* (capsules, length) */
  const float *grams;      /* (capsules, length, 2 length) */
  const float *read_grams; /* (read, length, length) */
  const float *fusion;     /* (read, length, outputs) */
  long length, width, outputs, capsules, read, rounds;
  const float *strength;     /* of each capsule */
  const int64_t *categories; /* of each capsule: 0, 1 or 2 */
  const float *tokens;       /* one vector of `outputs` for each target token */
};

/* What goes into one step of routing and comes out of it, a row for each hypothesis. */
struct routed {
  const float *states;   /* (rows, width) */
  const int64_t *last;   /* the token that each has read */
  const float *covered;  /* (rows, length); NULL: nothing has been said */
  float *spoken;         /* (rows, length): `covered` after this token */
  float *holistic;       /* (rows, outputs) */
  float *shares;         /* (rows, length, 3) */
};

enum after { KEEP, ADD, RELU };

void untold_multiply(const struct linear *layer, const float *x, float *y, long rows,
                     enum after after);
void untold_multiply_bytes(const struct linear *layer, const float *x, float *y, long rows,
                           enum after after);
void untold_read_past(const struct shape *shape, long layer, const float *qkv,
                      const struct past *past, long rows, float *shares, float *out);
void untold_read_source(const struct shape *shape, long layer, const float *queries,
                        const struct sources *from, long rows, float *shares, float *out,
                        float *means, long length);
void untold_read_own(const struct shape *shape, const float *qkv, const int64_t *starts,
                     long sentences, float *shares, float *out);

#endif
