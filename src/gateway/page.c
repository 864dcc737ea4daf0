// The page's files.
#include "gateway/door.h"

#include "base/embedded.h"

#include <string.h>

extern const struct td_embedded td_gateway_files[];

static const struct {
	const char *path, *file, *type;
} files[] = {
	{"/", "index.html", "text/html; charset=utf-8"},
	{"/page.css", "page.css", "text/css; charset=utf-8"},
	{"/icon.svg", "icon.svg", "image/svg+xml"},
	{"/usage.js", "usage.js", "text/javascript; charset=utf-8"},
	{"/page.js", "page.js", "text/javascript; charset=utf-8"},
	{"/terminal.js", "terminal.js", "text/javascript; charset=utf-8"},
	{"/terminal.css", "terminal.css", "text/css; charset=utf-8"},
	{"/xterm.js", "xterm.js", "text/javascript; charset=utf-8"},
	{"/xterm.css", "xterm.css", "text/css; charset=utf-8"},
	{"/xterm-addon-fit.js", "xterm-addon-fit.js", "text/javascript; charset=utf-8"},
};

bool td_gateway_page(struct td_http_x *x)
{
	for (size_t i = 0; i < TD_LEN(files); i++) {
		if (strcmp(td_http_path(x), files[i].path) != 0)
			continue;
		const struct td_embedded *f = td_embedded(td_gateway_files, files[i].file);
		td_http_add_header(x, "Cache-Control", "no-cache");
		td_http_send(x, 200, files[i].type, f->text, f->len);
		return true;
	}
	return false;
}
