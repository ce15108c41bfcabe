/* One query and one key of each sequence, as in decoding: their responsibilities by differences, Eqs. (2) and (3), then
   write and read, Eqs. (5b) and (8b). What is not finite, or too large or too small for this, is told and left undone.

   Arrays are contiguous, (sequences, ...) and (mixtures, ...); sequence s is routed by mixture s % mixtures. */

#include "vectors.h"

typedef float loose __attribute__((vector_size(BYTES), may_alias, aligned(4)));
#define L(array, i) (*(const loose *)((array) + (i)))

typedef struct {
    int64_t sequences, mixtures, d_r, K, d_v;
    double eps;
    const float *q, *k, *v, *mu, *variance, *log_prior, *V_tilde, *Z; /* the last two may be null: an empty memory */
    float *output, *V_tilde_out, *Z_out;
} Step;

static inline float total(vec a)
{
    four sum = {};
    for (int i = 0; i < W / 4; i++) sum += ((const four *)&a)[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static inline float multiplied(vec a)
{
    four all = ((const four *)&a)[0];
    for (int i = 1; i < W / 4; i++) all *= ((const four *)&a)[i];
    return (all[0] * all[2]) * (all[1] * all[3]);
}

/* Precisions, and log prior - sum of log variance / 2; NaN if a variance is no ordinary positive number. The sum is the
   logarithm of a product: of mantissas from 1 to 2, of which so many do not overflow, and of powers of 2. */
static float offset_of(float log_prior, const float *variance, float *precision, int64_t d_r)
{
    enum { MOST = 112 };
    double sum = 0;
    bits good = ~(bits){}, powers = {};
    int64_t m = 0, power = 0, fine = 1;
    while (m < d_r) {
        vec mantissas = (vec){} + 1.0f;
        for (const int64_t end = least(d_r, m + MOST); m < end; m += W) {
            vec x = (vec){} + 1.0f;
            if (m + W <= d_r)
                x = L(variance, m);
            else
                copy((float *)&x, variance + m, d_r - m);
            good &= (bits)((x >= FLT_MIN) & (x <= 1e37f));
            powers += ((bits)x >> 23) - 127;
            mantissas *= (vec)(((bits)x & 0x7fffff) | 0x3f800000);
            V(precision, m) = 1.0f / x;
        }
        sum += log(multiplied(mantissas));
    }
    for (int i = 0; i < W; i++) power += powers[i], fine &= good[i] != 0;
    return fine ? log_prior - (float)((sum + power * 0.6931471805599453) / 2) : NAN;
}

/* Half the squared distances of two points from a mean, in standard deviations. */
static inline void distances(float *to_q, float *to_k, const float *q, const float *k, const float *mu,
                             const float *precision, int64_t d_r)
{
    vec sum_q = {}, sum_k = {};
    float rest_q = 0, rest_k = 0;
    int64_t m = 0;
    for (; m + W <= d_r; m += W) {
        const vec by_q = L(q, m) - L(mu, m), by_k = L(k, m) - L(mu, m);
        sum_q += by_q * L(precision, m) * by_q;
        sum_k += by_k * L(precision, m) * by_k;
    }
    for (; m < d_r; m++) {
        const float by_q = q[m] - mu[m], by_k = k[m] - mu[m];
        rest_q += by_q * precision[m] * by_q;
        rest_k += by_k * precision[m] * by_k;
    }
    *to_q = (total(sum_q) + rest_q) / 2;
    *to_k = (total(sum_k) + rest_k) / 2;
}

/* Softmax of K numbers and of what pads them, which is -inf. */
static void softmax_of(float *scores, int64_t K)
{
    float most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < K; k++) most = scores[k] > most ? scores[k] : most;
    for (int64_t k = 0; k < K; k += W) {
        V(scores, k) = exponential(V(scores, k) - most, -87.0f);
        sum += total(V(scores, k));
    }
    for (int64_t k = 0; k < K; k += W) V(scores, k) /= sum;
}

/* Write the key, then read for the query. Returns 0 if output and denominator are finite, else NaN. */
static float write_and_read(const Step *step, int64_t s, const float *gamma_q, const float *gamma_k)
{
    const int64_t K = step->K, d_v = step->d_v;
    const float *v = step->v + s * d_v;
    float *restrict output = step->output + s * d_v;
    float D = 0, check = 0;
    clear(output, d_v);
    for (int64_t k = 0; k < K; k++) {
        const int64_t slot = s * K + k;
        const float *before = step->V_tilde ? step->V_tilde + slot * d_v : NULL;
        float *restrict after = step->V_tilde_out + slot * d_v;
        for (int64_t e = 0; e < d_v; e++) {
            after[e] = (before ? before[e] : 0) + gamma_k[k] * v[e];
            output[e] += gamma_q[k] * after[e];
        }
        step->Z_out[slot] = (step->Z ? step->Z[slot] : 0) + gamma_k[k];
        D += gamma_q[k] * step->Z_out[slot];
    }
    D += (float)step->eps;
    for (int64_t e = 0; e < d_v; e++) check += 0 * (output[e] /= D);
    return check + 0 * D;
}

/* Returns 0, or 1 if there was no memory, or 2 if there is something that this does not do. */
int64_t gma_step(const Step *step)
{
    const int64_t K = padded(step->K, W), d_r = step->d_r, rows = padded(d_r, 16);
    float *room = aligned_alloc(64, sizeof(float) * padded(K * (3 + rows), 16));
    if (!room) return 1;
    float *gamma_q = room, *gamma_k = room + K, *offset = room + 2 * K, *precision = room + 3 * K, check = 0;
    for (int64_t g = 0; g < step->mixtures; g++) {
        const float *mu = step->mu + g * step->K * d_r, *variance = step->variance + g * step->K * d_r;
        for (int64_t k = 0; k < step->K; k++)
            offset[k] = offset_of(step->log_prior[g * step->K + k], variance + k * d_r, precision + k * rows, d_r);
        for (int64_t s = g; s < step->sequences; s += step->mixtures) {
            for (int64_t k = 0; k < K; k++) gamma_q[k] = gamma_k[k] = -INFINITY;
            for (int64_t k = 0; k < step->K; k++) {
                distances(gamma_q + k, gamma_k + k, step->q + s * d_r, step->k + s * d_r, mu + k * d_r,
                          precision + k * rows, d_r);
                gamma_q[k] = offset[k] - gamma_q[k], gamma_k[k] = offset[k] - gamma_k[k];
            }
            softmax_of(gamma_q, step->K);
            softmax_of(gamma_k, step->K);
            check += write_and_read(step, s, gamma_q, gamma_k);
        }
    }
    free(room);
    return check == 0 ? 0 : 2;
}
