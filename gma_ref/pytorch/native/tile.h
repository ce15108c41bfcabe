/* A task is a range of tokens of one sequence, worked on tile by tile. What it is given, its room, and what both passes
   do with a tile: from tokens to responsibilities, and from keys and values to the memory. */

#pragma once
#include "vectors.h"

/* Scores and what belongs to them are `score`s. With PRECISE, which `precise.c` sets, that is double, for mixtures whose
   scores cancel in float; then `plain` and `scores` are buffers of their own. */
#ifdef PRECISE
typedef double score;
#define SCORE(name) name##_double
#define STEP(name) name##_precise
#else
typedef float score;
#define SCORE(name) name##_float
#define STEP(name) name
#endif

/* One call: sizes, and the arrays as (G, S, tokens, width) with their strides in numbers; the width is contiguous. */
typedef struct {
    float *at;
    int64_t group, sequence, token;
} Array;

typedef struct {
    int64_t S, N_q, N_k, d_r, K, d_v, squares, causal, ranges, range, block, whole, pieces;
    double eps, cut;                        /* cut: the logarithm of the largest responsibility that is taken for 0 */
    Array q, k, v, output;
    const uint8_t *mask;                    /* (G, S, N_k) or null */
    const score *centre, *weights, *offset; /* (G, d_r) or null, (G, d_r (1 + squares), K), (G, K), padded */
    float *memory;                          /* (G, S, ranges, K + 1, d_v + 1), see `memory_of` */
    float *reach, *starts;                  /* (G, S, N_q); (G, S, pieces, K, d_v + 1), causal only */
    Array upstream, q_bar, k_bar, v_bar;    /* of the backward pass, from here on */
    float *memory_bar;                      /* as memory */
    score *mixture_bar;                     /* (G, S, ranges, K, 2 d_r + 1) for weights and offset */
} Call;

/* What a worker has of its own. Lying arrays are [.][T], standing ones [T][.]. */
typedef struct {
    const Call *call;
    int64_t g, s, range;              /* group, sequence and range of the task */
    int64_t K, d_v, d_r, width;       /* padded, and the length of the features */
    int poisoned;                     /* whether there were values that are not finite */
    score *x, *scores;                /* lying: features (x and its squares) of a tile of tokens, and scores */
    float *plain;                     /* lying: the tokens themselves, or their gradients */
    float *gamma_q, *gamma_k;         /* lying: responsibilities */
    float *v, *sums;                  /* standing: values, and numerators or what the gradient of the values is */
    float *M, *Z, *affinity, *D;      /* [K][d_v] and [K], the memory; [key][query]; [T], denominators */
    float *rest, *lost;               /* values that are not finite, all so far, and [T][d_v] those up to each token */
    float *P, *lying, *r, *inner;     /* G / D standing; P or values lying; -<G, o> / D; their affinity [key][query] */
    float *M_bar, *Z_bar;             /* gradient of the memory */
    float *delta;                     /* lying: gradients of responsibilities, then of scores */
    score *by_x, *rows;               /* gradients of features; features standing, [T][2 d_r] */
    score *by_weights, *by_offset;    /* [K][2 d_r] and [K], gradients of the mixture */
    float *queries, *keys, *inners;   /* gamma_q, gamma_k and inner of the tiles of a block, causal only */
    float check;                      /* 0 while all gradients are finite, else NaN */
} Work;

/* Buffers for a task, which is a range of a sequence; all are 0. Returns what is to be freed. */
static inline float *prepare(Work *w, const Call *call, int64_t task, int backward)
{
    const int64_t sequence = task / call->ranges, K = padded(call->K, R), d_v = padded(call->d_v, W);
    const int64_t d_r = padded(call->d_r, W), width = call->d_r * (1 + call->squares), b = backward != 0;
    const int64_t kept = b * call->causal * padded(least(call->block, call->N_q), T) * K;
    const int64_t s = sizeof(score) / sizeof(float), own = s > 1; /* sizes are in float */
    *w = (Work){.call = call, .g = sequence / call->S, .s = sequence % call->S, .range = task % call->ranges,
                .K = K, .d_v = d_v, .d_r = d_r, .width = width};
    const struct { void *buffer; int64_t size; } all[] = {
        {&w->x, s * width * T}, {&w->scores, s * own * K * T}, {&w->plain, own * d_r * T},
        {&w->gamma_q, K * T}, {&w->gamma_k, K * T}, {&w->v, T * d_v}, {&w->sums, T * d_v},
        {&w->M, K * d_v}, {&w->Z, K}, {&w->affinity, T * T}, {&w->D, T}, {&w->rest, d_v}, {&w->lost, T * d_v},
        {&w->P, b * T * d_v}, {&w->lying, b * T * d_v}, {&w->r, b * T},
        {&w->M_bar, b * K * d_v}, {&w->Z_bar, b * K}, {&w->delta, b * K * T}, {&w->by_x, s * b * padded(width, R) * T},
        {&w->rows, s * b * T * 2 * d_r}, {&w->by_weights, s * b * K * 2 * d_r}, {&w->by_offset, s * b * K},
        {&w->queries, kept}, {&w->keys, kept}, {&w->inners, kept / K * T},
    };
    const int count = sizeof all / sizeof *all;
    int64_t size = 0;
    for (int i = 0; i < count; i++) size += padded(all[i].size, 16);
    float *room = aligned_alloc(64, sizeof(float) * size), *next = room;
    if (room) clear(room, size);
    for (int i = 0; i < count; next += padded(all[i++].size, 16))
        memcpy(all[i].buffer, all[i].size ? &next : &(float *){NULL}, sizeof(float *));
    if (!own) w->plain = (float *)w->x, w->scores = NULL;
    return room;
}

/* Tokens of a task are FIRST, FIRST + T, ... before END. */
#define FIRST(w) ((w).range * (w).call->range)
#define END(w, N) least((w).call->N, ((w).range + 1) * (w).call->range)

static inline float *tokens_of(const Work *w, const Array *array, int64_t token)
{
    return array->at + w->g * array->group + w->s * array->sequence + token * array->token;
}

static inline int is_key(const Work *w, int64_t token)
{
    return !w->call->mask || w->call->mask[(w->g * w->call->S + w->s) * w->call->N_k + token];
}

static inline const score *weights_of(const Work *w) { return w->call->weights + w->g * padded(w->width, R) * w->K; }

/* Features of a tile of tokens; those beyond the last are 0. */
static inline void features(Work *w, const Array *array, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    if (tokens < T) clear(w->plain, call->d_r * T);
    transpose(w->plain, T, tokens_of(w, array, first), array->token, tokens, call->d_r);
    for (int64_t m = 0; m < call->d_r; m++) {
        const score centre = call->centre ? call->centre[w->g * call->d_r + m] : 0;
        score *x = w->x + m * T, *square = x + call->d_r * T;
        for (int t = 0; t < T; t++) x[t] = w->plain[m * T + t] - centre;
        for (int t = 0; call->squares && t < T; t++) square[t] = x[t] * x[t];
    }
}

/* From scores to what softmax makes the same of in float: the largest of a token becomes 0. */
static inline void shift(float *gamma, const score *scores, int64_t K)
{
    score most[T];
    memcpy(most, scores, sizeof most);
    for (int64_t k = 1; k < K; k++)
        for (int t = 0; t < T; t++) most[t] = scores[k * T + t] > most[t] ? scores[k * T + t] : most[t];
    for (int64_t k = 0; k < K; k++)
        for (int t = 0; t < T; t++) gamma[k * T + t] = scores[k * T + t] - most[t];
}

/* Ask for rows from memory, which arrive while something else is worked on. */
static inline void fetch(const Work *w, const Array *array, int64_t first, int64_t end, int64_t width)
{
    for (int64_t t = first; array->at && t < end; t++)
        for (int64_t m = 0; m < width; m += 16) __builtin_prefetch(tokens_of(w, array, t) + m);
}

/* Features and responsibilities of a tile of tokens, Eq. (3). Part by part, the next tile is asked for meanwhile. */
static inline void responsibilities(Work *w, const Array *array, int64_t first, int64_t tokens, float *gamma)
{
    const Call *call = w->call;
    const int keys = array == &call->k;
    const int64_t total = keys ? call->N_k : call->N_q;
    const score *offset = call->offset + w->g * w->K;
    score *scores = w->scores ? w->scores : (score *)gamma;
    const Array *next[] = {array, keys ? &call->k_bar : &call->q_bar, keys ? &call->v : &call->output,
                           keys ? &call->v_bar : &call->upstream}; /* null if the pass has none */
    features(w, array, first, tokens);
    for (int64_t k = 0; k < w->K; k++)
        for (int t = 0; t < T; t++) scores[k * T + t] = offset[k];
    for (int64_t k = 0; k < w->K; k += R) {
        const int64_t from = first + T + k * T / w->K, to = least(total, first + T + (k + R) * T / w->K);
        for (int i = 0; i < 4; i++) fetch(w, next[i], from, to, i < 2 ? call->d_r : call->d_v);
        SCORE(product)(scores + k * T, T, R, T, weights_of(w) + k, 1, w->K, w->x, T, w->width);
    }
    if (w->scores) shift(gamma, w->scores, w->K);
    softmax(gamma, w->K, call->cut);
}

/* Values that are not finite leave the products, where 0 times NaN would reach other tokens; `rest` sums them up. */
static inline void take_out(Work *w)
{
    for (int64_t t = 0; t < T; t++)
        for (int64_t e = 0; e < w->d_v; e++) {
            float *v = w->v + t * w->d_v + e;
            if (!(fabsf(*v) <= FLT_MAX)) w->rest[e] += *v, *v = 0, w->poisoned = 1;
            w->lost[t * w->d_v + e] = w->rest[e];
        }
}

/* Values of a tile of keys; those beyond the last and masked ones are 0. */
static inline void values(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    for (int64_t t = 0; t < T; t++) {
        float *v = w->v + t * w->d_v;
        if (t < tokens && is_key(w, first + t))
            copy(v, tokens_of(w, &call->v, first + t), call->d_v);
        else
            clear(v, call->d_v);
    }
    if (!(checked(w->v, T * w->d_v) == 0) || w->poisoned) take_out(w);
}

/* Responsibilities and values of a tile of keys; those beyond the last and masked ones are 0. */
static inline void keys(Work *w, int64_t first, int64_t tokens)
{
    responsibilities(w, &w->call->k, first, tokens, w->gamma_k);
    for (int64_t t = 0; t < T; t++)
        for (int64_t k = 0; (t >= tokens || !is_key(w, first + t)) && k < w->K; k++) w->gamma_k[k * T + t] = 0;
    values(w, first, tokens);
}

/* Add a tile of keys to the memory, Eqs. (5) and (6). */
static inline void write_tile(Work *w)
{
    product(w->M, w->d_v, w->K, w->d_v, w->gamma_k, T, 1, w->v, w->d_v, T);
    add_rows(w->Z, w->gamma_k, NULL, w->K);
}

/* Affinity of the keys of a tile with its queries, Eq. (11). */
static inline void affinity(Work *w)
{
    clear(w->affinity, T * T);
    product(w->affinity, T, T, T, w->gamma_k, 1, T, w->gamma_q, T, w->K);
    cut_future(w->affinity);
}

/* The memory of a range, K + 1 rows of V and Z side by side; row K is what of the values is not finite. */
static inline float *memory_of(const Work *w, float *memories)
{
    const Call *call = w->call;
    return memories + ((w->g * call->S + w->s) * call->ranges + w->range) * (call->K + 1) * (call->d_v + 1);
}

/* Where the memory before a block is kept for the backward pass; the last block are the tokens of no whole chunk. */
static inline float *start_of(const Work *w, int64_t token)
{
    const Call *call = w->call;
    const int64_t piece = (token + call->block - 1) / call->block;
    return call->starts + ((w->g * call->S + w->s) * call->pieces + piece) * call->K * (call->d_v + 1);
}

static inline void store(const Work *w, float *to, const float *M, const float *Z)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, to += d_v + 1) {
        copy(to, M + k * w->d_v, d_v);
        to[d_v] = Z[k];
    }
}

static inline void load(const Work *w, const float *from, float *M, float *Z)
{
    const int64_t d_v = w->call->d_v;
    for (int64_t k = 0; k < w->call->K; k++, from += d_v + 1) {
        copy(M + k * w->d_v, from, d_v);
        Z[k] = from[d_v];
    }
}

static inline void load_memory(Work *w)
{
    const float *memory = memory_of(w, w->call->memory), *rest = memory + w->call->K * (w->call->d_v + 1);
    load(w, memory, w->M, w->Z);
    for (int64_t e = 0; e < w->call->d_v; e++) {
        w->rest[e] = rest[e];
        w->poisoned |= rest[e] != 0;
        for (int64_t t = 0; t < T; t++) w->lost[t * w->d_v + e] = rest[e];
    }
}
