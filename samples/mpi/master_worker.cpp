// A master that gives tasks to whoever asks; it spends too long on choosing the next one.

// /// scalana
// planted = "the master, rank 0, sorts its whole queue before each answer"
// symptom = "MPI_Recv of the workers"
//
// [[faults]]
// marker = "fault"
// function = "sort_queue"
// ranks = [0]
// kind = "busy"
// ///

#include <mpi.h>

#include <utility>
#include <vector>

#include "planted.hpp"

static void sort_queue(std::vector<int> &queue)
{
    Planted planted;
    for (std::size_t i = 0; i < queue.size(); i++) {  // <- fault
        for (std::size_t k = i + 1; k < queue.size(); k++) {
            if (queue[k] < queue[i]) {
                std::swap(queue[i], queue[k]);
            }
        }
    }  // <- end of fault
}

static void lead(int workers, bool slow)
{
    std::vector<int> queue;
    for (int i = 0; i < 9500; i++) {
        queue.push_back((i * 7919) % 9511);
    }
    for (int given = 0, left = workers; left > 0; given++) {
        double result;
        MPI_Status status;
        MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        int task = -1;
        if (given < 16) {
            if (slow) {
                sort_queue(queue);
            }
            task = queue.back();
            queue.pop_back();
        }
        left -= task < 0;
        MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
}

static void follow()
{
    double result = 0;
    for (;;) {
        int task;
        MPI_Send(&result, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task < 0) {
            return;
        }
        for (int i = 1; i < 100000; i++) {
            result += 1.0 / i;
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    {
        Loop loop;
        if (rank == 0) {
            lead(size - 1, argc < 2);
        } else {
            follow();
        }
    }
    MPI_Finalize();
    return 0;
}
