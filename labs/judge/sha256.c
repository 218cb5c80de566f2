// sha256.c: SHA-256, from FIPS 180-4.
#include "judge.h"

#include <math.h>
#include <string.h>

static uint32_t k[64];

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static void make_constants(void)
{
    int count = 0;
    for (unsigned n = 2; count < 64; ++n) {
        bool prime = true;
        for (unsigned d = 2; d * d <= n; ++d)
            prime = prime && n % d;
        if (prime) {
            long double root = cbrtl(n);
            k[count++] = (uint32_t)((root - floorl(root)) * 4294967296.0L);
        }
    }
}

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void block(struct sha256 *s)
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; ++i)
        w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
               (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
    for (int i = 16; i < 64; ++i) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; ++i) {
        uint32_t t1 = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
                      ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
                      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; ++i)
        s->h[i] += v[i];
}

void sha256_begin(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    if (!k[0])
        make_constants();
    memcpy(s->h, start, sizeof start);
    s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; ++i) {
        s->block[s->bytes++ % 64] = at[i];
        if (s->bytes % 64 == 0)
            block(s);
    }
}

void sha256_end(struct sha256 *s, uint8_t digest[32])
{
    uint64_t bits = s->bytes * 8;
    uint8_t length[8];

    for (int i = 0; i < 8; ++i)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, "\x80", 1);
    while (s->bytes % 64 != 56)
        sha256_add(s, "", 1);
    sha256_add(s, length, 8);
    for (int i = 0; i < 32; ++i)
        digest[i] = (uint8_t)(s->h[i / 4] >> (24 - i % 4 * 8));
}

char *sha256_hex(const uint8_t digest[32])
{
    char hex[65];
    for (int i = 0; i < 32; ++i)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return text("%s", hex);
}
