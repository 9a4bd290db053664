/* Long copies between memory of the host, by several threads.

   One core fills a part only of what memory and bus can take, and half of its time goes into pages that are touched for the first
   time, which a new array's all are. Threads are made for each copy: there are none that a fork could miss, and they cost 1 % of
   the copy. A thread that cannot be made is done without. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "host_copy.h"

#define PIECE_BYTES ((size_t)1 << 21)       /* a huge page, where there are such */
#define BYTES_A_THREAD ((size_t)1 << 22)
#define MOST_THREADS 16
#define STACK_BYTES ((size_t)1 << 18)       /* a library's thread-local variables lie there too */

typedef struct {
  char *to;
  const char *from; /* NULL: zeros */
  size_t bytes;
  atomic_size_t next; /* piece */
} copy_job;

static void *copy_pieces(void *given) {
  copy_job *job = given;
  size_t shift = (uintptr_t)job->to % PIECE_BYTES; /* pieces end where the target's huge pages do */
  for (;;) {
    size_t piece = atomic_fetch_add(&job->next, 1);
    if (piece > job->bytes / PIECE_BYTES + 1) return NULL;
    size_t first = piece == 0 ? 0 : piece * PIECE_BYTES - shift;
    size_t last = (piece + 1) * PIECE_BYTES - shift;
    if (last > job->bytes) last = job->bytes;
    if (first >= last) continue;
    if (job->from) {
      memcpy(job->to + first, job->from + first, last - first);
    } else {
      memset(job->to + first, 0, last - first);
    }
  }
}

static unsigned wanted_threads(size_t bytes) {
  cpu_set_t allowed;
  size_t count = bytes / BYTES_A_THREAD;
  if (count > MOST_THREADS) count = MOST_THREADS;
  if (count < 2 || sched_getaffinity(0, sizeof allowed, &allowed)) return 1;
  size_t processors = (size_t)CPU_COUNT(&allowed);
  return (unsigned)(count < processors ? count : processors);
}

static unsigned start(pthread_t *helpers, unsigned count, copy_job *job) {
  pthread_attr_t attributes;
  sigset_t all, before;
  unsigned made = 0;
  if (pthread_attr_init(&attributes)) return 0;
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all); /* signals are for the threads that Python knows */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (made < count && !pthread_create(&helpers[made], &attributes, copy_pieces, job)) made++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return made;
}

static void share_out(copy_job *job, unsigned threads) {
  pthread_t helpers[MOST_THREADS];
  unsigned made = start(helpers, threads - 1, job);
  (void)copy_pieces(job);
  for (unsigned i = 0; i < made; i++) pthread_join(helpers[i], NULL);
}

void vyre_copy_bytes(void *to, const void *from, size_t bytes) {
  uintptr_t target = (uintptr_t)to, source = (uintptr_t)from;
  unsigned threads = wanted_threads(bytes);
  copy_job job = {.to = to, .from = from, .bytes = bytes};
  if (threads < 2 || (target < source + bytes && source < target + bytes)) {
    memmove(to, from, bytes);
  } else {
    share_out(&job, threads);
  }
}

void vyre_clear_bytes(void *to, size_t bytes) {
  unsigned threads = wanted_threads(bytes);
  copy_job job = {.to = to, .bytes = bytes};
  if (threads < 2) {
    memset(to, 0, bytes);
  } else {
    share_out(&job, threads);
  }
}
