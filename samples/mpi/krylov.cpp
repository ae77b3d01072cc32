// A Krylov solver: all ranks take scalar products by a function of a header, one rank takes many more of them.

// /// scalana
// planted = "rank 2 makes each vector orthogonal to 4000 earlier ones, the others to 4"
// symptom = "MPI_Allreduce of the others"
//
// [[faults]]
// marker = "fault"
// function = "orthogonalise"
// ranks = [2]
// kind = "busy"
// ///

#include <mpi.h>

#include <vector>

#include "planted.hpp"
#include "vectors.hpp"

static double norms(const std::vector<double> &vector, int rounds)
{
    double sum = 0;
    for (int round = 0; round < rounds; round++) {
        sum += dot(vector, vector);
    }
    return sum;
}

static void orthogonalise(std::vector<double> &vector, const std::vector<double> &base, int earlier)
{
    for (int number = 0; number < earlier; number++) {
        vector[number] -= 1e-9 * dot(vector, base);  // <- fault
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    {
        Loop loop;
        std::vector<double> vector(40000, 0.5), base(40000, 0.25);
        for (int step = 0; step < 5; step++) {
            double norm = norms(vector, 200), total;
            orthogonalise(vector, base, 4);
            if (rank == 2 && argc < 2) {
                Planted planted;
                orthogonalise(vector, base, 4000);
            }
            MPI_Allreduce(&norm, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            vector[0] = total * 1e-9;
        }
    }
    MPI_Finalize();
    return 0;
}
