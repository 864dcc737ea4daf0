// Every rank says who it is and where; all add up N numbers (4,096, or what is said), eight times, and the first tells all
// others a word.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 131072 };
static double mine[MOST], sum[MOST];

int main(int argc, char **argv)
{
	int rank, size, len, token = -1, n = argc > 1 ? atoi(argv[1]) : 4096;
	char host[MPI_MAX_PROCESSOR_NAME];

	if (n < 1 || n > MOST)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Get_processor_name(host, &len);
	for (int i = 0; i < n; i++)
		mine[i] = rank + 1;
	for (int i = 0; i < 8; i++)
		MPI_Allreduce(mine, sum, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		token = 7;
	MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
	printf("%d of %d on %s: %.0f %d\n", rank, size, host, sum[n - 1], token);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
