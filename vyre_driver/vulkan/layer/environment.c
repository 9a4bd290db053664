/* How the Vulkan loader finds the layer: through its own environment variables, for it takes no path by any call that kompute
   makes. They are set right before kompute creates its instance, and put back as soon as the loader has read them, which it has
   when it calls the layer.

   They are set in a copy of the environment that takes its place, and not by setenv: that moves the list and frees the old one,
   and a child of another thread that is about to run its program may be reading it (CPython lets the GIL go meanwhile). Its start
   failed with EFAULT then.

   What has been the environment is never freed: another thread may still be looking at it. It is used again while it is equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

extern char **environ;

#define VARIABLES 2

typedef struct told {
  const char *name;
  char *ours;         /* "NAME=VALUE", while it is set and afterwards */
  const char *before; /* the same, as it was; NULL: it was not set */
} told;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t tellers; /* threads */
static told variables[VARIABLES];
static char **copy;   /* with the variables: what environ is while it is told, and afterwards, to be used again */
static char **before; /* what environ was */

static const char *entry_of(const char *name) {
  size_t length = strlen(name);
  for (char **at = environ; at && *at; at++) {
    if (strncmp(*at, name, length) == 0 && (*at)[length] == '=') return *at;
  }
  return NULL;
}

static bool make_ours(told *one, const char *name, const char *value, char separator) {
  const char *entry = entry_of(name);
  const char *old = entry ? entry + strlen(name) + 1 : "";
  char *wanted = NULL;
  one->name = name;
  one->before = entry;
  if (asprintf(&wanted, "%s=%s%.*s%s", name, value, *old ? 1 : 0, &separator, old) < 0) return false;
  if (one->ours && strcmp(one->ours, wanted) == 0) {
    free(wanted);
  } else {
    one->ours = wanted;
  }
  return true;
}

static bool is_told(const char *entry) {
  for (size_t i = 0; i < VARIABLES; i++) {
    size_t length = strlen(variables[i].name);
    if (strncmp(entry, variables[i].name, length) == 0 && entry[length] == '=') return true;
  }
  return false;
}

/* Whether a list has the variables first and then what another one has besides them. */
static bool is_copy_of(char **list, char **other) {
  for (size_t i = 0; i < VARIABLES; i++, list++) {
    if (*list != variables[i].ours) return false;
  }
  for (; other && *other; other++) {
    if (!is_told(*other) && *list++ != *other) return false;
  }
  return !*list;
}

static bool make_copy(void) {
  if (copy && is_copy_of(copy, environ)) return true;
  size_t count = VARIABLES + 1;
  for (char **at = environ; at && *at; at++) count++;
  char **made = malloc(count * sizeof *made), **end = made;
  if (!made) return false;
  for (size_t i = 0; i < VARIABLES; i++) *end++ = variables[i].ours;
  for (char **at = environ; at && *at; at++) {
    if (!is_told(*at)) *end++ = *at;
  }
  *end = NULL;
  copy = made;
  return true;
}

/* If another thread has changed the environment meanwhile, its change stays; only what is ours goes. */
static void put_back(void) {
  if (environ == copy && is_copy_of(copy, before)) {
    environ = before;
    return;
  }
  copy = NULL;
  for (size_t i = 0; i < VARIABLES; i++) {
    if (entry_of(variables[i].name) != variables[i].ours) continue;
    if (variables[i].before) {
      (void)putenv((char *)variables[i].before); /* replaces an entry, for which it needs no memory */
    } else {
      (void)unsetenv(variables[i].name);
    }
  }
}

bool vyre_tell_loader(const char *path_variable, const char *directory, const char *name_variable) {
  bool set = true;
  pthread_mutex_lock(&lock);
  if (tellers == 0) {
    char separator = strcmp(name_variable, "VK_LOADER_LAYERS_ENABLE") == 0 ? ',' : ':';
    set = make_ours(&variables[0], path_variable, directory, ':');
    set = set && make_ours(&variables[1], name_variable, VYRE_LAYER_NAME, separator) && make_copy();
    if (set) {
      before = environ;
      environ = copy;
    }
  }
  if (set) tellers++;
  pthread_mutex_unlock(&lock);
  vyre_this_thread()->tells_loader = set;
  return set;
}

void vyre_loader_knows(void) {
  if (!vyre_this_thread()->tells_loader) return;
  vyre_this_thread()->tells_loader = false;
  pthread_mutex_lock(&lock);
  if (--tellers == 0) put_back();
  pthread_mutex_unlock(&lock);
}
