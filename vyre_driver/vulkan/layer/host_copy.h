/* Copies between memory of the host, by several threads where that pays. */
#ifndef VYRE_HOST_COPY_H
#define VYRE_HOST_COPY_H

#include <stddef.h>

/* Copies as memmove does, and returns when all is copied. */
void vyre_copy_bytes(void *to, const void *from, size_t bytes);

/* Writes zeros. */
void vyre_clear_bytes(void *to, size_t bytes);

#endif
