/* Ways to use MPI and to end, by the word that is given. What is printed is the same in every run. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;
static MPI_Comm own[4];
static MPI_Request alone[4];

static void *exchange(void *number)
{
    MPI_Comm comm = own[*(int *)number];
    double out = rank, in;
    MPI_Isend(&out, 1, MPI_DOUBLE, 0, *(int *)number, MPI_COMM_SELF, &alone[*(int *)number]); /* all threads' first */
    MPI_Recv(&in, 1, MPI_DOUBLE, 0, *(int *)number, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&alone[*(int *)number], MPI_STATUS_IGNORE);
    for (int i = 0; i < 200; i++) {
        MPI_Request requests[2];
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 0, &in, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, comm,
                     MPI_STATUS_IGNORE);
        MPI_Irecv(&in, 1, MPI_DOUBLE, i % 2 ? MPI_ANY_SOURCE : (rank + size - 1) % size, 1, comm, &requests[0]);
        MPI_Isend(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (i % 20 == 0) {
            MPI_Comm again;
            MPI_Comm_dup(comm, &again);
            MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, again);
            MPI_Comm_free(&again);
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];
    int number[4];
    for (int i = 0; i < 4; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    }
    for (int i = 0; i < 4; i++) {
        number[i] = i;
        pthread_create(&thread[i], NULL, exchange, &number[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
    }
}

static void children(void)
{
    int status;
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0 && i == 0) {
            execlp("true", "true", (char *)NULL);
        }
        if (child == 0) {
            _exit(i);
        }
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_SESSIONS
static int sessions(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int sum = 0, one = 1;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    for (int i = 0; i < 5; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    printf("sum %d\n", sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return 0;
}
#endif

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    int provided;
    if (strcmp(way, "sessions") == 0) {
#ifdef HAS_SESSIONS
        return sessions();
#else
        puts("none");
        return 0;
#endif
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(way, "threads") == 0 && provided == MPI_THREAD_MULTIPLE) {
        threads();
    } else if (strcmp(way, "fork") == 0) {
        children();
    } else if (strcmp(way, "spawn") == 0) {
        MPI_Comm made, parent;
        MPI_Comm_get_parent(&parent);
        if (parent == MPI_COMM_NULL) {
            MPI_Comm_spawn(argv[0], (char *[]){"spawn", NULL}, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &made,
                           MPI_ERRCODES_IGNORE);
        } else {
            made = parent;
        }
        MPI_Comm_disconnect(&made);
    } else if (strcmp(way, "abort") == 0 && rank == size - 1) {
        MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (strcmp(way, "crash") == 0 && rank == size - 1) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else if (strcmp(way, "exit") == 0) {
        MPI_Finalize();
        return 4;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    puts(way);
    MPI_Finalize();
    return 0;
}
