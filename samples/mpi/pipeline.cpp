// Stages that hand batches on by blocking sends; the second one reads from something slow.

// /// scalana
// planted = "stage 1 sleeps 40 ms for each of 30 batches"
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

#include <cstdio>
#include <vector>

class Stage {
public:
    Stage(int rank, int size, bool fix) : rank(rank), size(size), fix(fix), batch(256) {}

    void handle()
    {
        if (rank > 0) {
            MPI_Recv(batch.data(), 256, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        transform();
        if (rank == 1 && !fix) {
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
        timespec pause = {0, 40000000};
        nanosleep(&pause, nullptr);  // <- fault
    }

    int rank, size;
    bool fix;
    std::vector<double> batch;
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Stage stage(rank, size, argc > 1);
    for (int batch = 0; batch < 30; batch++) {
        stage.handle();
    }
    MPI_Finalize();
    return 0;
}
