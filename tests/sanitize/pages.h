/* Pages of the process, pinned as Python pins them. */
#ifndef VYRE_HARNESS_PAGES_H
#define VYRE_HARNESS_PAGES_H

#include "harness.h"
#include "host_memory.h"

typedef struct pages {
  VkBuffer buffer; /* NULL: they are not pinned */
  unsigned char *at;
  size_t bytes;
} pages;

VkResult pin(app *a, size_t bytes, pages *out); /* they are mapped, whatever it returns */
void unpin(app *a, pages *p);
bool are_all(const unsigned char *bytes, size_t count, unsigned char value);

#endif
