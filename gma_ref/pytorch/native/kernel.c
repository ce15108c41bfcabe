/* Gaussian Mixture Attention for the CPU: both passes, a tile of tokens at a time, with nothing of N * K numbers stored.

   Plain C with the vector types of GCC and Clang, for any processor. A tile is worked on "lying": its tokens are the
   columns, gamma[k][t], so that one vector holds the same component of W tokens. Softmax then runs down the columns
   without a sum across a vector, and every product below has the one form of `product`. All rows are padded with zeros
   to whole vectors, components to a multiple of R; what is added there has a responsibility of 0. */

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

/* One call: sizes, and the arrays as (G, S, tokens, width) with their strides in numbers; the width is contiguous. */
typedef struct {
    const float *at;
    int64_t group, sequence, token;
} Array;

typedef struct {
    int64_t S, N_q, N_k, d_r, K, d_v, squares, ranges, range, block, whole, pieces;
    double eps;
    Array q, k, v, output;
    const uint8_t *mask;                     /* (G, S, N_k) or null */
    const float *centre, *weights, *offset; /* (G, d_r) or null, (G, d_r (1 + squares), K), (G, K), K padded */
    float *memory;                           /* (G, S, ranges, K + 1, d_v + 1), see below */
    float *reach, *starts;                   /* (G, S, N_q); (G, S, blocks, K, d_v + 1), causal only */
} Call;

/* What a worker has of its own. */
typedef struct {
    const Call *call;
    int64_t g, s, K, d_v, width; /* padded K and d_v, length of the features */
    float *x;                    /* [width][T], features of a tile of tokens: x and its squares */
    float *gamma_q, *gamma_k;    /* [K][T] */
    float *v;                    /* [T][d_v] */
    float *M, *Z;                /* [K][d_v] and [K], the memory */
    float *affinity;             /* [T][T], [key][query] */
    float *sums, *D;             /* [T][d_v] and [T], numerator and denominator */
    float *rest, *lost;          /* [d_v] and [T][d_v]: values that are not finite, all so far, and up to each token */
    int poisoned;                /* whether there were any */
} Work;

static int64_t padded(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

/* C[i][j] += sum over l of A[i * ar + l * al] * B[l][j], R rows by J vectors: the sums stay in registers. */
static inline __attribute__((always_inline)) void block(int J, float *restrict C, int64_t c, const float *restrict A,
                                                        int64_t ar, int64_t al, const float *restrict B, int64_t b,
                                                        int64_t length)
{
    vec sum[R][2];
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 2
        for (int j = 0; j < J; j++) sum[i][j] = *(vec *)(C + i * c + j * W);
    for (int64_t l = 0; l < length; l++, A += al, B += b) {
        const vec b0 = *(const vec *)B, b1 = *(const vec *)(B + (J - 1) * W);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            const float a = A[i * ar];
            sum[i][0] += a * b0;
            if (J == 2) sum[i][1] += a * b1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 2
        for (int j = 0; j < J; j++) *(vec *)(C + i * c + j * W) = sum[i][j];
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

static inline vec choose(bits where, vec yes, vec no) { return (vec)(((bits)yes & where) | ((bits)no & ~where)); }

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
    for (int t = 0; t < T; t += W) {
        vec most = *(vec *)(gamma + t), sum = {};
        for (int64_t k = 1; k < K; k++) {
            vec s = *(vec *)(gamma + k * T + t);
            most = choose(s > most, s, most);
        }
        for (int64_t k = 0; k < K; k++) {
            vec *s = (vec *)(gamma + k * T + t);
            *s = exponential(*s - most);
            sum += *s;
        }
        const vec scale = 1.0f / sum;
        for (int64_t k = 0; k < K; k++) *(vec *)(gamma + k * T + t) *= scale;
    }
}

/* Rows of tokens to columns, four by four: out[m][t] = rows[t][m]. */
static void lay(float *out, const float *rows, int64_t stride, int64_t width, int64_t tokens)
{
    int64_t m = 0;
    if (tokens < T) memset(out, 0, sizeof(float) * width * T);
    for (; m + 4 <= width && tokens == T; m += 4)
        for (int t = 0; t < T; t += 4) {
            const float *from = rows + t * stride + m;
            const four a = *(four *)from, b = *(four *)(from + stride), c = *(four *)(from + 2 * stride),
                       d = *(four *)(from + 3 * stride);
            const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                       AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            *(four *)(out + m * T + t) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
            *(four *)(out + (m + 1) * T + t) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
            *(four *)(out + (m + 2) * T + t) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
            *(four *)(out + (m + 3) * T + t) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
        }
    for (; m < width; m++)
        for (int64_t t = 0; t < tokens; t++) out[m * T + t] = rows[t * stride + m];
}

static const float *tokens_of(const Work *w, const Array *array, int64_t token)
{
    return array->at + w->g * array->group + w->s * array->sequence + token * array->token;
}

/* Features and responsibilities of a tile of tokens, Eq. (3). */
static void responsibilities(Work *w, const Array *array, int64_t first, int64_t tokens, float *gamma)
{
    const Call *call = w->call;
    const float *offset = call->offset + w->g * w->K;
    lay(w->x, tokens_of(w, array, first), array->token, call->d_r, tokens);
    for (int64_t i = 0; i < call->d_r * T; i += W) {
        vec *x = (vec *)(w->x + i);
        if (call->centre) *x -= call->centre[w->g * call->d_r + i / T];
        if (call->squares) *(vec *)(w->x + call->d_r * T + i) = *x * *x;
    }
    for (int64_t i = 0; i < w->K * T; i += W) *(vec *)(gamma + i) = (vec){} + offset[i / T];
    product(gamma, T, w->K, T, call->weights + w->g * w->width * w->K, 1, w->K, w->x, T, w->width);
    softmax(gamma, w->K);
}

/* Values that are not finite leave the products, where 0 times NaN would reach other tokens; `rest` sums them up. */
static void take_out(Work *w)
{
    for (int64_t t = 0; t < T; t++)
        for (int64_t e = 0; e < w->d_v; e++) {
            float *v = w->v + t * w->d_v + e;
            if (!(fabsf(*v) <= FLT_MAX)) w->rest[e] += *v, *v = 0, w->poisoned = 1;
            w->lost[t * w->d_v + e] = w->rest[e];
        }
}

/* Responsibilities and values of a tile of keys; those beyond the last and masked ones are 0. */
static void keys(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    const uint8_t *mask = call->mask ? call->mask + (w->g * call->S + w->s) * call->N_k + first : NULL;
    vec check = {};
    responsibilities(w, &call->k, first, tokens, w->gamma_k);
    for (int64_t t = 0; t < T; t++) {
        float *v = w->v + t * w->d_v;
        if (t < tokens && (!mask || mask[t]))
            memcpy(v, tokens_of(w, &call->v, first + t), sizeof(float) * call->d_v);
        else {
            memset(v, 0, sizeof(float) * call->d_v);
            for (int64_t k = 0; k < w->K; k++) w->gamma_k[k * T + t] = 0;
        }
        for (int64_t e = 0; e < w->d_v; e += W) check += *(vec *)(v + e) * 0.0f;
    }
    int finite = 1;
    for (int i = 0; i < W; i++) finite &= check[i] == 0;
    if (!finite || w->poisoned) take_out(w);
}

/* Sum of a row of a tile. */
static inline float row_sum(const float *row)
{
    vec sum = *(const vec *)row;
    for (int t = W; t < T; t += W) sum += *(const vec *)(row + t);
    float half[W];
    memcpy(half, &sum, sizeof sum);
    for (int n = W / 2; n; n /= 2)
        for (int i = 0; i < n; i++) half[i] += half[i + n];
    return half[0];
}

/* Add a tile of keys to the memory, Eqs. (5) and (6). */
static void write_tile(Work *w)
{
    product(w->M, w->d_v, w->K, w->d_v, w->gamma_k, T, 1, w->v, w->d_v, T);
    for (int64_t k = 0; k < w->K; k++) w->Z[k] += row_sum(w->gamma_k + k * T);
}

/* Start numerator and denominator with what a tile of queries reads from the memory, Eq. (7). */
static void read_tile(Work *w)
{
    memset(w->sums, 0, sizeof(float) * T * w->d_v);
    product(w->sums, w->d_v, T, w->d_v, w->gamma_q, 1, T, w->M, w->d_v, w->K);
    for (int t = 0; t < T; t += W) {
        vec D = {};
        for (int64_t k = 0; k < w->K; k++) D += *(vec *)(w->gamma_q + k * T + t) * w->Z[k];
        *(vec *)(w->D + t) = D;
    }
}

/* Add what a tile of queries reads from the keys of the same tile up to each, Eq. (8b). */
static void read_within(Work *w)
{
    memset(w->affinity, 0, sizeof(float) * T * T);
    product(w->affinity, T, T, T, w->gamma_k, 1, T, w->gamma_q, T, w->K);
    for (int j = 0; j < T; j++) {
        float *row = w->affinity + j * T;
        for (int i = 0; i < j; i++) row[i] = 0;
        for (int i = 0; i < T; i += W) *(vec *)(w->D + i) += *(vec *)(row + i);
    }
    product(w->sums, w->d_v, T, w->d_v, w->affinity, 1, T, w->v, w->d_v, T);
}

/* Write the output, Eq. (8), and 1/D, which is 0 where no key reaches. */
static void divide(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    float *reach = call->reach + (w->g * call->S + w->s) * call->N_q + first;
    for (int64_t t = 0; t < tokens; t++) {
        float *out = (float *)tokens_of(w, &call->output, first + t), *sums = w->sums + t * w->d_v;
        const float D = w->D[t] + (float)call->eps, scale = 1 / D;
        reach[t] = isinf(scale) ? 0 : scale;
        if (w->poisoned)
            for (int64_t e = 0; e < w->d_v; e++) sums[e] += w->lost[t * w->d_v + e];
        if (D == 0)
            memset(out, 0, sizeof(float) * call->d_v);
        else if (isinf(scale))
            for (int64_t e = 0; e < call->d_v; e++) out[e] = sums[e] / D;
        else {
            for (int64_t e = 0; e < w->d_v; e += W) *(vec *)(sums + e) *= scale;
            memcpy(out, sums, sizeof(float) * call->d_v);
        }
    }
}

/* The memory of a range, K + 1 rows of V and Z side by side; row K is what of the values is not finite. */
static float *memory_of(const Work *w, int64_t range)
{
    const Call *call = w->call;
    return call->memory + ((w->g * call->S + w->s) * call->ranges + range) * (call->K + 1) * (call->d_v + 1);
}

static void store_memory(const Work *w, float *to)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, to += d_v + 1) {
        memcpy(to, w->M + k * w->d_v, sizeof(float) * d_v);
        to[d_v] = w->Z[k];
    }
}

static void load_memory(Work *w, const float *from)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, from += d_v + 1) {
        memcpy(w->M + k * w->d_v, from, sizeof(float) * d_v);
        w->Z[k] = from[d_v];
    }
    for (int64_t e = 0; e < d_v; e++) {
        w->rest[e] = from[e];
        w->poisoned |= from[e] != 0;
    }
    for (int64_t t = 0; t < T; t++) memcpy(w->lost + t * w->d_v, w->rest, sizeof(float) * w->d_v);
}

/* Where the memory before a block is kept for the backward pass; the last block are the tokens of no whole chunk. */
static float *start_of(const Work *w, int64_t token)
{
    const Call *call = w->call;
    const int64_t piece = (token + call->block - 1) / call->block;
    return call->starts + ((w->g * call->S + w->s) * call->pieces + piece) * call->K * (call->d_v + 1);
}

static float *cut(float **from, int64_t size)
{
    float *piece = *from;
    *from += padded(size, 16);
    return piece;
}

/* Buffers for one task, all 0. */
static float *prepare(Work *w, const Call *call, int64_t sequence)
{
    const int64_t K = padded(call->K, R), d_v = padded(call->d_v, W), width = call->d_r * (1 + call->squares);
    const int64_t size = width * T + 2 * K * T + 3 * T * d_v + K * d_v + K + T * T + T + d_v + 16 * 16;
    float *room = aligned_alloc(64, padded(size, 16) * sizeof(float)), *rest = room;
    if (!room) return NULL;
    memset(room, 0, padded(size, 16) * sizeof(float));
    *w = (Work){.call = call, .g = sequence / call->S, .s = sequence % call->S, .K = K, .d_v = d_v, .width = width};
    w->x = cut(&rest, width * T), w->gamma_q = cut(&rest, K * T), w->gamma_k = cut(&rest, K * T);
    w->v = cut(&rest, T * d_v), w->sums = cut(&rest, T * d_v), w->lost = cut(&rest, T * d_v);
    w->M = cut(&rest, K * d_v), w->Z = cut(&rest, K), w->affinity = cut(&rest, T * T), w->D = cut(&rest, T);
    w->rest = cut(&rest, d_v);
    return room;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Task of the first step: write the keys of one range of one sequence into a memory of its own. */
int gma_write(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task / call->ranges);
    if (!room) return 1;
    const int64_t range = task % call->ranges, end = least(call->N_k, (range + 1) * call->range);
    for (int64_t i = range * call->range; i < end; i += T) {
        keys(&w, i, least(T, end - i));
        write_tile(&w);
    }
    float *memory = memory_of(&w, range);
    store_memory(&w, memory);
    memcpy(memory + call->K * (call->d_v + 1), w.rest, sizeof(float) * call->d_v);
    free(room);
    return 0;
}

/* Task of the second step, bidirectional: read for one range of queries; the memory is that of the whole sequence. */
int gma_read(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task / call->ranges);
    if (!room) return 1;
    const int64_t range = task % call->ranges, end = least(call->N_q, (range + 1) * call->range);
    load_memory(&w, memory_of(&w, range));
    for (int64_t i = range * call->range; i < end; i += T) {
        responsibilities(&w, &call->q, i, least(T, end - i), w.gamma_q);
        read_tile(&w);
        divide(&w, i, least(T, end - i));
    }
    free(room);
    return 0;
}

/* Task of the second step, causal: read and write one range, from the memory before it; leave the memory after it. */
int gma_read_causal(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task / call->ranges);
    if (!room) return 1;
    const int64_t range = task % call->ranges, end = least(call->N_q, (range + 1) * call->range);
    float *memory = memory_of(&w, range);
    load_memory(&w, memory);
    for (int64_t i = range * call->range; i < end; i += T) {
        const int64_t tokens = least(T, end - i);
        if (i % call->block == 0 || i == call->whole) store_memory(&w, start_of(&w, i));
        responsibilities(&w, &call->q, i, tokens, w.gamma_q);
        keys(&w, i, tokens);
        read_tile(&w);
        read_within(&w);
        divide(&w, i, tokens);
        write_tile(&w);
    }
    store_memory(&w, memory);
    memcpy(memory + call->K * (call->d_v + 1), w.rest, sizeof(float) * call->d_v);
    free(room);
    return 0;
}
