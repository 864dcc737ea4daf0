// Every rank says who it is and where; all add up, and the first tells all others a word.
#include <mpi.h>
#include <stdio.h>

enum { N = 4096 };
static double mine[N], sum[N];

int main(int argc, char **argv)
{
	int rank, size, len, token = -1;
	char host[MPI_MAX_PROCESSOR_NAME];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_processor_name(host, &len);
	for (int i = 0; i < N; i++)
		mine[i] = rank + 1;
	for (int i = 0; i < 4; i++)
		MPI_Allreduce(mine, sum, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		token = 7;
	MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
	printf("%d of %d on %s: %.0f %d\n", rank, size, host, sum[N - 1], token);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
