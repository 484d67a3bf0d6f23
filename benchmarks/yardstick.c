/* Yardstick for the pair engine: sum_ij u_i exp(-|x_i - x_j|^2 / 2) u_j by hand, AVX2 and FMA intrinsics.
 *
 * Same work as the engine: symmetric, tiles of 256, differences (coordinates already divided by the bandwidths), any
 * dimension, any number of weight columns, a polynomial of degree 10 for the exponential. No error bound is kept.
 *
 *     cc -O3 -mavx2 -mfma -shared -fPIC yardstick.c -o yardstick.so
 */
#include <immintrin.h>
#include <time.h>

#define TILE 256
#define WIDTH 16 /* four registers: four independent chains */

static const double C[11] = {1.0,
                             0x1.62e42fefa3a19p-1,
                             0x1.ebfbdff82c598p-3,
                             0x1.c6b08d703ce49p-5,
                             0x1.3b2ab6fba1ddap-7,
                             0x1.5d87fe9d7a584p-10,
                             0x1.430913096fd9fp-13,
                             0x1.ffcb54062e698p-17,
                             0x1.62bfd47773353p-20,
                             0x1.b675bca4eeebbp-24,
                             0x1.e6063f7217bc6p-28};

/* 2^t for four vectors, t >= -960 */
static inline void power_of_two(__m256d t[4]) {
    const __m256d shifter = _mm256_set1_pd(0x1.8p52);
    __m256d shifted[4], p[4];
    for (int q = 0; q < 4; q++) {
        t[q] = _mm256_max_pd(t[q], _mm256_set1_pd(-960.0));
        shifted[q] = _mm256_add_pd(t[q], shifter);
        t[q] = _mm256_sub_pd(t[q], _mm256_sub_pd(shifted[q], shifter));
        p[q] = _mm256_set1_pd(C[10]);
    }
    for (int k = 9; k >= 0; k--)
        for (int q = 0; q < 4; q++) p[q] = _mm256_fmadd_pd(p[q], t[q], _mm256_set1_pd(C[k]));
    for (int q = 0; q < 4; q++) {
        __m256i power = _mm256_slli_epi64(_mm256_castpd_si256(shifted[q]), 52);
        t[q] = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p[q]), power));
    }
}

/* Copy columns left..right-1 of (count, n) into rows of TILE: a tile stays in the cache, whatever n is. */
static void gather(const double *from, long count, long n, long left, long right, double *to) {
    for (long l = 0; l < count; l++)
        for (long j = left; j < right; j++) to[l * TILE + j - left] = from[l * n + j];
}

/* rows (n, d), axes (d, n), columns (p, n), n a multiple of WIDTH; coordinates times sqrt(log2(e) / 2);
 * room: (d + p) TILE + 4 p doubles on a 32-byte border; out (p). */
void symmetric(const double *rows, const double *axes, const double *columns, long n, long d, long p, double *room,
               double *out) {
    double *points = room, *weights = room + d * TILE, *sums = room + (d + p) * TILE;
    for (long c = 0; c < p; c++) out[c] = 0.0;
    for (long top = 0; top < n; top += TILE)
        for (long left = top; left < n; left += TILE) {
            const long bottom = top + TILE < n ? top + TILE : n, right = left + TILE < n ? left + TILE : n;
            const double twice = left > top ? 2.0 : 1.0;
            gather(axes, d, n, left, right, points);
            gather(columns, p, n, left, right, weights);
            for (long i = top; i < bottom; i++) {
                for (long c = 0; c < 4 * p; c++) sums[c] = 0.0;
                for (long j = 0; j < right - left; j += WIDTH) {
                    __m256d t[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
                    for (long l = 0; l < d; l++) {
                        const __m256d a = _mm256_broadcast_sd(rows + i * d + l);
                        for (int q = 0; q < 4; q++) {
                            const __m256d e = _mm256_sub_pd(a, _mm256_load_pd(points + l * TILE + j + 4 * q));
                            t[q] = _mm256_fnmadd_pd(e, e, t[q]);
                        }
                    }
                    power_of_two(t);
                    for (long c = 0; c < p; c++) {
                        __m256d sum = _mm256_load_pd(sums + 4 * c);
                        for (int q = 0; q < 4; q++)
                            sum = _mm256_fmadd_pd(t[q], _mm256_load_pd(weights + c * TILE + j + 4 * q), sum);
                        _mm256_store_pd(sums + 4 * c, sum);
                    }
                }
                for (long c = 0; c < p; c++)
                    out[c] += twice * columns[c * n + i] *
                              ((sums[4 * c] + sums[4 * c + 1]) + (sums[4 * c + 2] + sums[4 * c + 3]));
            }
        }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

#define CHAINS 10 /* latency 4 times two ports, and some */
#define MEASURE(VECTOR, LANES, SET, FMA)                                        \
    VECTOR a[CHAINS], x = SET(0.999), y = SET(0.001);                           \
    for (int q = 0; q < CHAINS; q++) a[q] = SET(0.1 * q);                       \
    const long steps = 4000000;                                                 \
    const double start = seconds();                                             \
    for (long s = 0; s < steps; s++)                                            \
        _Pragma("GCC unroll 10") for (int q = 0; q < CHAINS; q++) a[q] = FMA(a[q], x, y); \
    const double spent = seconds() - start;                                     \
    double sum = 0.0;                                                           \
    for (int q = 0; q < CHAINS; q++) sum += ((double *)&a[q])[0];               \
    return sum == -1.0 ? 0.0 : steps * (double)CHAINS * LANES / spent;

/* Fused multiply-adds per second and core, on 4 and on 8 doubles at once (0 where the processor cannot). */
double rate_of_4(void) { MEASURE(__m256d, 4, _mm256_set1_pd, _mm256_fmadd_pd) }
__attribute__((target("avx512f"))) static double wide(void) { MEASURE(__m512d, 8, _mm512_set1_pd, _mm512_fmadd_pd) }
double rate_of_8(void) { return __builtin_cpu_supports("avx512f") ? wide() : 0.0; }
