/* Rests in a function that finds its caller by the frame pointer, with room that others have left their traces in. */
#include <mpi.h>
#include <stdint.h>
#include <time.h>

static __attribute__((noinline)) int nothing(int n)
{
    __asm__ volatile("");
    return n;
}

/* What looks like saved frame pointers and return addresses: higher in the stack, and behind a call. */
static __attribute__((noinline)) int leave_traces(void *return_address)
{
    volatile uintptr_t words[256];
    for (int i = 0; i < 256; i += 2) {
        words[i] = ((uintptr_t)&words[256] + 4096) & ~(uintptr_t)7;
        words[i + 1] = (uintptr_t)return_address;
    }
    return nothing((int)words[7]);
}

static __attribute__((noinline)) void *where_it_returns(void)
{
    return __builtin_return_address(0);
}

static __attribute__((noinline)) int rest(int size)
{
    volatile char room[size];
    const struct timespec nap = {0, 20000000};
    room[0] = 1;
    nanosleep(&nap, NULL);
    return nothing(room[0]);
}

/* Has a number where others have their frame pointer. */
static __attribute__((noinline, optimize("omit-frame-pointer"))) int outer(int size)
{
    int result;
    __asm__ volatile("mov $5, %%ebp" ::: "rbp");
    result = rest(size);
    __asm__ volatile("" ::: "rbp");
    return result + 1;
}

int main(int argc, char **argv)
{
    int sum = 0;
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 30; i++) {
        sum += leave_traces(where_it_returns());
        sum += outer(1000);
    }
    MPI_Finalize();
    return sum == 1 ? 1 : 0;
}
