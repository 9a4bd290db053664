/* The users of a device; the owner does until it is closed: use.c. */
#ifndef VYRE_USE_H
#define VYRE_USE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct vyre_use {
  atomic_llong users;
  atomic_bool closed;
  pthread_mutex_t lock;
  pthread_cond_t unused;
} vyre_use;
bool vyre_use_init(vyre_use *use);  /* false: out of memory */
void vyre_use_destroy(vyre_use *use);
bool vyre_use_begin(vyre_use *use); /* false: closed; either way vyre_use_end must follow */
void vyre_use_end(vyre_use *use);   /* on the same thread, the last begun first */
bool vyre_use_is_mine(const vyre_use *use); /* whether this thread is within a use of it */
void vyre_use_close(vyre_use *use); /* a use that begins from now on is refused; a second call does nothing */
bool vyre_use_wait(vyre_use *use, uint64_t timeout_ns); /* once it is closed: whether nobody uses it any more */

#endif
