/* What the parts of a mover know of each other: mover_copies.c, mover_submits.c and mover.c.

   A mover has one thread that submits, and several that copy; a thread that waits copies too. One lock holds all of its state, and none of
   them holds it while it copies, records or submits.

   A step is cut into turns, which go through the areas one after the other: filled by the host, handed over, ended, emptied by
   the host. The areas are small, so that they stay in the caches of the host: what is gathered is not written to its memory, and
   read again, on its way. On an H200 47 GB/s go one way so, and 45 up beside 23 down, of 51 that the bus moves one way. */
#ifndef VYRE_MOVER_STATE_H
#define VYRE_MOVER_STATE_H

#include "mover.h"

#define VYRE_AREAS 4 /* one that is filled, two that are copied, one that is emptied */
#define VYRE_MOST_COPYING 16
#define VYRE_KEPT_TIMES 512

typedef enum { TURN_FILLED, TURN_READY, TURN_SUBMITTED, TURN_EMPTIED, TURN_DONE } vyre_turn_state;

typedef struct vyre_step {
  struct vyre_step *next;
  uint64_t number;
  VkCommandBuffer commands;
  VkFence fence;     /* of the commands, while they run */
  bool is_submitted; /* the commands; there may be none */
  bool is_beside;
  bool only_reads; /* all of its moves go down */
  uint64_t turns, begun, ended, done;
  size_t count;
  vyre_move moves[];
} vyre_step;

typedef struct {
  vyre_step *of;
  uint64_t index;
  vyre_turn_state state;
  uint64_t next_unit, units, left; /* of its present copies by the host */
  VkCommandBuffer commands;
  VkFence fence;
  vyre_turn_times times;
} vyre_turn;

struct vyre_mover {
  vyre_device *device;
  char *memory;
  VkBuffer areas;
  uint64_t area_bytes;
  pthread_mutex_t lock;
  pthread_cond_t work, changed, done; /* for those who copy, the one who submits, those who wait */
  vyre_step *first, *last;            /* those that are not over */
  uint64_t put, completed, ended;     /* steps: added, moved, and whose commands have ended; in order */
  vyre_turn turns[VYRE_AREAS];
  uint64_t begun, submitted, over;    /* turns, in order */
  vyre_turn_times times[VYRE_KEPT_TIMES]; /* of turn g at g % VYRE_KEPT_TIMES */
  unsigned copying;
  bool is_submitting;                 /* without the lock */
  bool is_cancelled, is_stopped;
  VkResult result;
  pthread_t threads[VYRE_MOST_COPYING + 1];
  unsigned thread_count;
};

/* mover_copies.c; all under the lock. */
uint32_t vyre_regions_of(const vyre_mover *mover, const vyre_turn *turn, vyre_region *out); /* returns how many */
void vyre_cut_into_turns(const vyre_mover *mover, vyre_step *step);
void vyre_begin_copies(vyre_mover *mover, vyre_turn *turn, bool is_down);
bool vyre_copy_one(vyre_mover *mover); /* without the lock meanwhile; false: there is nothing to copy */
void vyre_advance(vyre_mover *mover);  /* ends turns that are done, begins those that come next, and drops steps that are over */

/* mover_submits.c: what the thread that submits does. */
void *vyre_submit_until_stopped(void *mover);
bool vyre_runs_something(const vyre_mover *mover); /* under the lock */

/* mover.c */
void vyre_wait_a_little(pthread_cond_t *what, pthread_mutex_t *lock, uint64_t ns);

#endif
