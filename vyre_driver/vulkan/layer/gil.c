/* Letting the GIL go around a long call, from code of the layer that kompute calls. */
#include <Python.h>
#include <unistd.h>

#include "layer.h"

void *vyre_let_gil_go(void) { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : NULL; }

static void stay(void *unused) {
  (void)unused;
  while (true) pause();
}

void vyre_take_gil_back(void *state) {
  if (!state) return;
  /* Once the interpreter is going, Python ends a daemon thread here, and kompute's and kp's frames would be unwound without the
     GIL. The thread stays where it is instead, as from Python 3.14 on, and the process ends around it. */
  pthread_cleanup_push(stay, NULL);
  PyEval_RestoreThread(state);
  pthread_cleanup_pop(0);
}
