/* A map from a non-zero Vulkan handle to one word, open addressing; the caller locks. */
#ifndef VYRE_HANDLE_MAP_H
#define VYRE_HANDLE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vyre_handle_map {
  uint64_t *keys; /* 0: free */
  uintptr_t *values;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} vyre_handle_map;

bool vyre_map_put(vyre_handle_map *map, uint64_t key, uintptr_t value); /* false: out of memory */
bool vyre_map_get(const vyre_handle_map *map, uint64_t key, uintptr_t *value);
bool vyre_map_take(vyre_handle_map *map, uint64_t key, uintptr_t *value);
void vyre_map_free(vyre_handle_map *map);

#endif
