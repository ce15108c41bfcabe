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

#define V(array, i) (*(vec *)((array) + (i))) /* the vector that begins at a number of an array */

/* One call: sizes, and the arrays as (G, S, tokens, width) with their strides in numbers; the width is contiguous. */
typedef struct {
    const float *at;
    int64_t group, sequence, token;
} Array;

typedef struct {
    int64_t S, N_q, N_k, d_r, K, d_v, squares, causal, ranges, range, block, whole, pieces;
    double eps;
    Array q, k, v, output;
    const uint8_t *mask;                    /* (G, S, N_k) or null */
    const float *centre, *weights, *offset; /* (G, d_r) or null, (G, d_r (1 + squares), K), (G, K), padded */
    float *memory;                          /* (G, S, ranges, K + 1, d_v + 1), see `memory_of` */
    float *reach, *starts;                  /* (G, S, N_q); (G, S, pieces, K, d_v + 1), causal only */
    Array upstream, q_bar, k_bar, v_bar;    /* of the backward pass, from here on */
    float *memory_bar, *mixture_bar;        /* as memory; (G, S, ranges, K, 2 d_r + 1): sums of x, of its squares, of 1 */
} Call;

/* What a worker has of its own. Lying arrays are [.][T], standing ones [T][.]. */
typedef struct {
    const Call *call;
    int64_t g, s, range, K, d_v, d_r, width; /* padded K, d_v and d_r, length of the features */
    int poisoned;                     /* whether there were values that are not finite */
    float *x, *gamma_q, *gamma_k;     /* lying: features (x and its squares) and responsibilities of a tile of tokens */
    float *v, *sums;                  /* standing: values, and numerators or what the gradient of the values is */
    float *M, *Z, *affinity, *D;      /* [K][d_v] and [K], the memory; [key][query]; [T], denominators */
    float *rest, *lost;               /* values that are not finite, all so far, and [T][d_v] those up to each token */
    float *P, *lying, *r, *inner;     /* G / D standing; P or values lying; -<G, o> / D; their affinity [key][query] */
    float *M_bar, *Z_bar;             /* gradient of the memory */
    float *delta, *by_x, *rows;       /* lying: gradients of responsibilities, then scores; of features; they standing */
    float *by_weights, *by_offset;    /* [K][2 d_r] and [K], gradients of the mixture */
    float *queries, *keys, *inners;   /* gamma_q, gamma_k and inner of the tiles of a block, causal only */
    float check;                      /* 0 while all gradients are finite */
} Work;

static void clear(float *array, int64_t size) { memset(array, 0, sizeof(float) * size); }

static float across(vec v)
{
    float sum = 0;
    for (int i = 0; i < W; i++) sum += v[i];
    return sum;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t padded(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

/* C[i][j] += sum over l of A[i * ar + l * al] * B[l][j], R rows by J vectors. The sums stay in registers, and start
   from 0, so that many small terms do not meet a large C one by one. */
static inline __attribute__((always_inline)) void block(int J, float *restrict C, int64_t c, const float *restrict A,
                                                        int64_t ar, int64_t al, const float *restrict B, int64_t b,
                                                        int64_t length)
{
    vec sum[R][2];
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 2
        for (int j = 0; j < J; j++) sum[i][j] = (vec){};
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
        for (int j = 0; j < J; j++) *(vec *)(C + i * c + j * W) += sum[i][j];
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
    vec most[T / W], sum[T / W];
    for (int t = 0; t < T / W; t++) most[t] = ((vec *)gamma)[t], sum[t] = (vec){};
    for (int64_t k = 1; k < K; k++)
        for (int t = 0; t < T / W; t++) {
            const vec s = ((vec *)(gamma + k * T))[t];
            most[t] = choose(s > most[t], s, most[t]);
        }
    for (int64_t k = 0; k < K; k++)
        for (int t = 0; t < T / W; t++) {
            vec *s = (vec *)(gamma + k * T) + t;
            *s = exponential(*s - most[t]);
            sum[t] += *s;
        }
    for (int t = 0; t < T / W; t++) sum[t] = 1.0f / sum[t];
    for (int64_t k = 0; k < K; k++)
        for (int t = 0; t < T / W; t++) ((vec *)(gamma + k * T))[t] *= sum[t];
}

/* out[j][i] = in[i][j], four by four: lays tokens down, or lets them stand again. */
static void transpose(float *out, int64_t o, const float *in, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i += 4) {
        int64_t j = 0;
        for (; i + 4 <= rows && j + 4 <= columns; j += 4) {
            const float *from = in + i * n + j;
            float *to = out + j * o + i;
            const four a = *(four *)from, b = *(four *)(from + n), c = *(four *)(from + 2 * n), d = *(four *)(from + 3 * n);
            const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                       AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
            *(four *)(to + o) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
            *(four *)(to + 2 * o) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
            *(four *)(to + 3 * o) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
        }
        for (; j < columns; j++)
            for (int64_t l = i; l < rows && l < i + 4; l++) out[j * o + l] = in[l * n + j];
    }
}

static const float *tokens_of(const Work *w, const Array *array, int64_t token)
{
    return array->at + w->g * array->group + w->s * array->sequence + token * array->token;
}

/* Ask for some rows from memory, which arrive while something else is worked on. */
static void fetch(const Work *w, const Array *array, int64_t first, int64_t end, int64_t width)
{
    for (int64_t t = first; t < end; t++)
        for (int64_t m = 0; m < width; m += 16) __builtin_prefetch(tokens_of(w, array, t) + m);
}

static int is_key(const Work *w, int64_t token)
{
    return !w->call->mask || w->call->mask[(w->g * w->call->S + w->s) * w->call->N_k + token];
}

/* Features of a tile of tokens; those beyond the last, and masked keys, are 0 whatever they hold. */
static void features(Work *w, const Array *array, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    const int keys = array == &call->k;
    if (tokens < T) clear(w->x, call->d_r * T);
    transpose(w->x, T, tokens_of(w, array, first), array->token, tokens, call->d_r);
    for (int64_t t = 0; keys && call->mask && t < tokens; t++)
        for (int64_t m = 0; !is_key(w, first + t) && m < call->d_r; m++) w->x[m * T + t] = 0;
    for (int64_t i = 0; i < call->d_r * T; i += W) {
        vec *x = (vec *)(w->x + i);
        if (call->centre) *x -= call->centre[w->g * call->d_r + i / T];
        if (call->squares) *(vec *)(w->x + call->d_r * T + i) = *x * *x;
    }
}

static const float *weights_of(const Work *w) { return w->call->weights + w->g * padded(w->width, R) * w->K; }

/* Features and responsibilities of a tile of tokens, Eq. (3). */
static void responsibilities(Work *w, const Array *array, int64_t first, int64_t tokens, float *gamma)
{
    const Call *call = w->call;
    const float *offset = call->offset + w->g * w->K;
    const int keys = array == &call->k;
    const Array *also = keys ? &call->v : &call->output;
    const int64_t total = keys ? call->N_k : call->N_q;
    features(w, array, first, tokens);
    for (int64_t i = 0; i < w->K * T; i += W) *(vec *)(gamma + i) = (vec){} + offset[i / T];
    for (int64_t k = 0; k < w->K; k += R) {
        const int64_t next = first + T + k * T / w->K, stop = first + T + (k + R) * T / w->K;
        fetch(w, array, least(next, total), least(stop, total), call->d_r);
        fetch(w, also, least(next, total), least(stop, total), call->d_v);
        if (w->P && !keys) fetch(w, &call->upstream, least(next, total), least(stop, total), call->d_v);
        product(gamma + k * T, T, R, T, weights_of(w) + k, 1, w->K, w->x, T, w->width);
    }
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

/* Values of a tile of keys; those beyond the last and masked ones are 0. */
static void values(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    vec check = {};
    for (int64_t t = 0; t < T; t++) {
        float *v = w->v + t * w->d_v;
        if (t < tokens && is_key(w, first + t))
            memcpy(v, tokens_of(w, &call->v, first + t), sizeof(float) * call->d_v);
        else
            clear(v, call->d_v);
        for (int64_t e = 0; e < w->d_v; e += W) check += *(vec *)(v + e) * 0.0f;
    }
    if (!(across(check) == 0) || w->poisoned) take_out(w);
}

/* Responsibilities and values of a tile of keys; those beyond the last and masked ones are 0. */
static void keys(Work *w, int64_t first, int64_t tokens)
{
    responsibilities(w, &w->call->k, first, tokens, w->gamma_k);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; (t >= tokens || !is_key(w, first + t)) && k < w->K; k++) w->gamma_k[k * T + t] = 0;
    values(w, first, tokens);
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

/* Add a tile of keys to the memory, Eqs. (5) and (6). */
static void write_tile(Work *w)
{
    product(w->M, w->d_v, w->K, w->d_v, w->gamma_k, T, 1, w->v, w->d_v, T);
    add_rows(w->Z, w->gamma_k, NULL, w->K);
}

/* Start numerator and denominator with what a tile of queries reads from the memory, Eq. (7). */
static void read_tile(Work *w)
{
    clear(w->sums, T * w->d_v);
    product(w->sums, w->d_v, T, w->d_v, w->gamma_q, 1, T, w->M, w->d_v, w->K);
    for (int t = 0; t < T; t += W) {
        vec D = {};
        for (int64_t k = 0; k < w->K; k++) D += *(vec *)(w->gamma_q + k * T + t) * w->Z[k];
        *(vec *)(w->D + t) = D;
    }
}

/* Set to 0 what a query does not see: keys of the same tile after it. */
static void cut_future(float *inner)
{
    for (int j = 0; j < T; j++) clear(inner + j * T, j);
}

/* Affinity of the keys of a tile with its queries, Eq. (11). */
static void affinity(Work *w)
{
    clear(w->affinity, T * T);
    product(w->affinity, T, T, T, w->gamma_k, 1, T, w->gamma_q, T, w->K);
    cut_future(w->affinity);
}

/* Add what a tile of queries reads from the keys of the same tile up to each, Eq. (8b). */
static void read_within(Work *w)
{
    affinity(w);
    for (int i = 0; i < T * T; i += W) *(vec *)(w->D + i % T) += *(vec *)(w->affinity + i);
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
            clear(out, call->d_v);
        else if (isinf(scale))
            for (int64_t e = 0; e < call->d_v; e++) out[e] = sums[e] / D;
        else {
            for (int64_t e = 0; e < w->d_v; e += W) *(vec *)(sums + e) *= scale;
            memcpy(out, sums, sizeof(float) * call->d_v);
        }
    }
}

/* The memory of a range, K + 1 rows of V and Z side by side; row K is what of the values is not finite. */
static float *memory_of(const Work *w, float *memories)
{
    const Call *call = w->call;
    return memories + ((w->g * call->S + w->s) * call->ranges + w->range) * (call->K + 1) * (call->d_v + 1);
}

/* Where the memory before a block is kept for the backward pass; the last block are the tokens of no whole chunk. */
static float *start_of(const Work *w, int64_t token)
{
    const Call *call = w->call;
    const int64_t piece = (token + call->block - 1) / call->block;
    return call->starts + ((w->g * call->S + w->s) * call->pieces + piece) * call->K * (call->d_v + 1);
}

static void store(const Work *w, float *to, const float *M, const float *Z)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, to += d_v + 1) {
        memcpy(to, M + k * w->d_v, sizeof(float) * d_v);
        to[d_v] = Z[k];
    }
}

static void load(const Work *w, const float *from, float *M, float *Z)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, from += d_v + 1) {
        memcpy(M + k * w->d_v, from, sizeof(float) * d_v);
        Z[k] = from[d_v];
    }
}

/* The memory of a range, and what of the values is not finite. */
static void store_memory(const Work *w)
{
    float *memory = memory_of(w, w->call->memory);
    store(w, memory, w->M, w->Z);
    memcpy(memory + w->call->K * (w->call->d_v + 1), w->rest, sizeof(float) * w->call->d_v);
}

static void load_memory(Work *w)
{
    const float *memory = memory_of(w, w->call->memory), *rest = memory + w->call->K * (w->call->d_v + 1);
    load(w, memory, w->M, w->Z);
    for (int64_t e = 0; e < w->call->d_v; e++) {
        w->rest[e] = rest[e];
        w->poisoned |= rest[e] != 0;
        for (int64_t t = 0; t < T; t++) w->lost[t * w->d_v + e] = rest[e];
    }
}

/* Buffers for a task, which is a range of a sequence; all are 0. Returns what is to be freed. */
static float *prepare(Work *w, const Call *call, int64_t task, int backward)
{
    const int64_t sequence = task / call->ranges, K = padded(call->K, R), d_v = padded(call->d_v, W);
    const int64_t d_r = padded(call->d_r, W), width = call->d_r * (1 + call->squares), b = backward != 0;
    const int64_t kept = b * call->causal * padded(least(call->block, call->N_q), T) * K;
    *w = (Work){.call = call, .g = sequence / call->S, .s = sequence % call->S, .range = task % call->ranges,
                .K = K, .d_v = d_v, .d_r = d_r, .width = width};
    const struct { float **buffer; int64_t size; } all[] = {
        {&w->x, width * T}, {&w->gamma_q, K * T}, {&w->gamma_k, K * T}, {&w->v, T * d_v}, {&w->sums, T * d_v},
        {&w->M, K * d_v}, {&w->Z, K}, {&w->affinity, T * T}, {&w->D, T}, {&w->rest, d_v}, {&w->lost, T * d_v},
        {&w->P, b * T * d_v}, {&w->lying, b * T * d_v}, {&w->r, b * T}, {&w->inner, b * T * T},
        {&w->M_bar, b * K * d_v}, {&w->Z_bar, b * K}, {&w->delta, b * K * T}, {&w->by_x, b * padded(width, R) * T},
        {&w->rows, b * T * 2 * d_r}, {&w->by_weights, b * K * 2 * d_r}, {&w->by_offset, b * K},
        {&w->queries, kept}, {&w->keys, kept}, {&w->inners, kept / K * T},
    };
    const int count = sizeof all / sizeof *all;
    int64_t size = 0;
    for (int i = 0; i < count; i++) size += padded(all[i].size, 16);
    float *room = aligned_alloc(64, sizeof(float) * size), *next = room;
    if (room) clear(room, size);
    for (int i = 0; i < count; next += padded(all[i++].size, 16)) *all[i].buffer = all[i].size ? next : NULL;
    return room;
}

/* Tokens of a range are first, first + T, ... before end. */
#define FIRST(w) ((w).range * (w).call->range)
#define END(w, N) least((w).call->N, ((w).range + 1) * (w).call->range)

/* Forward, first step: write the keys of a range into a memory of its own. */
int gma_write(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 0);
    if (!room) return 1;
    for (int64_t i = FIRST(w), end = END(w, N_k); i < end; i += T) {
        keys(&w, i, least(T, end - i));
        write_tile(&w);
    }
    store_memory(&w);
    free(room);
    return 0;
}

/* Forward, second step, bidirectional: read for a range of queries from the memory of the whole sequence. */
int gma_read(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 0);
    if (!room) return 1;
    load_memory(&w);
    for (int64_t i = FIRST(w), end = END(w, N_q); i < end; i += T) {
        responsibilities(&w, &call->q, i, least(T, end - i), w.gamma_q);
        read_tile(&w);
        divide(&w, i, least(T, end - i));
    }
    free(room);
    return 0;
}

/* Forward, second step, causal: read and write a range, from the memory before it to the memory after it. */
int gma_read_causal(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 0);
    if (!room) return 1;
    load_memory(&w);
    for (int64_t i = FIRST(w), end = END(w, N_q); i < end; i += T) {
        const int64_t tokens = least(T, end - i);
        if (i % call->block == 0 || i == call->whole) store(&w, start_of(&w, i), w.M, w.Z);
        responsibilities(&w, &call->q, i, tokens, w.gamma_q);
        keys(&w, i, tokens);
        read_tile(&w);
        read_within(&w);
        divide(&w, i, tokens);
        write_tile(&w);
    }
    store_memory(&w);
    free(room);
    return 0;
}

/* What comes from above to a tile of queries: P = G / D and r = -<G, o> / D. */
static void upstream(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    const float *reach = call->reach + (w->g * call->S + w->s) * call->N_q + first;
    if (tokens < T) clear(w->sums, T * w->d_v), clear(w->lying, T * w->d_v), clear(w->P, T * w->d_v);
    for (int64_t t = 0; t < tokens; t++) {
        float *P = w->P + t * w->d_v;
        memcpy(P, tokens_of(w, &call->upstream, first + t), sizeof(float) * call->d_v);
        for (int64_t e = 0; e < w->d_v; e += W) *(vec *)(P + e) *= reach[t];
    }
    transpose(w->sums, T, tokens_of(w, &call->output, first), call->output.token, tokens, call->d_v);
    transpose(w->lying, T, w->P, w->d_v, tokens, call->d_v);
    for (int t = 0; t < T; t += W) {
        vec r = {};
        for (int64_t i = t; i < call->d_v * T; i += T) r -= V(w->sums, i) * V(w->lying, i);
        V(w->r, t) = r;
    }
}

/* <V_j, P_i> + r_i for the queries and keys of a tile, lying as [key][query]. */
static void upstream_within(Work *w)
{
    for (int i = 0; i < T * T; i += W) *(vec *)(w->inner + i) = *(vec *)(w->r + i % T);
    product(w->inner, T, T, T, w->v, w->d_v, 1, w->lying, T, w->call->d_v);
    cut_future(w->inner);
}

/* Gradient of the responsibilities of queries from what they read of the memory. */
static void delta_of_queries(Work *w)
{
    for (int64_t i = 0; i < w->K * T; i += W) *(vec *)(w->delta + i) = *(vec *)(w->r + i % T) * w->Z[i / T];
    product(w->delta, T, w->K, T, w->M, w->d_v, 1, w->lying, T, w->call->d_v);
}

/* Gradients of the responsibilities of keys, and of values, from the gradient of the memory that they wrote to. */
static void delta_of_keys(Work *w)
{
    transpose(w->lying, T, w->v, w->d_v, T, w->d_v);
    for (int64_t i = 0; i < w->K * T; i += W) *(vec *)(w->delta + i) = (vec){} + w->Z_bar[i / T];
    product(w->delta, T, w->K, T, w->M_bar, w->d_v, 1, w->lying, T, w->call->d_v);
    clear(w->sums, T * w->d_v);
    product(w->sums, w->d_v, T, w->d_v, w->gamma_k, 1, T, w->M_bar, w->d_v, w->K);
}

/* Add what a tile of queries gives back to the memory that it read. */
static void write_back(Work *w)
{
    product(w->M_bar, w->d_v, w->K, w->d_v, w->gamma_q, T, 1, w->P, w->d_v, T);
    add_rows(w->Z_bar, w->gamma_q, w->r, w->K);
}

/* NaN unless all numbers are finite. */
static float checked(const float *array, int64_t size)
{
    vec sum = {};
    for (int64_t i = 0; i < size; i += W) sum += *(vec *)(array + i) * 0.0f;
    return across(sum);
}

/* From responsibilities to scores, Eq. (18), and from those to the tokens of a tile and to the mixture. */
static void back_through_scores(Work *w, const Array *array_bar, int64_t first, int64_t tokens, const float *gamma)
{
    const int64_t d_r = w->call->d_r;
    vec check = {};
    for (int t = 0; t < T; t += W) {
        vec mean = {}, other = {};
        for (int64_t i = t; i < w->K * T; i += 2 * T) {
            mean += V(gamma, i) * V(w->delta, i);
            other += V(gamma, i + T) * V(w->delta, i + T);
        }
        mean += other;
        for (int64_t i = t; i < w->K * T; i += T) V(w->delta, i) = V(gamma, i) * (V(w->delta, i) - mean);
    }

    clear(w->by_x, padded(w->width, R) * T);
    product(w->by_x, T, padded(w->width, R), T, weights_of(w), w->K, 1, w->delta, T, w->K);
    for (int64_t i = 0; i < d_r * T; i += W) {
        if (w->call->squares) V(w->by_x, i) += 2.0f * V(w->x, i) * V(w->by_x, d_r * T + i);
        check += V(w->by_x, i) * 0.0f;
    }
    w->check += across(check);
    transpose((float *)tokens_of(w, array_bar, first), array_bar->token, w->by_x, T, d_r, tokens);

    transpose(w->rows, 2 * w->d_r, w->x, T, d_r, T);
    for (int t = 0; t < T; t++)
        for (int64_t m = t * 2 * w->d_r; m < (t * 2 + 1) * w->d_r; m += W) V(w->rows, w->d_r + m) = V(w->rows, m) * V(w->rows, m);
    product(w->by_weights, 2 * w->d_r, w->K, 2 * w->d_r, w->delta, T, 1, w->rows, 2 * w->d_r, T);
    add_rows(w->by_offset, w->delta, NULL, w->K);
}

/* The gradients of a tile of keys, of which those of the values are in `sums`. */
static void finish_keys(Work *w, int64_t first, int64_t tokens)
{
    for (int64_t t = 0; t < tokens; t++)
        memcpy((float *)tokens_of(w, &w->call->v_bar, first + t), w->sums + t * w->d_v, sizeof(float) * w->call->d_v);
    w->check += checked(w->sums, T * w->d_v);
    back_through_scores(w, &w->call->k_bar, first, tokens, w->gamma_k);
}

/* Leave what a task of the backward pass has summed up; returns 2 if something is not finite, which needs care. */
static int finish(Work *w, float *room)
{
    const int64_t d_r = w->call->d_r, K = w->call->K;
    float *to = w->call->mixture_bar + ((w->g * w->call->S + w->s) * w->call->ranges + w->range) * K * (2 * d_r + 1);
    for (int64_t k = 0; k < K; k++, to += 2 * d_r + 1) {
        for (int64_t m = 0; m < d_r; m++) {
            to[m] += w->by_weights[k * 2 * w->d_r + m];
            to[d_r + m] += w->by_weights[k * 2 * w->d_r + w->d_r + m];
        }
        to[2 * d_r] += w->by_offset[k];
    }
    const float check = w->check + checked(w->by_weights, w->K * 2 * w->d_r) + checked(w->M_bar, w->K * w->d_v);
    const int careful = w->poisoned || !(check == 0);
    free(room);
    return careful ? 2 : 0;
}

/* Backward, first step: sum up what the queries of a range give back to the memory; bidirectional, do them as well. */
int gma_queries_back(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 1);
    if (!room) return 1;
    load_memory(&w);
    for (int64_t i = FIRST(w), end = END(w, N_q); i < end; i += T) {
        responsibilities(&w, &call->q, i, least(T, end - i), w.gamma_q);
        upstream(&w, i, least(T, end - i));
        write_back(&w);
        if (call->causal) continue;
        delta_of_queries(&w);
        back_through_scores(&w, &call->q_bar, i, least(T, end - i), w.gamma_q);
    }
    store(&w, memory_of(&w, call->memory_bar), w.M_bar, w.Z_bar);
    return finish(&w, room);
}

/* Backward, second step, bidirectional: a range of keys receives the gradient of the memory. */
int gma_keys_back(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 1);
    if (!room) return 1;
    load(&w, memory_of(&w, call->memory_bar), w.M_bar, w.Z_bar);
    for (int64_t i = FIRST(w), end = END(w, N_k); i < end; i += T) {
        keys(&w, i, least(T, end - i));
        delta_of_keys(&w);
        finish_keys(&w, i, least(T, end - i));
    }
    return finish(&w, room);
}

/* Backward, second step, causal: from the last block of a range to the first; through a block forwards for its
   queries, which need the memory before them, then backwards for its keys, which need the gradient after them. */
int gma_back_causal(const Call *call, int64_t task)
{
    Work w;
    float *room = prepare(&w, call, task, 1);
    if (!room) return 1;
    const int64_t first = FIRST(w), end = END(w, N_q);
    load(&w, memory_of(&w, call->memory_bar), w.M_bar, w.Z_bar);
    for (int64_t b = first + (end - first - 1) / call->block * call->block; b >= first; b -= call->block) {
        const int64_t stop = least(end, b + call->block);
        load(&w, start_of(&w, b), w.M, w.Z);
        for (int64_t i = b; i < stop; i += T) {
            const int64_t tokens = least(T, stop - i);
            w.gamma_q = w.queries + (i - b) * w.K, w.gamma_k = w.keys + (i - b) * w.K, w.inner = w.inners + (i - b) * T;
            keys(&w, i, tokens);
            responsibilities(&w, &call->q, i, tokens, w.gamma_q);
            upstream(&w, i, tokens);
            upstream_within(&w);
            delta_of_queries(&w);
            product(w.delta, T, w.K, T, w.gamma_k, T, 1, w.inner, T, T);
            back_through_scores(&w, &call->q_bar, i, tokens, w.gamma_q);
            write_tile(&w);
        }
        for (int64_t i = b + (stop - b - 1) / T * T; i >= b; i -= T) {
            const int64_t tokens = least(T, stop - i);
            w.gamma_q = w.queries + (i - b) * w.K, w.gamma_k = w.keys + (i - b) * w.K, w.inner = w.inners + (i - b) * T;
            values(&w, i, tokens);
            features(&w, &call->k, i, tokens);
            upstream(&w, i, tokens);
            affinity(&w);
            delta_of_keys(&w);
            product(w.sums, w.d_v, T, w.d_v, w.affinity, T, 1, w.P, w.d_v, T);
            transpose(w.affinity, T, w.inner, T, T, T);
            product(w.delta, T, w.K, T, w.gamma_q, T, 1, w.affinity, T, T);
            finish_keys(&w, i, tokens);
            write_back(&w);
        }
    }
    store(&w, memory_of(&w, call->memory_bar), w.M_bar, w.Z_bar);
    return finish(&w, room);
}
