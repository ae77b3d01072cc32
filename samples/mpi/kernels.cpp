// Small matrix products behind a virtual function, called from three places: one rank has another kernel than the rest.

// /// scalana
// planted = "rank 1 has a kernel that takes many times as long as that of the others: what it takes longer"
// symptom = "MPI_Allreduce of the others"
//
// [[faults]]
// marker = "fault"
// function = "Plain::product"
// ranks = [1]
// kind = "busy"
// ///

#include <mpi.h>

#include <memory>
#include <vector>

#include "planted.hpp"

constexpr int N = 24;

struct Kernel {
    virtual ~Kernel() = default;
    virtual void product(const double *a, const double *b, double *c) const = 0;
};

struct Banded : Kernel {
    void product(const double *a, const double *b, double *c) const override
    {
        for (int i = 0; i + 4 <= N; i++) {
            for (int j = i; j < i + 4; j++) {
                double sum = 0;
                for (int k = i; k < i + 4; k++) {
                    sum += a[i * N + k] * b[k * N + j];
                }
                c[i * N + j] = sum;
            }
        }
    }
};

struct Plain : Kernel {
    void product(const double *a, const double *b, double *c) const override
    {
        for (int i = 0; i < N; i++) {  // <- fault
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < N; k++) {
                    sum += a[i * N + k] * b[k * N + j];
                }
                c[i * N + j] = sum;
            }
        }  // <- end of fault
    }
};

struct Element {
    std::vector<double> d = std::vector<double>(N * N, 1e-2), u = d, v = d, w = d;
};

__attribute__((noinline)) static void gradient(const Kernel &kernel, Element &e)
{
    kernel.product(e.d.data(), e.u.data(), e.v.data());
}

__attribute__((noinline)) static void divergence(const Kernel &kernel, Element &e)
{
    kernel.product(e.v.data(), e.d.data(), e.w.data());
    for (double &value : e.w) {
        value *= 0.5;
    }
    kernel.product(e.w.data(), e.d.data(), e.u.data());
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    {
        Loop loop;
        std::unique_ptr<Kernel> kernel;
        if (rank == 1 && argc < 2) {
            kernel = std::make_unique<Plain>();
        } else {
            kernel = std::make_unique<Banded>();
        }
        Element element;
        for (int step = 0; step < 20; step++) {
            double since = MPI_Wtime(), sum = 0, total;
            for (int number = 0; number < 2500; number++) {
                gradient(*kernel, element);
                divergence(*kernel, element);
            }
            // What is planted is what one kernel takes longer than the other on average.
            double took_s = MPI_Wtime() - since;
            planted_s += rank == 1 ? took_s : -took_s / (size - 1);
            for (double value : element.u) {
                sum += value;
            }
            MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            element.u.assign(N * N, 1e-2 + 1e-12 * total);
        }
    }
    MPI_Finalize();
    return 0;
}
