/* Copies between memory of the host, by several threads. */
#include "host_copy.h"
#include "pages.h"

static void *copy_long_arrays(void *argument) {
  const size_t sizes[] = {0, 5, ((size_t)1 << 23) - 1, ((size_t)9 << 20) + 4097};
  bool copies_alone = argument; /* else it is the clearing that gets no thread */
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *from = malloc(sizes[i] + 1), *to = malloc(sizes[i] + 8);
    CHECK(from && to);
    for (size_t at = 0; at < sizes[i]; at++) from[at] = (unsigned char)(at * 7 + at / 4096);
    fail_thread(copies_alone);
    memset(to, 0xA5, 3);
    to[3 + sizes[i]] = 0x5A;
    vyre_copy_bytes(to + 3, from, sizes[i]);
    CHECK(memcmp(to + 3, from, sizes[i]) == 0 && to[2] == 0xA5 && to[3 + sizes[i]] == 0x5A);
    vyre_copy_bytes(to + 1, to + 3, sizes[i]); /* they overlap */
    CHECK(memcmp(to + 1, from, sizes[i]) == 0);
    memset(to, 0xA5, sizes[i] + 8);
    fail_thread(!copies_alone);
    vyre_clear_bytes(to + 3, sizes[i]);
    CHECK(are_all(to + 3, sizes[i], 0) && are_all(to, 3, 0xA5) && are_all(to + 3 + sizes[i], 5, 0xA5));
    fail_thread(0);
    free(from);
    free(to);
  }
  return NULL;
}

void long_arrays_are_copied_side_by_side(void) {
  for (uint64_t i = 0; i < rounds / 100 + 1; i++) {
    pthread_t beside[3];
    for (int j = 0; j < 3; j++) CHECK(pthread_create(&beside[j], NULL, copy_long_arrays, j == 1 ? beside : NULL) == 0);
    for (int j = 0; j < 3; j++) CHECK(pthread_join(beside[j], NULL) == 0);
  }
}
