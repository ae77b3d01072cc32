/* A pipeline of training written by hand: 1F1B over blocking messages; the third stage takes longer. */

#include <mpi.h>
#include <time.h>

enum { COUNT = 6, STEPS = 4, SIZE = 128 };

static int rank, size;
static double data[SIZE];

static void rest(int milliseconds)
{
    struct timespec pause = {0, milliseconds * 1000000L};
    nanosleep(&pause, NULL);
}

static void compute(int milliseconds)
{
    rest(milliseconds);
    if (rank == 2) {
        rest(milliseconds); /* slow */
    }
}

static void receive(int peer)
{
    if (peer >= 0 && peer < size) {
        MPI_Recv(data, SIZE, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void send(int peer)
{
    if (peer >= 0 && peer < size) {
        MPI_Send(data, SIZE, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD);
    }
}

static void forward(void)
{
    receive(rank - 1);
    compute(10);
    send(rank + 1);
}

static void backward(void)
{
    receive(rank + 1);
    compute(20);
    send(rank - 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int ahead = size - 1 - rank;
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < ahead; m++) {
            forward();
        }
        for (int m = ahead; m < COUNT; m++) {
            forward();
            backward();
        }
        for (int m = 0; m < ahead; m++) {
            backward();
        }
    }
    MPI_Finalize();
    return 0;
}
