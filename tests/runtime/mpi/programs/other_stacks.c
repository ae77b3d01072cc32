/* Computes on small stacks of its own, each of which is gone when it is done. */
#include <mpi.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#define BYTES 16384

static ucontext_t back;
static double value = 1;

static void compute(void)
{
    for (int i = 0; i < 12000000; i++) {
        value = value * 0.999999 + 1e-6; /* here */
    }
}

static void *new_stack(void)
{
    return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void run_on(void *stack)
{
    ucontext_t other;
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = BYTES;
    other.uc_link = &back;
    makecontext(&other, compute, 0);
    swapcontext(&back, &other);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int turn = 0; turn < 10; turn++) {
        void *stacks[3] = {new_stack(), new_stack(), new_stack()};
        for (int i = 2; i >= 0; i--) { /* the others, of which one may lie right above, are gone meanwhile */
            run_on(stacks[2]);
            munmap(stacks[i > 0 ? i - 1 : 2], BYTES);
        }
    }
    MPI_Finalize();
    return value > 0 ? 0 : 1;
}
