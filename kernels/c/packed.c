/* Products with weights as they lie packed: y[t, o] = sum over i of x[t, i] * w[o, i], in float32.
 *
 * Codes go from memory into registers and are multiplied there; decoded weights are not stored. The threads are those of the OpenMP
 * library that torch has loaded.
 */
#include "vector.h"

enum { E2M1, INT4, E4M3 };                              /* codes: two a byte, two a byte, one a byte */
enum { E8M0, E4M3_SCALES, BFLOAT16, FLOAT16, FLOAT32 }; /* scales */
enum { ROWS = 4, TOKENS = LANES / 4, STRETCH = 4096 };  /* at once; TOKENS as many as registers hold sums for */
enum { AHEAD = 1024 };                                  /* bytes of a row that are asked for before they are needed */

typedef struct {
    const uint8_t *codes;
    const void *scales;
    const uint32_t *zeros;   /* [rows / 8, groups], eight rows a word; NULL: 8 is zero */
    const int32_t *group_of; /* group of each column; NULL: neighbours are one */
    int64_t rows, columns;
    int64_t code_stride; /* bytes of a row of codes */
    int64_t groups;      /* scales of a row */
    int64_t group, tall; /* columns and rows that share a scale */
    int64_t codes_kind, scales_kind;
    float factor; /* on every scale */
} matrix;

static float e4m3[256];
static const float e2m1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
static const float counting[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

__attribute__((constructor)) static void tables(void) {
    for (int b = 0; b < 256; b++) {
        float size = b & 0x78 ? __builtin_ldexpf(8 + (b & 7), (b >> 3 & 15) - 10) : __builtin_ldexpf(b & 7, -9);
        e4m3[b] = (b & 127) == 127 ? __builtin_nanf("") : b & 128 ? -size : size;
    }
}

/* Scales of `count` groups of a row from `first` on. */
static void scales_of(const matrix *m, int64_t row, int64_t first, int64_t count, float *out) {
    int64_t place = row / m->tall * m->groups + first;
    const uint8_t *bytes = (const uint8_t *)m->scales + place;
    const uint16_t *halves = (const uint16_t *)m->scales + place;
    uint32_t bits;
    switch (m->scales_kind) {
    case E8M0:
        for (int64_t g = 0; g < count; g++) {
            bits = bytes[g] == 255 ? 0x7fc00000 : bytes[g] ? (uint32_t)bytes[g] << 23 : 1 << 22;
            memcpy(out + g, &bits, 4);
        }
        break;
    case E4M3_SCALES:
        for (int64_t g = 0; g < count; g++) out[g] = e4m3[bytes[g]];
        break;
    case FLOAT16:
        for (int64_t g = 0; g < count; g++) out[g] = _cvtsh_ss(halves[g]);
        break;
    case BFLOAT16:
        for (int64_t g = 0; g < count; g++) {
            bits = (uint32_t)halves[g] << 16;
            memcpy(out + g, &bits, 4);
        }
        break;
    default: memcpy(out, (const float *)m->scales + place, count * sizeof(float));
    }
    for (int64_t g = 0; g < count; g++) out[g] *= m->factor;
}

static float zero_of(const matrix *m, int64_t row, int64_t group) {
    return m->zeros ? m->zeros[row / 8 * m->groups + group] >> row % 8 * 4 & 15 : 8;
}

/* One weight, whatever its group. */
static float single(const matrix *m, int64_t row, int64_t column) {
    int64_t group = m->group_of ? m->group_of[column] : column / m->group;
    const uint8_t *codes = m->codes + row * m->code_stride;
    float scale;
    scales_of(m, row, group, 1, &scale);
    if (m->codes_kind == E4M3) return e4m3[codes[column]] * scale;
    int code = codes[column / 2] >> column % 2 * 4 & 15;
    return (m->codes_kind == E2M1 ? e2m1[code] : code - zero_of(m, row, group)) * scale;
}

/* Whether groups are made of whole blocks, or two of them are one block, or a row is one group. */
static int is_regular(const matrix *m) {
    int halves = 2 * m->group == BLOCK && m->codes_kind == E2M1;
    return !m->group_of && (m->group % BLOCK == 0 || m->group >= m->columns || halves);
}

typedef struct {
    const uint8_t *codes[ROWS]; /* of the block that is next */
    sixteen table[ROWS];        /* values of 4-bit codes */
    vector scale[ROWS];         /* of values that are not scaled yet */
    vector sums[ROWS][TOKENS];
    const float *x; /* of the first token, at the block */
    int64_t width;
    __m256i broken; /* not zero once a code was NaN */
} state;

/* One block of every row times every token. */
static ALWAYS void block(state *s, int kind, int halves, int tokens) {
    for (int r = 0; r < ROWS; r++) {
        pair w = kind == E4M3 ? eight_bits(s->codes[r], &s->broken) : four_bits(s->codes[r], s->table[r]);
        if (kind == E4M3 || halves) w.first *= s->scale[r], w.second *= s->scale[r];
        for (int t = 0; t < tokens; t++) {
            /* one token has two sums, so that additions do not wait for each other */
            s->sums[r][t] += w.first * load(s->x + t * s->width);
            s->sums[r][tokens == 1 ? 1 : t] += w.second * load(s->x + t * s->width + LANES);
        }
        _mm_prefetch((const char *)s->codes[r] + AHEAD, _MM_HINT_T0);
        s->codes[r] += kind == E4M3 ? BLOCK : BLOCK / 2;
    }
    s->x += BLOCK;
}

/* y[t][r] = ROWS rows from `row` on (the last one again, where there are no more) times `tokens` tokens. 0 where a code is NaN. */
static ALWAYS int multiply(const matrix *m, int kind, int64_t group, int tokens, int64_t row, const float *x, int64_t width, float (*y)[ROWS]) {
    float scales[ROWS][STRETCH / 16 + 2];
    int halves = 2 * group == BLOCK;
    state s = {.x = x, .width = width};
    for (int r = 0; r < ROWS; r++) s.codes[r] = m->codes + (row + r < m->rows ? row + r : m->rows - 1) * m->code_stride;
    for (int64_t first = 0; first < m->columns; first += STRETCH) {
        int64_t end = first + STRETCH < m->columns ? first + STRETCH : m->columns, g = first / group, place = first;
        int64_t groups = (end - 1) / group - g + 1;
        for (int r = 0; r < ROWS; r++) {
            scales[r][groups] = 0;
            scales_of(m, row + r < m->rows ? row + r : m->rows - 1, g, groups, scales[r]);
        }
        for (int64_t n = 0; n < groups; n += 1 + halves) {
            int64_t stop = (g + n + 1 + halves) * group, blocks;
            stop = stop < end ? stop : end;
            for (int r = 0; r < ROWS; r++) {
                float scale = scales[r][n];
                s.scale[r] = halves ? two(scale, scales[r][n + 1]) : all(kind == E4M3 ? 256 * scale : scale);
                if (kind == E2M1) s.table[r] = scaled(e2m1, 0, halves ? 1 : scale);
                if (kind == INT4) s.table[r] = scaled(counting, zero_of(m, row + r < m->rows ? row + r : row, g + n), scale);
            }
            blocks = (stop - place) / BLOCK;
            for (int64_t i = 0; i < blocks; i++) block(&s, kind, halves, tokens);
            place += blocks * BLOCK;
        }
        if (place < end) { /* the last block is not full: x is zero there */
            uint8_t rest[ROWS][BLOCK] = {0};
            for (int r = 0; r < ROWS; r++) s.codes[r] = memcpy(rest[r], s.codes[r], kind == E4M3 ? end - place : (end - place + 1) / 2);
            block(&s, kind, halves, tokens);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < tokens; t++) y[t][r] = sum(s.sums[r][t]) + (tokens == 1 ? sum(s.sums[r][1]) : 0);
    return _mm256_testz_si256(s.broken, s.broken);
}

static ALWAYS int of_group(const matrix *m, int kind, int tokens, int64_t row, const float *x, int64_t width, float (*y)[ROWS]) {
    switch (m->group) { /* for these the compiler knows how many blocks there are */
    case 16: return kind == E2M1 ? multiply(m, kind, 16, tokens, row, x, width, y) : 0;
    case 32: return multiply(m, kind, 32, tokens, row, x, width, y);
    default: return multiply(m, kind, m->group, tokens, row, x, width, y);
    }
}

static ALWAYS int of_kind(const matrix *m, int tokens, int64_t row, const float *x, int64_t width, float (*y)[ROWS]) {
    switch (m->codes_kind) {
    case E2M1: return of_group(m, E2M1, tokens, row, x, width, y);
    case INT4: return of_group(m, INT4, tokens, row, x, width, y);
    default: return of_group(m, E4M3, tokens, row, x, width, y);
    }
}

/* Where a column of a token lies: a block of bytes has the codes of even columns in its low halves. */
static int64_t place_of(const matrix *m, int64_t column) {
    int64_t inner = column % BLOCK;
    return m->codes_kind == E4M3 ? column : column - inner + inner / 2 + inner % 2 * LANES;
}

static void one_by_one(const matrix *m, int tokens, int64_t row, const float *x, int64_t width, float (*y)[ROWS]) {
    double sums[TOKENS][ROWS] = {0};
    for (int64_t column = 0; column < m->columns; column++)
        for (int r = 0; r < ROWS && row + r < m->rows; r++) {
            float w = single(m, row + r, column);
            for (int t = 0; t < tokens; t++) sums[t][r] += (double)w * x[t * width + place_of(m, column)];
        }
    for (int t = 0; t < tokens; t++)
        for (int r = 0; r < ROWS; r++) y[t][r] = (float)sums[t][r];
}

static void tile(const matrix *m, int64_t row, const float *x, int64_t tokens, int64_t width, float *out) {
    float y[TOKENS][ROWS];
    int regular = is_regular(m), step;
    for (int64_t first = 0; first < tokens; first += step) {
        const float *own = x + first * width;
        step = tokens - first >= TOKENS ? TOKENS : 1;
        if (!regular || !(step == 1 ? of_kind(m, 1, row, own, width, y) : of_kind(m, TOKENS, row, own, width, y)))
            one_by_one(m, step, row, own, width, y);
        for (int t = 0; t < step; t++)
            for (int r = 0; r < ROWS && row + r < m->rows; r++) out[(first + t) * m->rows + row + r] = y[t][r];
    }
}

/* x: [tokens, columns], y: [tokens, rows], float32. Returns 0 where memory is lacking. */
int product(const matrix *m, const float *x, int64_t tokens, float *y, int threads) {
    int64_t width = (m->columns + BLOCK - 1) / BLOCK * BLOCK;
    float *arranged = calloc(tokens * width, sizeof(float));
    if (!arranged) return 0;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < m->columns; i++) arranged[t * width + place_of(m, i)] = x[t * m->columns + i];
#pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
    for (int64_t row = 0; row < m->rows; row += ROWS) tile(m, row, arranged, tokens, width, y);
    free(arranged);
    return 1;
}

/* Columns [first, end) of a row; `out` has room for whole blocks. */
static void decode_row(const matrix *m, int64_t row, int64_t first, int64_t end, float *out) {
    float scales[STRETCH / 16 + 2];
    int64_t base = first / m->group, place = first;
    int regular = is_regular(m), bytes = m->codes_kind == E4M3 ? BLOCK : BLOCK / 2;
    __m256i broken = _mm256_setzero_si256();
    if (regular) scales_of(m, row, base, (end - 1) / m->group - base + 1, scales);
    for (; regular && place + BLOCK <= end; place += BLOCK) {
        const uint8_t *codes = m->codes + row * m->code_stride + place / BLOCK * bytes;
        int64_t g = place / m->group;
        vector scale = 2 * m->group == BLOCK ? two(scales[g - base], scales[g - base + 1]) : all(scales[g - base]);
        if (m->codes_kind == E4M3) {
            pair w = eight_bits(codes, &broken);
            store(out + place - first, w.first * scale * all(256)), store(out + place - first + LANES, w.second * scale * all(256));
        } else {
            pair w = four_bits(codes, m->codes_kind == E2M1 ? scaled(e2m1, 0, 1) : scaled(counting, zero_of(m, row, g), 1));
            interleave(w.first * scale, w.second * scale, out + place - first);
        }
    }
    for (place = _mm256_testz_si256(broken, broken) ? place : first; place < end; place++) out[place - first] = single(m, row, place);
}

/* Rows [first, first + count) as bfloat16 or float32, [count, columns]. */
void decode(const matrix *m, int64_t first, int64_t count, int narrow, void *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
    for (int64_t r = 0; r < count; r++)
        for (int64_t column = 0; column < m->columns; column += STRETCH) {
            float w[STRETCH];
            int64_t end = column + STRETCH < m->columns ? column + STRETCH : m->columns, place = r * m->columns + column;
            decode_row(m, first + r, column, end, w);
            if (narrow)
                round_to_bfloat16(w, end - column, (uint16_t *)out + place);
            else
                memcpy((float *)out + place, w, (end - column) * sizeof(float));
        }
}
