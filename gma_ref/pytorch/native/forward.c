/* The forward pass. Functions without `static` are its steps; a task of one returns 0, or 1 if there is no memory. */

#include "tile.h"

/* Start numerator and denominator with what a tile of queries reads from the memory, Eq. (7). */
static void read_tile(Work *w)
{
    clear(w->sums, T * w->d_v);
    product(w->sums, w->d_v, T, w->d_v, w->gamma_q, 1, T, w->M, w->d_v, w->K);
    for (int t = 0; t < T; t += W) {
        vec D = {};
        for (int64_t k = 0; k < w->K; k++) D += V(w->gamma_q, k * T + t) * w->Z[k];
        V(w->D, t) = D;
    }
}

/* Add what a tile of queries reads from the keys of the same tile up to each, Eq. (8b). */
static void read_within(Work *w)
{
    affinity(w);
    for (int i = 0; i < T * T; i += W) V(w->D, i % T) += V(w->affinity, i);
    product(w->sums, w->d_v, T, w->d_v, w->affinity, 1, T, w->v, w->d_v, T);
}

/* Write the output, Eq. (8), and 1/D, which is 0 where no key reaches. */
static void divide(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    float *reach = call->reach + (w->g * call->S + w->s) * call->N_q + first;
    for (int64_t t = 0; t < tokens; t++) {
        float *out = tokens_of(w, &call->output, first + t), *sums = w->sums + t * w->d_v;
        const float D = w->D[t] + (float)call->eps, scale = 1 / D;
        reach[t] = isinf(scale) ? 0 : scale;
        if (w->poisoned)
            for (int64_t e = 0; e < w->d_v; e++) sums[e] += w->lost[t * w->d_v + e];
        if (D == 0)
            clear(out, call->d_v);
        else if (isinf(scale))
            for (int64_t e = 0; e < call->d_v; e++) out[e] = sums[e] / D;
        else {
            for (int64_t e = 0; e < w->d_v; e += W) V(sums, e) *= scale;
            copy(out, sums, call->d_v);
        }
    }
}

/* The memory of a range, and what of the values is not finite. */
static void store_memory(const Work *w)
{
    float *memory = memory_of(w, w->call->memory);
    store(w, memory, w->M, w->Z);
    copy(memory + w->call->K * (w->call->d_v + 1), w->rest, w->call->d_v);
}

/* Forward, first step: write the keys of a range into a memory of its own. */
int STEP(gma_write)(const Call *call, int64_t task)
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
int STEP(gma_read)(const Call *call, int64_t task)
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
int STEP(gma_read_causal)(const Call *call, int64_t task)
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
