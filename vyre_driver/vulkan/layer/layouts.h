/* What pipeline.c and layouts.c share: the bytes that tell equal objects. */
#ifndef VYRE_LAYOUTS_H
#define VYRE_LAYOUTS_H

#include "layer.h"

typedef struct vyre_bytes {
  size_t size;
  unsigned char data[];
} vyre_bytes;

bool vyre_shares(const vyre_device *device); /* whether equal objects are to be one */
vyre_bytes *vyre_new_bytes(size_t size);     /* NULL: out of memory */
unsigned char *vyre_append(unsigned char *at, const void *data, size_t size); /* a length and so many bytes; returns the end */

/* Maps of handles to bytes, which they own. */
void vyre_keep_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key, vyre_bytes *bytes);
void vyre_drop_bytes(vyre_device *device, vyre_handle_map *map, uint64_t key);
const vyre_bytes *vyre_find_bytes(const vyre_handle_map *map, uint64_t key); /* under pipeline_lock; NULL: none */
void vyre_free_map_of_bytes(vyre_handle_map *map);

PFN_vkVoidFunction vyre_layout_hook(const char *name);
void vyre_layouts_close(vyre_device *device);

#endif
