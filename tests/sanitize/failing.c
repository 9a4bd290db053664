/* Memory and threads that the process does not get: the linker sends calloc and pthread_create here (--wrap). */
#include <errno.h>

#include "harness.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

static _Thread_local uint64_t callocs_left, threads_left; /* the last of them fails; 0: none does */

void fail_calloc(uint64_t countdown) { callocs_left = countdown; }

uint64_t callocs_to_fail(void) { return callocs_left; }

void fail_thread(uint64_t countdown) { threads_left = countdown; }

static bool fails(uint64_t *left) { return *left && --*left == 0; }

void *__wrap_calloc(size_t count, size_t size) { return fails(&callocs_left) ? NULL : __real_calloc(count, size); }

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  return fails(&threads_left) ? EAGAIN : __real_pthread_create(out, attributes, run, argument);
}
