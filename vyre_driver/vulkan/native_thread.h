/* The system's number of the calling thread (gettid), which a thread that ended does not share with one that began later. */
#ifndef VYRE_NATIVE_THREAD_H
#define VYRE_NATIVE_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local uint32_t vyre_thread_number; /* 0: not asked for yet; a system call takes longer than all else of an event */

static void vyre_forget_thread(void) { vyre_thread_number = 0; }

static void vyre_forget_thread_in_forks(void) { (void)pthread_atfork(NULL, NULL, vyre_forget_thread); }

static inline uint32_t vyre_native_thread(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (!vyre_thread_number) {
    (void)pthread_once(&once, vyre_forget_thread_in_forks);
    vyre_thread_number = (uint32_t)syscall(SYS_gettid);
  }
  return vyre_thread_number;
}

#endif
