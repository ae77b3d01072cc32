/* Computes and waits in turns, in system calls that no handler lets go on, and counts those that are cut short. */
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/select.h>
#include <time.h>

int main(int argc, char **argv)
{
    int cut = 0, waits = 0;
    double value = 1;
    sem_t never;
    MPI_Init(&argc, &argv);
    sem_init(&never, 0, 0);
    for (double end = MPI_Wtime() + 2; MPI_Wtime() < end; waits++) {
        for (int i = 0; i < 50000 + 1000 * (waits % 97); i++) {
            value = value * 0.999999 + 1e-6;
        }
        struct timespec nap = {0, 20000}, until;
        struct timeval soon = {0, 20};
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 20000) % 1000000000;
        errno = 0;
        cut += poll(NULL, 0, waits % 2) != 0;
        cut += nanosleep(&nap, NULL) != 0;
        cut += select(0, NULL, NULL, NULL, &soon) != 0;
        cut += sem_timedwait(&never, &until) == 0 || errno == EINTR;
    }
    MPI_Finalize();
    printf("%d of %d\n", cut, waits);
    return value > 0 ? 0 : 1;
}
