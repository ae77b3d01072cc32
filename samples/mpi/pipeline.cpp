// Stages that hand batches on by blocking sends; the second one reads from something slow.

// /// scalana
// planted = "stage 1 sleeps 220 ms for each of 4 batches"
// symptom = "MPI_Recv of the stages behind it"
//
// [[faults]]
// marker = "fault"
// function = "Stage::look_up"
// ranks = [1]
// kind = "sleep"
// ///

#include <mpi.h>
#include <time.h>

#include <vector>

#include "planted.hpp"

class Stage {
public:
    Stage(int rank, int size, bool slow) : rank(rank), size(size), slow(slow), batch(256) {}

    void handle()
    {
        if (rank > 0) {
            MPI_Recv(batch.data(), 256, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        transform();
        if (slow) {
            look_up();
        }
        if (rank < size - 1) {
            MPI_Send(batch.data(), 256, MPI_DOUBLE, rank + 1, 0, MPI_COMM_WORLD);
        }
    }

private:
    void transform()
    {
        for (int round = 0; round < 400; round++) {
            for (double &value : batch) {
                value = value * 0.5 + 1.0;
            }
        }
    }

    void look_up()
    {
        Planted planted;
        timespec pause = {0, 220000000};
        nanosleep(&pause, nullptr);  // <- fault
    }

    int rank, size;
    bool slow;
    std::vector<double> batch;
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    {
        Loop loop;
        Stage stage(rank, size, rank == 1 && argc < 2);
        for (int batch = 0; batch < 4; batch++) {
            stage.handle();
        }
    }
    MPI_Finalize();
    return 0;
}
