#include "handle_map.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const vyre_handle_map *map, uint64_t key) {
  key *= UINT64_C(0x9E3779B97F4A7C15); /* handles are pointers or counters: spread their low bits */
  return (size_t)(key >> 32) & (map->capacity - 1);
}

static size_t find(const vyre_handle_map *map, uint64_t key) {
  size_t at = slot_of(map, key);
  while (map->keys[at] != 0 && map->keys[at] != key) at = (at + 1) & (map->capacity - 1);
  return at;
}

static bool grow(vyre_handle_map *map) {
  vyre_handle_map larger = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
  larger.keys = calloc(larger.capacity, sizeof *larger.keys);
  larger.values = calloc(larger.capacity, sizeof *larger.values);
  if (!larger.keys || !larger.values) {
    free(larger.keys);
    free(larger.values);
    return false;
  }
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->keys[i] == 0) continue;
    size_t at = find(&larger, map->keys[i]);
    larger.keys[at] = map->keys[i];
    larger.values[at] = map->values[i];
  }
  vyre_map_free(map);
  *map = larger;
  return true;
}

bool vyre_map_put(vyre_handle_map *map, uint64_t key, uintptr_t value) {
  size_t at = map->capacity ? find(map, key) : 0;
  if (map->capacity && map->keys[at] == key) {
    map->values[at] = value;
    return true;
  }
  if (map->count * 2 >= map->capacity && !grow(map)) return false;
  at = find(map, key);
  if (map->keys[at] == 0) map->count++;
  map->keys[at] = key;
  map->values[at] = value;
  return true;
}

bool vyre_map_get(const vyre_handle_map *map, uint64_t key, uintptr_t *value) {
  if (map->count == 0) return false;
  size_t at = find(map, key);
  if (map->keys[at] == 0) return false;
  *value = map->values[at];
  return true;
}

bool vyre_map_take(vyre_handle_map *map, uint64_t key, uintptr_t *value) {
  if (map->count == 0) return false;
  size_t hole = find(map, key);
  if (map->keys[hole] == 0) return false;
  *value = map->values[hole];
  map->count--;
  /* Close the gap: move back every later key of the run whose own slot is not between the hole and it. */
  for (size_t at = (hole + 1) & (map->capacity - 1); map->keys[at] != 0; at = (at + 1) & (map->capacity - 1)) {
    size_t wanted = slot_of(map, map->keys[at]);
    if (((at - wanted) & (map->capacity - 1)) >= ((at - hole) & (map->capacity - 1))) {
      map->keys[hole] = map->keys[at];
      map->values[hole] = map->values[at];
      hole = at;
    }
  }
  map->keys[hole] = 0;
  return true;
}

void vyre_map_free(vyre_handle_map *map) {
  free(map->keys);
  free(map->values);
  memset(map, 0, sizeof *map);
}
