/* One query a sequence over keys and values in pages. Keys that share a value head are read once, for all query heads of it.
 *
 * A sequence is cut into pieces; each leaves its largest score, the sum of its weights and the weighted sum of its values, which are put
 * together in the end.
 */
#include "vector.h"

enum { PIECE = 256, SOME = LANES / 4 }; /* entries of a piece; heads, entries and vectors at once: as many as registers hold sums for */

typedef struct {
    const void *q, *k, *v;
    const float *sinks;     /* [H]; NULL: none */
    const int64_t *table;   /* pages of each sequence, [B, pages] */
    const int64_t *lengths; /* entries of each sequence */
    int64_t B, H, N, Q, V;
    int64_t page, pages; /* entries of a page, columns of the table */
    int64_t q_strides[2], k_strides[3], v_strides[3]; /* elements: sequence, head; page, entry, head */
    int64_t narrow; /* bfloat16, else float32 */
    float scale;
} call;

static ALWAYS float one(int narrow, const void *p, int64_t i) {
    uint32_t bits = narrow ? (uint32_t)((const uint16_t *)p)[i] << 16 : ((const uint32_t *)p)[i];
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static ALWAYS const void *at(int narrow, const void *p, int64_t i) { return (const char *)p + i * (narrow ? 2 : 4); }

/* A block of keys or values: of bfloat16 the even ones, then the odd ones, which takes no shuffles; `slot` is where number i is then. */
static ALWAYS pair several(int narrow, const void *p, int64_t i) {
    return narrow ? even_and_odd((const uint16_t *)p + i) : (pair){load((const float *)p + i), load((const float *)p + i + LANES)};
}
static ALWAYS int64_t slot(const call *c, int64_t i, int64_t size) {
    int64_t inner = i % BLOCK;
    return c->narrow && i - inner + BLOCK <= size ? i - inner + inner % 2 * LANES + inner / 2 : i;
}

/* scores[h][s] = q[h] * keys[s] of some heads and entries; the numbers of both are known to the compiler. */
static ALWAYS void score(int narrow, int heads, int entries, int64_t Q, const float *q, const void *keys, int64_t stride, float *scores) {
    vector sums[SOME][SOME];
    for (int h = 0; h < heads; h++)
        for (int s = 0; s < entries; s++) sums[h][s] = all(0);
    int64_t i = 0;
    for (; i + BLOCK <= Q; i += BLOCK)
        for (int s = 0; s < entries; s++) {
            pair key = several(narrow, keys, s * stride + i);
            for (int h = 0; h < heads; h++) {
                sums[h][s] += load(q + h * Q + i) * key.first;
                sums[h][s] += load(q + h * Q + i + LANES) * key.second;
            }
        }
    for (int h = 0; h < heads; h++) {
        if (entries == SOME) sum_some(sums[h], scores + h * PIECE);
        else scores[h * PIECE] = sum(sums[h][0]);
        for (int s = 0; s < entries; s++)
            for (int64_t j = i; j < Q; j++) scores[h * PIECE + s] += q[h * Q + j] * one(narrow, keys, s * stride + j);
    }
}

/* out[h][i] += weights[h][s] * values[s][i] of some heads, for some blocks of numbers from `i` on. */
static ALWAYS void weigh(int narrow, int heads, int blocks, int64_t V, int64_t i, const float *weights, const void *values, int64_t stride,
                         int64_t count, float *out) {
    vector sums[SOME][SOME];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < 2 * blocks; j++) sums[h][j] = load(out + h * V + i + j * LANES);
    for (int64_t s = 0; s < count; s++)
        for (int j = 0; j < blocks; j++) {
            pair value = several(narrow, values, s * stride + i + j * BLOCK);
            for (int h = 0; h < heads; h++) {
                sums[h][2 * j] += all(weights[h * PIECE + s]) * value.first;
                sums[h][2 * j + 1] += all(weights[h * PIECE + s]) * value.second;
            }
        }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < 2 * blocks; j++) store(out + h * V + i + j * LANES, sums[h][j]);
}

/* Entries that lie one behind the other, and some heads. */
static ALWAYS void score_run(int narrow, int heads, int64_t Q, const float *q, const void *keys, int64_t stride, int64_t count, float *scores) {
    int64_t s = 0;
    for (; s + SOME <= count; s += SOME) score(narrow, heads, SOME, Q, q, at(narrow, keys, s * stride), stride, scores + s);
    for (; s < count; s++) score(narrow, heads, 1, Q, q, at(narrow, keys, s * stride), stride, scores + s);
}
static ALWAYS void weigh_run(int narrow, int heads, int64_t V, const float *weights, const void *values, int64_t stride, int64_t count, float *out) {
    int64_t i = 0;
    for (; i + SOME * LANES <= V; i += SOME * LANES) weigh(narrow, heads, SOME / 2, V, i, weights, values, stride, count, out);
    for (; i + BLOCK <= V; i += BLOCK) weigh(narrow, heads, 1, V, i, weights, values, stride, count, out);
    for (; i < V; i++)
        for (int h = 0; h < heads; h++)
            for (int64_t s = 0; s < count; s++) out[h * V + i] += weights[h * PIECE + s] * one(narrow, values, s * stride + i);
}

/* Both for all heads of a run of entries: scores into `scores`, or values weighed by them into `out`. */
static ALWAYS void run(const call *c, int narrow, int64_t b, int64_t entry, int64_t count, const float *q, float *scores, float *out) {
    const int64_t *strides = out ? c->v_strides : c->k_strides, G = c->H / c->N;
    int64_t place = c->table[b * c->pages + entry / c->page] * strides[0] + entry % c->page * strides[1];
    for (int64_t h = 0, some; h < c->H; h += some) {
        const void *from = at(narrow, out ? c->v : c->k, place + h / G * strides[2]);
        float *own = scores + h * PIECE;
        some = h % G + SOME <= G ? SOME : 1;
        if (out && some == SOME) weigh_run(narrow, SOME, c->V, own, from, strides[1], count, out + h * c->V);
        else if (out) weigh_run(narrow, 1, c->V, own, from, strides[1], count, out + h * c->V);
        else if (some == SOME) score_run(narrow, SOME, c->Q, q + h * c->Q, from, strides[1], count, own);
        else score_run(narrow, 1, c->Q, q + h * c->Q, from, strides[1], count, own);
    }
}

/* All runs of `count` entries from `first` on. */
static void runs(const call *c, int64_t b, int64_t first, int64_t count, const float *q, float *scores, float *out) {
    for (int64_t done = 0, step; done < count; done += step) {
        int64_t entry = first + done, left = c->page - entry % c->page;
        step = left < count - done ? left : count - done;
        if (c->narrow) run(c, 1, b, entry, step, q, scores + done, out);
        else run(c, 0, b, entry, step, q, scores + done, out);
    }
}

/* One piece of one sequence: for each head its largest score and the sum of its weights [H, 2], and the weighted sum of values [H, V]. */
static void piece(const call *c, int64_t b, int64_t first, const float *q, float *found) {
    int64_t left = c->lengths[b] - first, count = left < PIECE ? left : PIECE;
    float scores[c->H * PIECE], *out = found + 2 * c->H;
    memset(out, 0, c->H * c->V * sizeof(float));
    runs(c, b, first, count, q, scores, NULL);
    for (int64_t h = 0; h < c->H; h++) {
        float *own = scores + h * PIECE, most = own[0];
        for (int64_t s = 1; s < count; s++) most = own[s] > most || own[s] != own[s] ? own[s] : most;
        for (int64_t s = count; s % LANES; s++) own[s] = -__builtin_inff();
        vector total = all(0);
        for (int64_t s = 0; s < count; s += LANES) {
            vector weights = exponential(load(own + s) - all(most));
            total += weights;
            store(own + s, weights);
        }
        found[2 * h] = most;
        found[2 * h + 1] = sum(total);
    }
    runs(c, b, first, count, NULL, scores, out);
}

/* y of one head of one sequence from its pieces; a sink takes its share and has no value. */
static void together(const call *c, int64_t h, const float *found, int64_t pieces, float *y) {
    int64_t size = c->H * (c->V + 2);
    float most = c->sinks ? c->sinks[h] : -__builtin_inff(), total = 0, sums[c->V];
    for (int64_t p = 0; p < pieces; p++) {
        float other = found[p * size + 2 * h];
        most = other > most || other != other ? other : most;
    }
    memset(sums, 0, sizeof sums);
    if (c->sinks) total = __builtin_expf(c->sinks[h] - most);
    for (int64_t p = 0; p < pieces; p++) {
        const float *own = found + p * size;
        float share = __builtin_expf(own[2 * h] - most);
        total += share * own[2 * h + 1];
        for (int64_t i = 0; i < c->V; i++) sums[i] += share * own[2 * c->H + h * c->V + i];
    }
    for (int64_t i = 0; i < c->V; i++) y[i] = sums[slot(c, i, c->V)] / total;
}

/* y: [B, H, V] float32. Returns 0 where memory is lacking. */
int attend(const call *c, float *y, int threads) {
    int64_t size = c->H * (c->V + 2), longest = 0;
    for (int64_t b = 0; b < c->B; b++) longest = c->lengths[b] > longest ? c->lengths[b] : longest;
    int64_t pieces = (longest + PIECE - 1) / PIECE, works = c->B * pieces;
    float *found = malloc((works * size + c->B * c->H * c->Q) * sizeof(float)), *q = found + works * size;
    if (!found) return 0;
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t h = 0; h < c->H; h++)
            for (int64_t i = 0; i < c->Q; i++)
                q[(b * c->H + h) * c->Q + slot(c, i, c->Q)] = c->scale * one(c->narrow, c->q, b * c->q_strides[0] + h * c->q_strides[1] + i);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t work = 0; work < works; work++) {
            int64_t b = work / pieces, first = work % pieces * PIECE;
            if (first < c->lengths[b]) piece(c, b, first, q + b * c->H * c->Q, found + work * size);
        }
#pragma omp for schedule(static)
        for (int64_t row = 0; row < c->B * c->H; row++) {
            int64_t b = row / c->H;
            together(c, row % c->H, found + b * pieces * size, (c->lengths[b] + PIECE - 1) / PIECE, y + row * c->V);
        }
    }
    free(found);
    return 1;
}
