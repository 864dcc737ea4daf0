#include "slurm/keys.h"

#include "base/rand.h"
#include "http/pki.h"

#include <string.h>

char *td_slurm_key_new(size_t n)
{
	unsigned char *raw = td_malloc(n);
	td_random(raw, n);
	struct td_buf b = {0};
	td_base64(&b, raw, n);
	explicit_bzero(raw, n);
	free(raw);
	return td_buf_take(&b);
}

char *td_slurm_host_key_new(void)
{
	char *pem = td_pki_key_new();
	struct td_buf b = {0};
	td_base64(&b, pem, strlen(pem));
	explicit_bzero(pem, strlen(pem));
	free(pem);
	return td_buf_take(&b);
}

char *td_slurm_key_write(const char *text)
{
	struct td_buf b = {0};
	td_base64(&b, text, strlen(text));
	return td_buf_take(&b);
}

int td_slurm_key_read(const char *base64, struct td_buf *ret, struct td_error *err)
{
	return td_base64_decode(base64, ret, err);
}
