/* The structures of DLPack's C interface, version 1.0: what one library hands another to show it an array.

   Source: DLPack's documentation, "DLPack C API"; their layout is fixed, and so are the numbers of types and devices. */
#ifndef VYRE_DLPACK_H
#define VYRE_DLPACK_H

#include <stdint.h>

#define VYRE_DLPACK_MAJOR 1
#define VYRE_DLPACK_MINOR 0

typedef struct vyre_dl_tensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t axes;
  struct {
    uint8_t code;   /* of the kind of number */
    uint8_t bits;
    uint16_t lanes; /* 1: no vectors */
  } dtype;
  int64_t *shape;
  int64_t *strides; /* in elements */
  uint64_t byte_offset;
} vyre_dl_tensor;

/* DLManagedTensor: what consumers take that say no version. */
typedef struct vyre_dl_managed {
  vyre_dl_tensor tensor;
  void *context;
  void (*deleter)(struct vyre_dl_managed *);
} vyre_dl_managed;

/* DLManagedTensorVersioned: what consumers take that say theirs, from 1.0 on. */
typedef struct vyre_dl_versioned {
  uint32_t major;
  uint32_t minor;
  void *context;
  void (*deleter)(struct vyre_dl_versioned *);
  uint64_t flags; /* 0: it may be written to, and is no copy */
  vyre_dl_tensor tensor;
} vyre_dl_versioned;

_Static_assert(sizeof(vyre_dl_tensor) == 48 && sizeof(vyre_dl_managed) == 64 && sizeof(vyre_dl_versioned) == 80, "as in DLPack");

#endif
