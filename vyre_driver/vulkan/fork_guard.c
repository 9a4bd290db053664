#define _DEFAULT_SOURCE /* on_exit */
#include "fork_guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t guard; /* read by threads that keep forks out, written by fork() */
static atomic_uint forks_behind;
static _Thread_local unsigned depth;
static _Thread_local bool forks;

static void make_guard(void) {
  pthread_rwlockattr_t attributes;
  (void)pthread_rwlockattr_init(&attributes);
#ifdef __GLIBC__
  /* A fork that waits is next: threads that take turns in the driver would keep it out for ever. */
  (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
  (void)pthread_rwlock_init(&guard, &attributes);
  (void)pthread_rwlockattr_destroy(&attributes);
}

static void before_fork(void) {
  if (depth || forks) return; /* the thread itself keeps them out, and forks all the same; or it is prepared already */
  pthread_rwlock_wrlock(&guard);
  forks = true;
}

static void after_in_parent(void) {
  if (forks) pthread_rwlock_unlock(&guard);
  forks = false;
}

/* A fork does not copy the threads that held it. */
static void after_in_child(void) {
  atomic_fetch_add(&forks_behind, 1);
  make_guard();
  forks = false;
  if (depth) pthread_rwlock_rdlock(&guard);
}

static void begin(void) {
  make_guard();
  (void)pthread_atfork(before_fork, after_in_parent, after_in_child);
}

void vyre_keep_forks_out(void) {
  pthread_once(&once, begin);
  if (depth++ == 0) pthread_rwlock_rdlock(&guard);
}

void vyre_let_forks_in(void) {
  if (--depth == 0) pthread_rwlock_unlock(&guard);
}

void vyre_prepare_fork(void) {
  pthread_once(&once, begin);
  before_fork();
}

unsigned vyre_forks(void) {
  pthread_once(&once, begin);
  return atomic_load_explicit(&forks_behind, memory_order_relaxed);
}

void vyre_end_fork(void) { after_in_parent(); }

#ifdef __GLIBC__
/* exit() runs the handler that was registered last first. */
static void end_now(int status, void *unused) {
  (void)unused;
  (void)fflush(NULL);
  _exit(status);
}

void vyre_skip_exit_handlers(void) { (void)on_exit(end_now, NULL); }
#else
void vyre_skip_exit_handlers(void) {} /* nothing else tells a handler the exit status */
#endif
