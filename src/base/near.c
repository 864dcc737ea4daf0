#include "base/near.h"

#include <string.h>

enum { WORD_MOST = 40, BEGINNING = 3 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

// How many letters are to be put in, taken out, replaced or exchanged with their neighbours.
static int distance(const char *a, const char *b)
{
	int d[WORD_MOST + 1][WORD_MOST + 1];
	int n = (int)strlen(a), m = (int)strlen(b);
	if (n > WORD_MOST || m > WORD_MOST)
		return WORD_MOST;
	for (int i = 0; i <= n; i++)
		d[i][0] = i;
	for (int j = 0; j <= m; j++)
		d[0][j] = j;
	for (int i = 1; i <= n; i++)
		for (int j = 1; j <= m; j++) {
			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[n][m];
}

const char *td_nearest(const char *word, const char *const *known, size_t n)
{
	const char *best = NULL;
	size_t len = strlen(word);
	int best_at = (len < 6 ? 1 : (int)len / 3) + 1;
	for (size_t i = 0; i < n; i++) {
		int at = distance(word, known[i]);
		if (!at)
			return NULL;
		if (len >= BEGINNING && !strncmp(word, known[i], len))
			at = 1;
		if (at < best_at) {
			best = known[i];
			best_at = at;
		}
	}
	return best;
}
