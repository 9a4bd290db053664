/* Copies between memory of the host, by several threads where that pays. */
#ifndef VYRE_HOST_COPY_H
#define VYRE_HOST_COPY_H

#include <stddef.h>

/* Bytes to be copied; from NULL come zeros. */
typedef struct vyre_span {
  char *to;
  const char *from;
  size_t bytes;
} vyre_span;

/* Copies as memmove does, and returns when all is copied. */
void vyre_copy_bytes(void *to, const void *from, size_t bytes);

/* The same for several spans, none of which is written where another is read or written, and none onto itself. */
void vyre_copy_spans(const vyre_span *spans, size_t count);

/* Writes zeros. */
void vyre_clear_bytes(void *to, size_t bytes);

#endif
