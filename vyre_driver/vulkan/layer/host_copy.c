/* Long copies between memory of the host, by several threads.

   One core fills a part only of what memory and bus can take, and half of its time goes into pages that are touched for the first
   time, which a new array's all are. Threads are made for each copy: there are none that a fork could miss, and they cost 1 % of
   the copy. A thread that cannot be made is done without.

   Long copies write around the caches: what is read next is something else, and a line that is written whole need not be read
   first. On an H200's host 16 threads gather 88 to 110 GB/s so, and 67 with memcpy. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "host_copy.h"

#define PIECE_BYTES ((size_t)1 << 21)       /* a huge page, where there are such */
#define BYTES_A_THREAD ((size_t)1 << 21)
#define LONG_BYTES ((size_t)1 << 25)
#define MOST_THREADS 16
#define STACK_BYTES ((size_t)1 << 18)       /* a library's thread-local variables lie there too */

typedef struct {
  const vyre_span *spans;
  size_t count;
  bool is_long;
  atomic_size_t next; /* piece, counted through all spans */
} copy_job;

#ifdef __SSE2__
#define LINE_BYTES ((size_t)64)
static void copy_around_caches(char *to, const char *from, size_t bytes) {
  size_t before = (LINE_BYTES - (uintptr_t)to % LINE_BYTES) % LINE_BYTES;
  if (before > bytes) before = bytes;
  memcpy(to, from, before);
  to += before;
  from += before;
  bytes -= before;
  for (; bytes >= LINE_BYTES; bytes -= LINE_BYTES, to += LINE_BYTES, from += LINE_BYTES) {
    __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)(to + 16), b);
    _mm_stream_si128((__m128i *)(to + 32), c);
    _mm_stream_si128((__m128i *)(to + 48), d);
  }
  _mm_sfence();
  memcpy(to, from, bytes);
}
#else
static void copy_around_caches(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }
#endif

static void copy_part(const copy_job *job, const vyre_span *span, size_t first, size_t last) {
  if (first >= last) return;
  if (!span->from) {
    memset(span->to + first, 0, last - first);
  } else if (job->is_long) {
    copy_around_caches(span->to + first, span->from + first, last - first);
  } else {
    memcpy(span->to + first, span->from + first, last - first);
  }
}

/* Pieces end where the target's huge pages do; a few at the end are empty. */
static size_t pieces_of(const vyre_span *span) { return span->bytes / PIECE_BYTES + 2; }

static void copy_piece(const copy_job *job, const vyre_span *span, size_t piece) {
  size_t shift = (uintptr_t)span->to % PIECE_BYTES;
  size_t first = piece == 0 ? 0 : piece * PIECE_BYTES - shift;
  size_t last = (piece + 1) * PIECE_BYTES - shift;
  copy_part(job, span, first, last < span->bytes ? last : span->bytes);
}

static void *copy_pieces(void *given) {
  copy_job *job = given;
  for (;;) {
    size_t piece = atomic_fetch_add(&job->next, 1), at = 0;
    while (at < job->count && piece >= pieces_of(&job->spans[at])) piece -= pieces_of(&job->spans[at++]);
    if (at == job->count) return NULL;
    copy_piece(job, &job->spans[at], piece);
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
  unsigned made = threads > 1 ? start(helpers, threads - 1, job) : 0;
  (void)copy_pieces(job);
  for (unsigned i = 0; i < made; i++) pthread_join(helpers[i], NULL);
}

void vyre_copy_spans(const vyre_span *spans, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += spans[i].bytes;
  copy_job job = {.spans = spans, .count = count, .is_long = bytes >= LONG_BYTES};
  share_out(&job, wanted_threads(bytes));
}

void vyre_copy_bytes(void *to, const void *from, size_t bytes) {
  uintptr_t target = (uintptr_t)to, source = (uintptr_t)from;
  const vyre_span span = {to, from, bytes};
  if (wanted_threads(bytes) < 2 || (target < source + bytes && source < target + bytes)) {
    memmove(to, from, bytes);
  } else {
    vyre_copy_spans(&span, 1);
  }
}

void vyre_clear_bytes(void *to, size_t bytes) {
  const vyre_span span = {to, NULL, bytes};
  if (wanted_threads(bytes) < 2) {
    memset(to, 0, bytes);
  } else {
    vyre_copy_spans(&span, 1);
  }
}
