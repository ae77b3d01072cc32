/* Six small MPI programs, each with its own clock: what it prints at its end is what any tool should find.

   usage: miniapps stencil|particles|sweep|farm|transpose|gradient [seconds [strong]]

   All ranks have as much to do on any number of them; with "strong", the first, third and last program divide what eight
   ranks have to do among all.

   Every call of MPI between MPI_Init and MPI_Finalize goes through T(), which adds up the time in calls by rank. Rank 0
   prints "own PARALLEL BALANCE COMMUNICATION OUTSIDE" in the end: mean(o) / max(t), mean(o) / max(o), max(o) / max(t), and
   sum(o) in seconds, of the time o of each rank outside calls and its time t in all. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static double inside_s, entered_s;
static double part = 1; /* of what a rank has to do */
#define T(call) (entered_s = MPI_Wtime(), (call), inside_s += MPI_Wtime() - entered_s)
#define WORLD MPI_COMM_WORLD

/* Real work, of about as many units of 25 us each on a core of 3 GHz. */
static double compute(int units)
{
	double sum = 0;
	for (int unit = 0; unit < units; unit++)
		for (int i = 1; i < 4000; i++)
			sum += sqrt(i + sum * 1e-9);
	return sum;
}

/* A grid in strips, halves of rows exchanged with neighbours, and a norm after each sweep. */
static void stencil(int rounds)
{
	enum { WIDE = 2000 };
	int high = 200 * part;
	double *grid = calloc((high + 2) * WIDE, sizeof(double)), *next = calloc((high + 2) * WIDE, sizeof(double));
	int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
	grid[WIDE / 2] = 1e3;
	for (int round = 0; round < rounds; round++) {
		double change = 0, all;
		T(MPI_Sendrecv(grid + WIDE, WIDE, MPI_DOUBLE, up, 0, grid + (high + 1) * WIDE, WIDE, MPI_DOUBLE, down, 0, WORLD,
		               MPI_STATUS_IGNORE));
		T(MPI_Sendrecv(grid + high * WIDE, WIDE, MPI_DOUBLE, down, 1, grid, WIDE, MPI_DOUBLE, up, 1, WORLD,
		               MPI_STATUS_IGNORE));
		for (int sweep = 0; sweep < 4; sweep++)
			for (int i = WIDE + 1; i < (high + 1) * WIDE - 1; i++) {
				next[i] = 0.25 * (grid[i - 1] + grid[i + 1] + grid[i - WIDE] + grid[i + WIDE]);
				change += fabs(next[i] - grid[i]);
			}
		memcpy(grid + WIDE, next + WIDE, high * WIDE * sizeof(double));
		T(MPI_Allreduce(&change, &all, 1, MPI_DOUBLE, MPI_SUM, WORLD));
	}
	free(grid), free(next);
}

/* All pairs; the last rank has three times as many particles as the first one. */
static void particles(int rounds)
{
	int mine = 400 + (ranks > 1 ? 800 * rank / (ranks - 1) : 0), most = 1200;
	double *place = calloc(most, sizeof(double)), *all = calloc(most * ranks, sizeof(double));
	for (int round = 0; round < rounds; round++) {
		T(MPI_Allgather(place, most, MPI_DOUBLE, all, most, MPI_DOUBLE, WORLD));
		for (int i = 0; i < mine; i++) {
			double force = 0;
			for (int j = 0; j < most * ranks; j++)
				force += (all[j] - place[i]) / (1 + (all[j] - place[i]) * (all[j] - place[i]));
			place[i] += 1e-6 * force + 1e-3 * i;
		}
	}
	free(place), free(all);
}

/* Blocks are handed on from rank to rank, four in a sweep, and all meet then. */
static void sweep(int rounds)
{
	double edge[512] = {0};
	for (int round = 0; round < rounds; round++) {
		for (int block = 0; block < 4; block++) {
			if (rank)
				T(MPI_Recv(edge, 512, MPI_DOUBLE, rank - 1, block, WORLD, MPI_STATUS_IGNORE));
			edge[block] += compute(150 * part);
			if (rank < ranks - 1)
				T(MPI_Send(edge, 512, MPI_DOUBLE, rank + 1, block, WORLD));
		}
		T(MPI_Barrier(WORLD));
	}
}

/* The first rank hands out tasks of many lengths, and works on none. */
static void farm(int rounds)
{
	int tasks = rounds * 4, task, done = 0;
	MPI_Status status;
	if (rank == 0) {
		for (int sent = 0; done < ranks - 1;) {
			double result;
			T(MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, WORLD, &status));
			task = sent < tasks ? sent++ : -1;
			done += task < 0;
			T(MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 0, WORLD));
		}
		return;
	}
	for (double result = 0;;) {
		T(MPI_Send(&result, 1, MPI_DOUBLE, 0, 0, WORLD));
		T(MPI_Recv(&task, 1, MPI_INT, 0, 0, WORLD, MPI_STATUS_IGNORE));
		if (task < 0)
			return;
		result = compute(40 + task * 37 % 200);
	}
}

/* Everybody sends large blocks to everybody, and touches them once. */
static void transpose(int rounds)
{
	int block = 1 << 18;
	double *from = calloc(block * ranks, sizeof(double)), *to = calloc(block * ranks, sizeof(double));
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < block * ranks; i++)
			from[i] = sqrt(to[i] + i);
		T(MPI_Alltoall(from, block, MPI_DOUBLE, to, block, MPI_DOUBLE, WORLD));
	}
	free(from), free(to);
}

/* Many small sums, as in a solver; another rank has more to do in each turn. */
static void gradient(int rounds)
{
	double sum = 0, all;
	for (int round = 0; round < rounds * 10; round++) {
		sum += compute(20 * part + (round % ranks == rank ? 20 : 0));
		T(MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, WORLD));
	}
}

static const struct {
	const char *name;
	void (*run)(int rounds);
	int rounds; /* in about a second */
} programs[] = {
    {"stencil", stencil, 250}, {"particles", particles, 170}, {"sweep", sweep, 40},
    {"farm", farm, 65},        {"transpose", transpose, 110}, {"gradient", gradient, 70},
};

int main(int count, char **words)
{
	MPI_Init(&count, &words);
	double begin_s = MPI_Wtime();
	MPI_Comm_rank(WORLD, &rank), MPI_Comm_size(WORLD, &ranks);
	double seconds = count > 2 ? atof(words[2]) : 4.0;
	part = count > 3 ? 8.0 / ranks : 1;
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		if (count > 1 && !strcmp(words[1], programs[i].name))
			programs[i].run((int)(programs[i].rounds * seconds));
	double times[2] = {MPI_Wtime() - begin_s, 0}, all[2 * 256];
	times[1] = times[0] - inside_s;
	MPI_Gather(times, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, WORLD);
	double longest = 0, most = 0, mean = 0;
	for (int i = 0; rank == 0 && i < ranks; i++) {
		longest = fmax(longest, all[2 * i]), most = fmax(most, all[2 * i + 1]), mean += all[2 * i + 1] / ranks;
	}
	if (rank == 0)
		printf("own %.6f %.6f %.6f %.6f\n", mean / longest, mean / most, most / longest, mean * ranks);
	MPI_Finalize();
	return 0;
}
