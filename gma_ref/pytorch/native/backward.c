/* The backward pass, which computes responsibilities again. Functions without `static` are its steps; a task of one
   returns 0, or 1 if there is no memory, or 2 if something is not finite: then what it leaves is worthless. */

#include "tile.h"

/* What comes from above to a tile of queries: P = G / D and r = -<G, o> / D. */
static void upstream(Work *w, int64_t first, int64_t tokens)
{
    const Call *call = w->call;
    const float *reach = call->reach + (w->g * call->S + w->s) * call->N_q + first;
    if (tokens < T) clear(w->sums, T * w->d_v), clear(w->lying, T * w->d_v), clear(w->P, T * w->d_v);
    for (int64_t t = 0; t < tokens; t++) {
        float *P = w->P + t * w->d_v;
        copy(P, tokens_of(w, &call->upstream, first + t), call->d_v);
        for (int64_t e = 0; e < w->d_v; e += W) V(P, e) *= reach[t];
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
    for (int i = 0; i < T * T; i += W) V(w->inner, i) = V(w->r, i % T);
    product(w->inner, T, T, T, w->v, w->d_v, 1, w->lying, T, w->call->d_v);
    cut_future(w->inner);
}

/* Gradient of the responsibilities of queries from what they read of the memory. */
static void delta_of_queries(Work *w)
{
    for (int64_t i = 0; i < w->K * T; i += W) V(w->delta, i) = V(w->r, i % T) * w->Z[i / T];
    product(w->delta, T, w->K, T, w->M, w->d_v, 1, w->lying, T, w->call->d_v);
}

/* Gradients of the responsibilities of keys, and of values, from the gradient of the memory that they wrote to. */
static void delta_of_keys(Work *w)
{
    transpose(w->lying, T, w->v, w->d_v, T, w->d_v);
    for (int64_t i = 0; i < w->K * T; i += W) V(w->delta, i) = (vec){} + w->Z_bar[i / T];
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

/* From responsibilities to scores, Eq. (18), and from those to the tokens of a tile and to the mixture. */
static void back_through_scores(Work *w, const Array *array_bar, int64_t first, int64_t tokens, const float *gamma)
{
    const int64_t d_r = w->call->d_r;
    for (int t = 0; t < T; t += W) {
        vec mean = {}, other = {};
        for (int64_t i = t; i < w->K * T; i += 2 * T) {
            mean += V(gamma, i) * V(w->delta, i);
            other += V(gamma, i + T) * V(w->delta, i + T);
        }
        mean += other;
        for (int64_t i = t; i < w->K * T; i += T) V(w->delta, i) = V(gamma, i) * (V(w->delta, i) - mean);
    }

    score *delta = w->scores ? w->scores : (score *)w->delta;
    for (int64_t i = 0; w->scores && i < w->K * T; i++) delta[i] = w->delta[i];
    memset(w->by_x, 0, sizeof(score) * padded(w->width, R) * T);
    SCORE(product)(w->by_x, T, padded(w->width, R), T, weights_of(w), w->K, 1, delta, T, w->K);
    float *by_x = w->scores ? w->plain : (float *)w->by_x;
    for (int64_t i = 0; i < d_r * T; i++)
        by_x[i] = w->call->squares ? w->by_x[i] + 2 * w->x[i] * w->by_x[d_r * T + i] : w->by_x[i];
    w->check += checked(by_x, d_r * T);
    transpose(tokens_of(w, array_bar, first), array_bar->token, by_x, T, d_r, tokens);

    SCORE(transpose)(w->rows, 2 * w->d_r, w->x, T, d_r, T);
    for (int t = 0; t < T; t++)
        for (int64_t m = 0; m < w->d_r; m++) {
            score *row = w->rows + t * 2 * w->d_r;
            row[w->d_r + m] = row[m] * row[m];
        }
    SCORE(product)(w->by_weights, 2 * w->d_r, w->K, 2 * w->d_r, delta, T, 1, w->rows, 2 * w->d_r, T);
    SCORE(add_rows)(w->by_offset, delta, NULL, w->K);
}

/* The gradients of a tile of keys, of which those of the values are in `sums`. */
static void finish_keys(Work *w, int64_t first, int64_t tokens)
{
    for (int64_t t = 0; t < tokens; t++)
        copy(tokens_of(w, &w->call->v_bar, first + t), w->sums + t * w->d_v, w->call->d_v);
    w->check += checked(w->sums, T * w->d_v);
    back_through_scores(w, &w->call->k_bar, first, tokens, w->gamma_k);
}

/* Leave what a task of the backward pass has summed up; returns 2 if something is not finite, which needs care. */
static int finish(Work *w, float *room)
{
    const int64_t d_r = w->call->d_r, K = w->call->K;
    score *to = w->call->mixture_bar + ((w->g * w->call->S + w->s) * w->call->ranges + w->range) * K * (2 * d_r + 1);
    for (int64_t k = 0; k < K; k++, to += 2 * d_r + 1) {
        for (int64_t m = 0; m < d_r; m++) {
            to[m] += w->by_weights[k * 2 * w->d_r + m];
            to[d_r + m] += w->by_weights[k * 2 * w->d_r + w->d_r + m];
        }
        to[2 * d_r] += w->by_offset[k];
    }
    const float check = w->check + SCORE(checked)(w->by_weights, w->K * 2 * w->d_r) + checked(w->M_bar, w->K * w->d_v);
    const int careful = w->poisoned || !(check == 0);
    free(room);
    return careful ? 2 : 0;
}

/* Backward, first step: sum up what the queries of a range give back to the memory; bidirectional, do them as well. */
int STEP(gma_queries_back)(const Call *call, int64_t task)
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
int STEP(gma_keys_back)(const Call *call, int64_t task)
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
int STEP(gma_back_causal)(const Call *call, int64_t task)
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
