/* Pages of the process, pinned as Python pins them. */
#include "pages.h"

VkResult pin(app *a, size_t bytes, pages *out) {
  *out = (pages){.bytes = bytes, .at = vyre_map_pages(bytes)};
  CHECK(out->at);
  VkResult result = vyre_import_pages(a->face, out->at, bytes, &out->buffer);
  CHECK((result == VK_SUCCESS) == (out->buffer != VK_NULL_HANDLE));
  return result;
}

void unpin(app *a, pages *p) {
  if (p->buffer) vyre_drop_import(a->face, p->buffer);
  vyre_unmap_pages(p->at, p->bytes);
  *p = (pages){0};
}

bool are_all(const unsigned char *bytes, size_t count, unsigned char value) {
  return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}
