// Runs a fuzz target over its corpus as an ordinary test: on every file in the given directories,
// and on prefixes of each file.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return 0;
	uint8_t *buf = malloc(1 << 20);
	size_t n = buf ? fread(buf, 1, 1 << 20, f) : 0;
	fclose(f);
	// Cut the input short at many places, because parsers break at ends.
	for (size_t k = 0; k <= n; k += 1 + n / 64) {
		uint8_t *exact = malloc(k ? k : 1);
		memcpy(exact, buf, k);
		// The heap block has exactly this size, so that ASan sees a read beyond it.
		LLVMFuzzerTestOneInput(exact, k);
		free(exact);
	}
	LLVMFuzzerTestOneInput(buf, n);
	free(buf);
	return 1;
}

int main(int argc, char **argv)
{
	int count = 0;
	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		if (!d)
			continue;
		for (struct dirent *e; (e = readdir(d));) {
			char path[4096];
			if (e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", argv[i], e->d_name);
			count += run_file(path);
		}
		closedir(d);
	}
	printf("%d corpus files\n[  PASSED  ] 1 test(s).\n", count);
	return count ? 0 : 1;
}
