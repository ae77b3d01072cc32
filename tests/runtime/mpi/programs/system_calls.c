/* Spends 0.4 s on a CPU between two calls, most of it in the kernel. */
#include <fcntl.h>
#include <mpi.h>
#include <time.h>
#include <unistd.h>

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    char byte;
    long got = 0;
    MPI_Init(&argc, &argv);
    int file = open("/dev/zero", O_RDONLY);
    MPI_Barrier(MPI_COMM_WORLD);
    for (double end = cpu_s() + 0.4; cpu_s() < end;) {
        for (int i = 0; i < 1000; i++) {
            got += read(file, &byte, 1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return got > 0 ? 0 : 1;
}
