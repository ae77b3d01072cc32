#include "base/checksum.h"

#include <pthread.h>
#include <string.h>

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void build_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = (c & 1) ? (c >> 1) ^ 0xEDB88320u : c >> 1;
        }
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 0xff];
        }
    }
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t checksum_crc32(const uint8_t *data, size_t size)
{
    pthread_once(&crc_once, build_table);
    uint32_t c = 0xFFFFFFFFu;
    while (size >= 8) {
        uint32_t low = load_u32(data) ^ c;
        uint32_t high = load_u32(data + 4);
        c = crc_table[7][low & 0xff] ^ crc_table[6][(low >> 8) & 0xff] ^ crc_table[5][(low >> 16) & 0xff] ^
            crc_table[4][low >> 24] ^ crc_table[3][high & 0xff] ^ crc_table[2][(high >> 8) & 0xff] ^
            crc_table[1][(high >> 16) & 0xff] ^ crc_table[0][high >> 24];
        data += 8;
        size -= 8;
    }
    while (size--) {
        c = crc_table[0][(c ^ *data++) & 0xff] ^ (c >> 8);
    }
    return c ^ 0xFFFFFFFFu;
}
