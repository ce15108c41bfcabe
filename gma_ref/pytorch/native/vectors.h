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
typedef float four __attribute__((vector_size(16), may_alias, aligned(4)));
#define V(array, i) (*(vec *)((array) + (i))) /* the vector that begins at a number of an array */

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t padded(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static inline void clear(float *array, int64_t size) { memset(array, 0, sizeof(float) * size); }

static inline void copy(float *to, const float *from, int64_t size) { memcpy(to, from, sizeof(float) * size); }

/* 0 if all numbers are finite, else NaN. */
static inline float checked(const float *array, int64_t size)
{
    vec check = {};
    float sum = 0;
    for (int64_t i = 0; i < size; i += W) check += V(array, i) * 0.0f;
    for (int i = 0; i < W; i++) sum += check[i];
    return sum;
}

/* C[i][j] += sum over l of A[i * ar + l * al] * B[l][j], R rows by J vectors. The sums stay in registers, and start
   from 0, so that many small terms do not meet a large C one by one. */
static inline __attribute__((always_inline)) void block(int J, float *restrict C, int64_t c, const float *restrict A,
                                                        int64_t ar, int64_t al, const float *restrict B, int64_t b,
                                                        int64_t length)
{
    vec sum[R][2] = {};
    for (int64_t l = 0; l < length; l++, A += al, B += b) {
        const vec first = V(B, 0), second = V(B, (J - 1) * W);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            sum[i][0] += A[i * ar] * first;
            if (J == 2) sum[i][1] += A[i * ar] * second;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++) {
        V(C, i * c) += sum[i][0];
        if (J == 2) V(C, i * c + W) += sum[i][1];
    }
}

/* The same for any number of rows and columns, C with rows of c numbers and B with rows of b. */
static void product(float *C, int64_t c, int64_t rows, int64_t columns, const float *A, int64_t ar, int64_t al,
                    const float *B, int64_t b, int64_t length)
{
    for (int64_t j = 0; j < columns; j += 2 * W)
        for (int64_t i = 0; i < rows; i += R)
            if (columns - j >= 2 * W)
                block(2, C + i * c + j, c, A + i * ar, ar, al, B + j, b, length);
            else
                block(1, C + i * c + j, c, A + i * ar, ar, al, B + j, b, length);
}

static inline vec larger(vec a, vec b)
{
    const bits where = a > b;
    return (vec)(((bits)a & where) | ((bits)b & ~where));
}

/* e to the power of x <= 0, to 1 unit in the last place or two; below the smallest normal number 0, and NaN for NaN. */
static inline vec exponential(vec x)
{
    const vec shift = (vec){} + 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which is in the low bits */
    vec n = x * 1.44269504f + shift;
    bits power = (bits)n << 23;
    n -= shift;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return (vec)(((bits)p + power) & ~(bits)(x < -87.0f));
}

/* Softmax of each column, in place. */
static void softmax(float *gamma, int64_t K)
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
            sum[0] += V(gamma, i + t) = exponential(V(gamma, i + t) - most[0]);
            sum[1] += V(gamma, i + u) = exponential(V(gamma, i + u) - most[1]);
        }
        sum[0] = 1.0f / sum[0], sum[1] = 1.0f / sum[1];
        for (int64_t i = 0; i < end; i += T) V(gamma, i + t) *= sum[0], V(gamma, i + u) *= sum[1];
    }
}

/* out[j][i] = in[i][j], four by four: lays tokens down, or lets them stand again. */
static void transpose(float *out, int64_t o, const float *in, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i += 4) {
        int64_t j = 0;
        for (; i + 4 <= rows && j + 4 <= columns; j += 4) {
            const float *from = in + i * n + j;
            float *to = out + j * o + i;
            for (int l = 0; l < 4; l++, from++, to += o)
                *(four *)to = (four){from[0], from[n], from[2 * n], from[3 * n]};
        }
        for (; j < columns; j++)
            for (int64_t l = i; l < rows && l < i + 4; l++) out[j * o + l] = in[l * n + j];
    }
}

/* to[k] += sum over the tokens of a[k][t] (b[t], if given). */
static void add_rows(float *to, const float *a, const float *b, int64_t K)
{
    for (int64_t k = 0; k < K; k++, a += T) {
        four sum = {};
        for (int t = 0; t < T; t += 4)
            if (b)
                sum += *(four *)(a + t) * *(four *)(b + t);
            else
                sum += *(four *)(a + t);
        to[k] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

/* Set to 0 what a query does not see: keys of the same tile after it. */
static inline void cut_future(float *inner)
{
    for (int j = 0; j < T; j++) clear(inner + j * T, j);
}
