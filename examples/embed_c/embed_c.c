/* Four threads validate and key a million dispatches without the GIL, the cache answers from C, and a bound kernel runs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <vyre_driver.h>

enum { THREADS = 4, BUFFERS = 4, INPUTS = 3, CONSTANTS = 16 };

static const vyre_driver_api *vyre;

typedef struct worker {
    pthread_t thread;
    const vyre_binding *plan;
    uint64_t first, end;
    uint64_t refused; /* dispatches whose inputs did not fit */
    uint64_t keys;    /* the sum of their keys' first digits, so that no key is left out */
} worker;

/* out[i] = f(x[i], y[i]) in place of z, with the element count n left to run time. */
static const vyre_buffer_decl BUFFER_DECLS[BUFFERS] = {
    {.element_size = 4, .binding = 0, .access = VYRE_ACCESS_READ_ONLY, .kind = VYRE_KIND_GLOBAL},
    {.element_size = 4, .binding = 1, .access = VYRE_ACCESS_READ_ONLY, .kind = VYRE_KIND_GLOBAL},
    {.element_size = 4, .binding = 2, .access = VYRE_ACCESS_READ_WRITE, .kind = VYRE_KIND_GLOBAL},
    {.element_size = 8, .binding = 3, .count = 64, .access = VYRE_ACCESS_WRITE_ONLY, .kind = VYRE_KIND_GLOBAL},
};

static void *work(void *argument)
{
    worker *mine = argument;
    char names[CONSTANTS][12];
    vyre_spec_entry constants[CONSTANTS];
    for (int i = 0; i < CONSTANTS; i++) {
        constants[i].name_len = (size_t)snprintf(names[i], sizeof names[i], "CONSTANT_%02d", i);
        constants[i].name = names[i];
        constants[i].value_hash = (uint64_t)i << 8; /* the u32 i */
    }
    for (uint64_t dispatch = mine->first; dispatch < mine->end; dispatch++) {
        uint64_t bytes = 4 * (1 + dispatch % 1000);
        uint64_t lengths[INPUTS] = {bytes, bytes, dispatch % 10 ? bytes : bytes + 1}; /* every tenth is odd */
        vyre_lengths_fault fault;
        if (vyre->validate_lengths(mine->plan, BUFFERS, lengths, INPUTS, &fault) != VYRE_LENGTHS_FIT) {
            mine->refused++;
            continue;
        }
        constants[0].value_hash = (dispatch & 0xFFFFFFFF) << 8;
        vyre_spec_cache_key key = {dispatch, 7, vyre->spec_map_hash(constants, CONSTANTS), {64, 1, 1}};
        char digits[32];
        vyre->autotune_key(&key, digits);
        mine->keys += (uint64_t)digits[0];
    }
    return NULL;
}

static PyObject *run(PyObject *self, PyObject *argument)
{
    (void)self;
    vyre_binding plan[BUFFERS];
    size_t at_fault;
    worker workers[THREADS] = {0};
    uint64_t count = PyLong_AsUnsignedLongLong(argument), refused = 0, keys = 0;
    int started = 0;
    if (PyErr_Occurred())
        return NULL;
    if (vyre->plan_build(BUFFER_DECLS, BUFFERS, NULL, 0, plan, &at_fault) != VYRE_PLAN_WHOLE)
        return PyErr_Format(PyExc_ValueError, "buffer %zu cannot be planned", at_fault);
    Py_BEGIN_ALLOW_THREADS
    for (; started < THREADS; started++) {
        worker *one = &workers[started];
        one->plan = plan;
        one->first = count * (uint64_t)started / THREADS;
        one->end = count * (uint64_t)(started + 1) / THREADS;
        if (pthread_create(&one->thread, NULL, work, one) != 0)
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        refused += workers[i].refused;
        keys += workers[i].keys;
    }
    Py_END_ALLOW_THREADS
    if (started < THREADS)
        return PyErr_Format(PyExc_RuntimeError, "only %d of %d threads could be started", started, THREADS);
    return Py_BuildValue("KK", (unsigned long long)refused, (unsigned long long)keys);
}

static PyObject *look_up(PyObject *self, PyObject *arguments)
{
    (void)self;
    const char *directory;
    const uint8_t *manifest;
    Py_ssize_t manifest_len;
    uint8_t digest[32];
    char digits[64], reason[256];
    if (!PyArg_ParseTuple(arguments, "zy#", &directory, (const char **)&manifest, &manifest_len))
        return NULL;
    vyre_cache *cache = vyre->cache_open(directory, reason);
    if (cache == NULL)
        return PyErr_Format(PyExc_ValueError, "the cache cannot be opened: %s", reason);
    vyre_cache_entry entry;
    int verdict = vyre->cache_lookup(cache, manifest, (size_t)manifest_len, &entry);
    vyre->cache_close(cache); /* the entry outlives it */
    if (vyre->pipeline_key(manifest, (size_t)manifest_len, digest) != 0)
        return PyErr_NoMemory();
    vyre->hex(digest, sizeof digest, digits);
    PyObject *found = Py_BuildValue("is#y#y#s", verdict, digits, (Py_ssize_t)sizeof digits, (const char *)entry.spirv,
                                    (Py_ssize_t)entry.spirv_len, (const char *)entry.native, (Py_ssize_t)entry.native_len,
                                    entry.reason);
    vyre->cache_release(&entry);
    return found;
}

/* What the device does meanwhile is the caller's: here there is nothing else to do, and it is asked whether it is done. */
static vyre_bound_status submit_and_poll(vyre_bound_kernel *bound)
{
    vyre_bound_status status = vyre->bound_submit(bound);
    while (status == VYRE_BOUND_SUCCESS && (status = vyre->bound_poll(bound)) == VYRE_BOUND_RUNNING)
        status = VYRE_BOUND_SUCCESS;
    return status;
}

static PyObject *run_bound(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyObject *kernel;
    char reason[256];
    unsigned long long runs, made = 0;
    struct timespec began, ended;
    vyre_bound_status status = VYRE_BOUND_SUCCESS;
    if (!PyArg_ParseTuple(arguments, "OK", &kernel, &runs))
        return NULL;
    vyre_bound_kernel *bound = vyre->bound_take(kernel, reason);
    if (bound == NULL)
        return PyErr_Format(PyExc_ValueError, "the kernel cannot be run from C: %s", reason);
    Py_BEGIN_ALLOW_THREADS
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (made < runs && status == VYRE_BOUND_SUCCESS && ++made)
        status = made % 2 ? vyre->bound_run(bound, VYRE_NO_TIME_OUT) : submit_and_poll(bound);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    Py_END_ALLOW_THREADS
    vyre->bound_drop(bound);
    if (status != VYRE_BOUND_SUCCESS)
        return PyErr_Format(PyExc_RuntimeError, "run %llu of the kernel says %d", made, (int)status);
    return PyFloat_FromDouble((double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) / 1e3);
}

static PyMethodDef METHODS[] = {
    {"run_bound", run_bound, METH_VARARGS, "run_bound(bound kernel, runs) -> microseconds that they took"},
    {"run", run, METH_O, "run(dispatches) -> (refused, sum of the keys' first digits)"},
    {"look_up", look_up, METH_VARARGS, "look_up(directory or None, manifest) -> (verdict, key, SPIR-V, native, reason)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, .m_name = "embed_c", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit_embed_c(void)
{
    vyre = import_vyre_driver();
    return vyre == NULL ? NULL : PyModule_Create(&MODULE);
}
