/* A recorded dispatch that C code runs without the GIL. */
#ifndef VYRE_TAKEN_H
#define VYRE_TAKEN_H

#include "bound_calls.h"
#include "layer.h"

typedef struct vyre_taken {
  vyre_bound_kernel handle; /* first: C code has a pointer to it */
  vyre_device *device;
  vyre_use *use;
  unsigned forks;           /* behind the process that took it */
  VkCommandBuffer commands; /* NULL: nothing is to run */
  volatile uint32_t *cut_word; /* not 0 after work of which the driver has cut a loop; NULL: none is watched */
  VkFence fence;            /* of the submission that is not known to have ended; whose turn it is has it */
  atomic_bool is_busy;      /* it is a thread's turn */
  atomic_uint waiting;      /* threads, for their turn */
  pthread_mutex_t lock;     /* of those who wait */
  pthread_cond_t freed;
} vyre_taken;

/* Those that are passed stay until vyre_taken_end. false: out of memory. */
bool vyre_taken_init(
    vyre_taken *taken, vyre_device *device, vyre_use *use, VkCommandBuffer commands, volatile uint32_t *cut_word);
void vyre_taken_end(vyre_taken *taken); /* waits for its work; nobody is in a call of it */

#endif
