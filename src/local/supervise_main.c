// The program tandem-supervise TANDEM-BINARY; see supervise.c.
#include "local/supervise.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: tandem-supervise TANDEM-BINARY\n`tandem supervise` starts it.\n");
		return 2;
	}
	return td_supervise_keep(argv[1]);
}
