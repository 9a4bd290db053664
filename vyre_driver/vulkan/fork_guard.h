/* Keeps fork() out of calls that let the GIL go and take locks of the Vulkan loader's or of a driver's: in the child nobody would
   ever release those. With the GIL there is no need: a fork of Python's holds it.

   Each shared object that this is linked into has a guard of its own, and fork() waits for all of them. A fork of Python's is
   prepared before it calls fork(): there the handlers that a driver registered after ours run first, and NVIDIA's takes a lock
   that a thread in a call of the driver's may be waiting for, while it keeps forks out.

   A driver's exit handlers do not expect to run in a forked child: Mesa's (26.1) joins threads that the child does not have, and
   NVIDIA's (580) crashes. */
#ifndef VYRE_FORK_GUARD_H
#define VYRE_FORK_GUARD_H

void vyre_keep_forks_out(void);    /* from here on, on this thread, */
void vyre_let_forks_in(void);      /* to here; may be nested, and must not need the GIL to get there */
void vyre_prepare_fork(void);      /* before fork(), without the GIL: returns when no thread keeps forks out, and lets none begin to */
void vyre_end_fork(void);          /* where the fork that was prepared did not happen; fork() itself does this otherwise */
void vyre_skip_exit_handlers(void); /* in a forked child: it ends without the exit handlers that were registered before the fork */
unsigned vyre_forks(void);         /* how many lie between the process that asked first and this one; getpid() is a system call */

#endif
