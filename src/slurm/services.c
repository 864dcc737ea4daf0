// The table and the programs of spec.services of a SlurmCluster, for programs/services.sh.
#include "base/embedded.h"
#include "slurm/scripts.h"

#include <string.h>

extern const struct td_embedded td_slurm_programs[]; // programs/

enum { SERVICES_MAX = 32 };

static yyjson_val *at(yyjson_val *list, const char *name)
{
	yyjson_val *x;
	size_t i, n;
	yyjson_arr_foreach (list, i, n, x)
		if (td_streq(td_jstr(x, "name"), name))
			return x;
	return NULL;
}

// Does it run wherever the other one does?
static bool with(yyjson_val *dep, yyjson_val *x)
{
	const char *a = td_jstr_or(dep, "where", "all"), *b = td_jstr_or(x, "where", "all");
	return td_streq(a, "all") || td_streq(a, b);
}

static void check(yyjson_val *list, size_t i, yyjson_val *x, struct td_strv *problems)
{
	yyjson_val *dep, *command = td_jget(x, "command");
	size_t k, n;
	if (!command == !td_jget(x, "configMap") || !command != !!td_jget(x, "key"))
		td_strv_addf(problems, "spec.services[%zu]: must say what to run: either command, or configMap and key",
			     i);
	yyjson_arr_foreach (td_jget(x, "after"), k, n, dep) {
		yyjson_val *other = at(list, yyjson_get_str(dep));
		if (!other)
			td_strv_addf(problems, "spec.services[%zu].after[%zu]: there is no service \"%.63s\"", i, k,
				     yyjson_get_str(dep));
		else if (!with(other, x))
			td_strv_addf(problems,
				     "spec.services[%zu].after[%zu]: \"%.63s\" does not run everywhere where this one "
				     "does (where)",
				     i, k, yyjson_get_str(dep));
	}
}

static bool has(const struct td_strv *done, yyjson_val *after)
{
	yyjson_val *dep;
	size_t k, n;
	yyjson_arr_foreach (after, k, n, dep)
		if (!td_strv_has(done, yyjson_get_str(dep)))
			return false;
	return true;
}

static void line(yyjson_val *x, struct td_buf *b)
{
	yyjson_val *dep;
	size_t k, n;
	td_buf_printf(b, "%s %s %s %s %s ", td_jstr(x, "name"), td_jstr_or(x, "type", "oneshot"),
		      td_jstr_or(x, "where", "all"), td_jstr_or(x, "timeout", "60s"),
		      td_jstr_or(x, "onFailure", "block"));
	yyjson_arr_foreach (td_jget(x, "after"), k, n, dep)
		td_buf_printf(b, "%s%s", k ? "," : "", yyjson_get_str(dep));
	td_buf_puts(b, n ? "\n" : "-\n");
}

// A program that executes a command, each word quoted for a shell.
static char *program_of(yyjson_val *command)
{
	struct td_buf b = {0};
	yyjson_val *x;
	size_t i, n;
	td_buf_puts(&b, "#!/bin/sh\nexec");
	yyjson_arr_foreach (command, i, n, x) {
		td_buf_putc(&b, ' ');
		td_buf_quote(&b, yyjson_get_str(x));
	}
	td_buf_putc(&b, '\n');
	return td_buf_take(&b);
}

static void file(size_t i, yyjson_val *x, const struct td_slurm_facts *f, struct td_slurm_files *ret,
		 struct td_strv *problems)
{
	yyjson_val *command = td_jget(x, "command");
	td_auto_free char *own = command ? program_of(command) : NULL,
			  *name = td_asprintf("service-%s", td_jstr(x, "name"));
	const char *text = own ? own : td_slurm_text(f, x);
	if (text && !td_starts(text, "#!"))
		td_strv_addf(problems,
			     "spec.services[%zu]: key %s of ConfigMap %s does not begin with \"#!\", so it cannot be "
			     "executed; write for example #!/bin/sh in its first line",
			     i, td_jstr(x, "key"), td_jstr(x, "configMap"));
	if (text)
		td_slurm_files_add(ret, name, text, true);
}

void td_slurm_services_files(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			     struct td_strv *problems)
{
	yyjson_val *list = td_jget(cluster, "spec.services"), *x;
	size_t i, n, before = problems->n;
	td_slurm_files_add(ret, "seff", td_embedded(td_slurm_programs, "seff.sh")->text, true);
	td_slurm_files_add(ret, "services.sh", td_embedded(td_slurm_programs, "services.sh")->text, true);
	if (yyjson_arr_size(list) > SERVICES_MAX) {
		td_strv_addf(problems, "spec.services: %d at most", SERVICES_MAX);
		return;
	}
	yyjson_arr_foreach (list, i, n, x) {
		check(list, i, x, problems);
		file(i, x, f, ret, problems);
	}
	if (problems->n > before)
		return;

	// In the order of their dependencies, and else as they are written.
	td_auto_strv struct td_strv done = {0};
	td_auto_buf struct td_buf table = {0};
	for (size_t found = 1; found;) {
		found = 0;
		yyjson_arr_foreach (list, i, n, x)
			if (!td_strv_has(&done, td_jstr(x, "name")) && has(&done, td_jget(x, "after"))) {
				td_strv_add(&done, td_jstr(x, "name"));
				line(x, &table);
				found = 1;
			}
	}
	yyjson_arr_foreach (list, i, n, x)
		if (!td_strv_has(&done, td_jstr(x, "name")))
			td_strv_addf(problems,
				     "spec.services[%zu].after: \"%.63s\" comes after itself, by way of the others; "
				     "remove one of these",
				     i, td_jstr(x, "name"));
	td_slurm_files_add(ret, "services", td_buf_str(&table), true);
}
