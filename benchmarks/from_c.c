/* What a bound kernel costs an extension in C: runs through the table, without the GIL, as bare_vulkan.c does without us. */
#include <stdlib.h>
#include <time.h>
#include <vyre_driver.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median microseconds of so many runs of a BoundKernel, -1 where it cannot be run. */
double run_from_c(const vyre_driver_api *vyre, void *kernel, int repeats)
{
    vyre_bound_kernel *bound = vyre->bound_take(kernel, NULL);
    double *took = malloc(sizeof *took * (size_t)repeats), median = -1;
    int made = 0;
    while (bound != NULL && took != NULL && made < repeats) {
        struct timespec began, ended;
        clock_gettime(CLOCK_MONOTONIC, &began);
        if (vyre->bound_run(bound, VYRE_NO_TIME_OUT) != VYRE_BOUND_SUCCESS)
            break;
        clock_gettime(CLOCK_MONOTONIC, &ended);
        took[made++] = (double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) * 1e-3;
    }
    if (made == repeats) {
        qsort(took, (size_t)made, sizeof *took, ascending);
        median = took[made / 2];
    }
    free(took);
    vyre->bound_drop(bound);
    return median;
}
