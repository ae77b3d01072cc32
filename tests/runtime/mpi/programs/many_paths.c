/* One call of MPI that is reached from several places in turn, from the same depth, and past a large frame. */
#include <mpi.h>

#define APART __attribute__((noinline))
#define RETURNS __asm__ volatile("") /* the call before is no jump */

static double in, out;

APART static void reduce(void)
{
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    RETURNS;
}

APART static void past_a_large_frame(void)
{
    volatile char space[3 << 20];
    space[0] = space[sizeof space - 1] = 1;
    reduce();
    in += space[0];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 400; i++) {
        reduce();
        if (i % 2 == 0) {
            reduce();
        }
        if (i % 4 == 0) {
            reduce();
        }
        if (i % 5 == 0) {
            past_a_large_frame();
        }
        if (i % 8 == 0) {
            past_a_large_frame();
        }
        RETURNS;
    }
    MPI_Finalize();
    return out < 0;
}
