/* Arithmetic on tiles in one type of number: included once with NUMBER as float, and once as double. */

#define JOIN(name, type) name##_##type
#define OF(name, type) JOIN(name, type)
#define N(name) OF(name, NUMBER)
#define LANES (int)(BYTES / sizeof(NUMBER))

typedef NUMBER N(vec) __attribute__((vector_size(BYTES), may_alias));
typedef NUMBER N(four) __attribute__((vector_size(4 * sizeof(NUMBER)), may_alias, aligned(sizeof(NUMBER))));
#define U(array, i) (*(N(vec) *)((array) + (i)))

/* 0 if all numbers are finite, else NaN. */
static inline NUMBER N(checked)(const NUMBER *array, int64_t size)
{
    N(vec) check = {};
    NUMBER sum = 0;
    for (int64_t i = 0; i < size; i += LANES) check += U(array, i) * (NUMBER)0;
    for (int i = 0; i < LANES; i++) sum += check[i];
    return sum;
}

/* C[i][j] += sum over l of A[i * ar + l * al] * B[l][j], R rows by J vectors. The sums stay in registers, and start
   from 0, so that many small terms do not meet a large C one by one. */
static inline __attribute__((always_inline)) void N(block)(int J, NUMBER *restrict C, int64_t c,
                                                           const NUMBER *restrict A, int64_t ar, int64_t al,
                                                           const NUMBER *restrict B, int64_t b, int64_t length)
{
    N(vec) sum[R][2] = {};
    for (int64_t l = 0; l < length; l++, A += al, B += b) {
        const N(vec) first = U(B, 0), second = U(B, (J - 1) * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            sum[i][0] += A[i * ar] * first;
            if (J == 2) sum[i][1] += A[i * ar] * second;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++) {
        U(C, i * c) += sum[i][0];
        if (J == 2) U(C, i * c + LANES) += sum[i][1];
    }
}

/* The same for any number of rows and columns, C with rows of c numbers and B with rows of b. */
static void N(product)(NUMBER *C, int64_t c, int64_t rows, int64_t columns, const NUMBER *A, int64_t ar, int64_t al,
                       const NUMBER *B, int64_t b, int64_t length)
{
    for (int64_t j = 0; j < columns; j += 2 * LANES)
        for (int64_t i = 0; i < rows; i += R)
            if (columns - j >= 2 * LANES)
                N(block)(2, C + i * c + j, c, A + i * ar, ar, al, B + j, b, length);
            else
                N(block)(1, C + i * c + j, c, A + i * ar, ar, al, B + j, b, length);
}

/* out[j][i] = in[i][j], four by four: lays tokens down, or lets them stand again. */
static void N(transpose)(NUMBER *out, int64_t o, const NUMBER *in, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i += 4) {
        int64_t j = 0;
        for (; i + 4 <= rows && j + 4 <= columns; j += 4) {
            const NUMBER *from = in + i * n + j;
            NUMBER *to = out + j * o + i;
            for (int l = 0; l < 4; l++, from++, to += o)
                *(N(four) *)to = (N(four)){from[0], from[n], from[2 * n], from[3 * n]};
        }
        for (; j < columns; j++)
            for (int64_t l = i; l < rows && l < i + 4; l++) out[j * o + l] = in[l * n + j];
    }
}

/* to[k] += sum over the tokens of a[k][t] (b[t], if given). */
static void N(add_rows)(NUMBER *to, const NUMBER *a, const NUMBER *b, int64_t K)
{
    for (int64_t k = 0; k < K; k++, a += T) {
        N(four) sum = {};
        for (int t = 0; t < T; t += 4)
            if (b)
                sum += *(N(four) *)(a + t) * *(N(four) *)(b + t);
            else
                sum += *(N(four) *)(a + t);
        to[k] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

#undef JOIN
#undef OF
#undef N
#undef LANES
#undef U
#undef NUMBER
