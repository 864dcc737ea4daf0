// A profile of system calls as native jobs have it: what is let through is a program that the kernel takes, in which
// every jump leads forwards to a step that is there.
// rows: D3.9
#include "spank/filter.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct td_calls_filter f;
	if (size > 1 << 13 || td_calls_compile((const char *)data, size, &f, NULL))
		return 0;
	for (unsigned i = 0; i < f.n; i++) {
		const struct sock_filter *s = &f.v[i];
		if (BPF_CLASS(s->code) != BPF_JMP)
			continue;
		unsigned far = s->code == (BPF_JMP | BPF_JA) ? s->k : s->jt > s->jf ? s->jt : s->jf;
		if (far >= f.n - i - 1)
			abort();
	}
	if (!f.n || BPF_CLASS(f.v[f.n - 1].code) != BPF_RET)
		abort();
	return 0;
}
