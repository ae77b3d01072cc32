/* A library of a program's own, with a loop that takes long. */
#include <mpi.h>

double smooth(double *values, int count, double until);

double smooth(double *values, int count, double until)
{
    while (MPI_Wtime() < until) {
        for (int i = 1; i + 1 < count; i++) {
            values[i] = 0.25 * (values[i - 1] + 2 * values[i] + values[i + 1]);
        }
    }
    return values[1];
}
