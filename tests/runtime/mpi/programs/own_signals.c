/* Computes for 1.5 s between two barriers, after it has blocked all signals, or has taken SIGURG for itself. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t seen;

static void count(int number)
{
    seen += number == SIGURG;
}

int main(int argc, char **argv)
{
    double value = 1;
    sigset_t all;
    MPI_Init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "block") == 0) {
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
    } else if (argc > 1) {
        signal(SIGURG, count);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (bool late = false; MPI_Wtime() < begin + 1.5;) {
        if (!late && MPI_Wtime() > begin + 0.75) {
            late = true;
            seen = 0;
        }
        for (int i = 0; i < 10000; i++) {
            value = value * 0.999999 + 1e-6;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGURG);
    MPI_Finalize();
    printf("%d\n", (int)seen);
    return value > 0 ? 0 : 1;
}
