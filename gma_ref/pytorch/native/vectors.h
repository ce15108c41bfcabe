/* Arithmetic on tiles of T tokens, in plain C with the vector types of GCC and Clang, for any processor.

   Most tiles are "lying": tokens are the columns, gamma[k][t], so that one vector holds the same component of W tokens.
   Then softmax runs down the columns, without a sum across a vector, and every product has the form of `product`.
   "Standing" ones, [t][e], have tokens as rows, as PyTorch does. Rows are padded with zeros to whole vectors. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif

enum { T = 32, R = 8, W = BYTES / 4 }; /* tokens of a tile, rows of a block of a product, numbers of a vector */
typedef float vec __attribute__((vector_size(BYTES), may_alias));
typedef int32_t bits __attribute__((vector_size(BYTES), may_alias));
typedef uint32_t counts __attribute__((vector_size(BYTES), may_alias)); /* of which sums may overflow */
#define V(array, i) (*(vec *)((array) + (i))) /* the vector that begins at a number of an array */

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t padded(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static inline void clear(float *array, int64_t size) { memset(array, 0, sizeof(float) * size); }

static inline void copy(float *to, const float *from, int64_t size) { memcpy(to, from, sizeof(float) * size); }

#define NUMBER float
#include "numbers.h"
#define NUMBER double
#include "numbers.h"
typedef four_float four;
#define checked checked_float
#define product product_float
#define transpose transpose_float
#define add_rows add_rows_float

static inline vec larger(vec a, vec b)
{
    const bits where = a > b;
    return (vec)(((bits)a & where) | ((bits)b & ~where));
}

/* e to the power of x <= 0, to 1 unit in the last place or two; 0 for x < `cut`, at least -87, and NaN for NaN. */
static inline vec exponential(vec x, float cut)
{
    const vec shift = (vec){} + 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which is in the low bits */
    vec n = x * 1.44269504f + shift;
    const counts power = (counts)n << 23;
    n -= shift;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return (vec)(((counts)p + power) & ~(counts)(x < cut));
}

/* Softmax of each column, in place; `cut` is the logarithm of what is taken for 0. */
static void softmax(float *gamma, int64_t K, float cut)
{
    const int64_t end = K * T;
    for (int t = 0; t < T; t += 2 * W) { /* two vectors at a time, since each step waits for the one before */
        const int u = t + W;
        vec most[2] = {V(gamma, t), V(gamma, u)}, sum[2] = {};
        for (int64_t i = 0; i < end; i += T) {
            most[0] = larger(V(gamma, i + t), most[0]);
            most[1] = larger(V(gamma, i + u), most[1]);
        }
        for (int64_t i = 0; i < end; i += T) {
            sum[0] += V(gamma, i + t) = exponential(V(gamma, i + t) - most[0], cut);
            sum[1] += V(gamma, i + u) = exponential(V(gamma, i + u) - most[1], cut);
        }
        sum[0] = 1.0f / sum[0], sum[1] = 1.0f / sum[1];
        for (int64_t i = 0; i < end; i += T) V(gamma, i + t) *= sum[0], V(gamma, i + u) *= sum[1];
    }
}

/* Set to 0 what a query does not see: keys of the same tile after it. */
static inline void cut_future(float *inner)
{
    for (int j = 0; j < T; j++) clear(inner + j * T, j);
}
