/* Many small calls of MPI with some work between them: what recording costs, call by call.
 *
 * Takes turns with other jobs: works for a block of rounds whenever a byte comes over the socket that is named by
 * SCALANA_BENCHMARK_TURNS, and answers with the wall and CPU seconds that it took. Without a socket: one block. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static double work(int n)
{
    double sum = 0;
    for (int i = 1; i <= n; i++) {
        sum += 1.0 / i;
    }
    return sum;
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double total, message, sum;

static void block(int rounds, int amount)
{
    for (int i = 0; i < rounds; i++) {
        total += work(amount);
        MPI_Request requests[2];
        /* to oneself: nobody waits, so that the CPU time is that of the calls */
        MPI_Irecv(&message, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&total, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&message, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    }
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("SCALANA_BENCHMARK_TURNS");
    if (path == NULL) {
        return -1;
    }
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100000, amount = argc > 2 ? atoi(argv[2]) : 2000;
    char text[96], go;
    MPI_Init(&argc, &argv);
    int turns = connected();
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    for (int more = 1; more;) {
        if (turns >= 0 && (write(turns, text, (size_t)size) != size || read(turns, &go, 1) != 1)) {
            break;
        }
        double begin = MPI_Wtime(), before = cpu_s();
        block(rounds, amount);
        double used = cpu_s() - before, wall = MPI_Wtime() - begin;
        size = snprintf(text, sizeof text, "%.9f %.9f\n", wall, used);
        more = turns >= 0;
    }
    if (turns < 0) {
        printf("%s", text);
    }
    MPI_Finalize();
    return sum < 0;
}
