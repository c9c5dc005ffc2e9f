/* The best tokens of a search, in one pass over the scores of all. */

#include <math.h>

#include "kernels.h"
#include "numbers.h"

enum { AT_ONCE = 64 }; /* numbers that are compared with the worst of the best before a closer look */

/* Puts a number at its place among the best, which are sorted; of equal ones the first stays first. */
INLINED void insert(float *values, int64_t *places, long count, float value, long place) {
  long k = count - 1;
  for (; k > 0 && value > values[k - 1]; k--) {
    values[k] = values[k - 1];
    places[k] = places[k - 1];
  }
  values[k] = value;
  places[k] = place;
}

/* Finds the `count` largest numbers of each row, largest first, and their places; of equal ones those further to the left. Numbers of -INFINITY are found last. */
CLONED void untold_largest(const float *numbers, long size, long count, long rows,
                           float *values, int64_t *places) {
  for (long r = 0; r < rows; r++) {
    const float *row = numbers + r * size;
    float *best = values + r * count;
    int64_t *where = places + r * count;
    for (long k = 0; k < count; k++) best[k] = -INFINITY, where[k] = 0;
    long filled = 0, k = 0;
    for (; filled < count; k++, filled++) insert(best, where, filled + 1, row[k], k);
    while (k < size) {
      long end = k + AT_ONCE < size ? k + AT_ONCE : size;
      int look = end - k < AT_ONCE || largest_of(row + k, AT_ONCE) > best[count - 1];
      for (; look && k < end; k++)
        if (row[k] > best[count - 1]) insert(best, where, count, row[k], k);
      k = end;
    }
  }
}
