#include "json/record.h"

#include "base/file.h"

int td_record_read(const char *path, struct td_json **ret, struct td_error *err)
{
	td_auto_buf struct td_buf text = {0};
	int r = td_file_read(path, TD_RECORD_MAX, &text, err);
	if (r)
		return r;
	r = td_json_parse(td_buf_str(&text), text.len, ret, err);
	return r ? td_wrap(err, "%s", path) : 0;
}

int td_record_write(const char *path, const yyjson_mut_val *root, mode_t mode, struct td_error *err)
{
	size_t n;
	td_auto_free char *text = td_json_mut_text(root, &n);
	return td_file_write(path, text, n, mode, err);
}
