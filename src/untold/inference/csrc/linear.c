/* A linear layer for few rows: it reads each weight once, as fast as memory gives it. */

#include <string.h>

#include "kernels.h"
#include "numbers.h"

enum { PANEL = 2 * LANES, BLOCK = 4 };

/* One panel for one row. Four inputs at a time have sums of their own, because an addition waits for
the one before. */
INLINED void panel_of_one(const float *restrict panel, const float *restrict x, long inputs,
                          lanes *sums) {
  lanes a0 = sums[0], a1 = sums[1], b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
  const lanes *weight = (const lanes *)panel;
  long k = 0;
  for (; k + 4 <= inputs; k += 4, weight += 8) {
    a0 += weight[0] * x[k], a1 += weight[1] * x[k];
    b0 += weight[2] * x[k + 1], b1 += weight[3] * x[k + 1];
    c0 += weight[4] * x[k + 2], c1 += weight[5] * x[k + 2];
    d0 += weight[6] * x[k + 3], d1 += weight[7] * x[k + 3];
  }
  for (; k < inputs; k++, weight += 2) a0 += weight[0] * x[k], a1 += weight[1] * x[k];
  sums[0] = (a0 + b0) + (c0 + d0);
  sums[1] = (a1 + b1) + (c1 + d1);
}

/* One panel for four rows; x points to each. */
INLINED void panel_of_four(const float *restrict panel, const float *const *x, long inputs,
                           lanes (*sums)[2]) {
  const float *xa = x[0], *xb = x[1], *xc = x[2], *xd = x[3];
  lanes a0 = sums[0][0], a1 = sums[0][1], b0 = sums[1][0], b1 = sums[1][1];
  lanes c0 = sums[2][0], c1 = sums[2][1], d0 = sums[3][0], d1 = sums[3][1];
  const lanes *weight = (const lanes *)panel;
  for (long k = 0; k < inputs; k++, weight += 2) {
    a0 += weight[0] * xa[k], a1 += weight[1] * xa[k];
    b0 += weight[0] * xb[k], b1 += weight[1] * xb[k];
    c0 += weight[0] * xc[k], c1 += weight[1] * xc[k];
    d0 += weight[0] * xd[k], d1 += weight[1] * xd[k];
  }
  sums[0][0] = a0, sums[0][1] = a1, sums[1][0] = b0, sums[1][1] = b1;
  sums[2][0] = c0, sums[2][1] = c1, sums[3][0] = d0, sums[3][1] = d1;
}

INLINED void finish_panel(float *y, const float *sums, long count, enum after after) {
  for (long k = 0; k < count; k++) {
    float sum = sums[k];
    y[k] = after == ADD ? y[k] + sum : after == RELU && sum < 0.0f ? 0.0f : sum;
  }
}

CLONED static void multiply_floats(const struct linear *layer, const float *x, float *y, long rows,
                                   enum after after) {
  long inputs = layer->inputs, outputs = layer->outputs;
  for (long first = 0; first < outputs; first += PANEL) {
    const float *panel = layer->panels + first * inputs;
    long count = outputs - first < PANEL ? outputs - first : PANEL;
    float start[PANEL] = {0};
    if (layer->bias) memcpy(start, layer->bias + first, count * sizeof(float));
    for (long r = 0; r < rows; r += BLOCK) {
      long own = rows - r < BLOCK ? rows - r : BLOCK;
      lanes sums[BLOCK][2];
      for (int k = 0; k < BLOCK; k++) memcpy(sums[k], start, sizeof(start));
      if (own == 1) {
        panel_of_one(panel, x + r * inputs, inputs, sums[0]);
      } else { /* a row that is missing repeats the last one */
        const float *from[BLOCK];
        for (long k = 0; k < BLOCK; k++) from[k] = x + (r + (k < own ? k : own - 1)) * inputs;
        panel_of_four(panel, from, inputs, sums);
      }
      for (long k = 0; k < own; k++)
        finish_panel(y + (r + k) * outputs + first, (const float *)sums[k], count, after);
    }
  }
}

void untold_multiply(const struct linear *layer, const float *x, float *y, long rows,
                     enum after after) {
  if (layer->panels) multiply_floats(layer, x, y, rows, after);
  else untold_multiply_bytes(layer, x, y, rows, after);
}
