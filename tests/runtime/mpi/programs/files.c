/* Collective input and output in all its forms; the last rank is late for one of the calls. And buffered messages. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size;

static void share(const char *path)
{
    char data[64] = "", there[64];
    MPI_File file;
    MPI_Request request;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 4096);
    MPI_File_preallocate(file, 4096);
    MPI_File_set_atomicity(file, 0);
    MPI_File_set_view(file, rank * 64, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, data, 64, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_at_all_begin(file, 64 * size, data, 64, MPI_BYTE);
    MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE);
#if MPI_VERSION > 3 || MPI_SUBVERSION >= 1
    MPI_File_iread_at_all(file, 0, there, 64, MPI_BYTE, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
    if (rank == size - 1) {
        /* For longer than a busy disk takes to sync what the others have: who is at that waits for nobody. */
        usleep(800000); /* late */
    }
    MPI_File_sync(file); /* waits */
    MPI_File_close(&file);
}

static void buffered(void)
{
    int space = MPI_BSEND_OVERHEAD + 64, there;
    void *buffer = malloc((size_t)space);
    MPI_Buffer_attach(buffer, space);
    MPI_Bsend(&rank, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Recv(&there, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&buffer, &space);
    free(buffer);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    share(argv[1]);
    buffered();
    MPI_Finalize();
    return 0;
}
