// The lines of slurm.conf and the files that spec.scripts of a SlurmCluster asks for.
#include "slurm/scripts.h"

#include "base/embedded.h"
#include "slurm/fabric.h"

#include <string.h>
#include <strings.h>

extern const struct td_embedded td_slurm_programs[]; // programs/

#define TASK_PROLOG "task-prolog.sh" // runs Tandem's own and then the site's

const struct td_slurm_role td_slurm_roles[] = {
	// gate.sh runs it when the gate has given the job its devices.
	{"prolog", "prolog", NULL, true, false},
	{"epilog", "epilog", "Epilog", true, false},
	{"taskProlog", "task-prolog", NULL, true, false},
	{"taskEpilog", "task-epilog", "TaskEpilog", true, false},
	{"srunProlog", "srun-prolog", "SrunProlog", true, false},
	{"srunEpilog", "srun-epilog", "SrunEpilog", true, false},
	{"slurmctldProlog", "slurmctld-prolog", "PrologSlurmctld", true, false},
	{"slurmctldEpilog", "slurmctld-epilog", "EpilogSlurmctld", true, false},
	{"healthCheck", "health-check", "HealthCheckProgram", true, false},
	{"mail", "mail", "MailProg", true, false},
	{"jobSubmitLua", TD_SLURM_SITE_LUA, NULL, false, false},
	{"cliFilterLua", "cli_filter.lua", NULL, false, true},
	{"plugstack", "plugstack.conf", NULL, false, true},
};
const size_t td_slurm_n_roles = TD_LEN(td_slurm_roles);

static const char *own(const yyjson_val *cluster, const char *key)
{
	yyjson_obj_iter it = yyjson_obj_iter_with(td_jget(cluster, "spec.config.slurmConf"));
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (!strcasecmp(yyjson_get_str(k), key))
			return yyjson_get_str(k);
	return NULL;
}

static yyjson_val *script(const yyjson_val *cluster, const char *role)
{
	return td_jkey(td_jget(cluster, "spec.scripts"), role);
}

void td_slurm_scripts_check(const yyjson_val *cluster, struct td_strv *problems)
{
	for (size_t i = 0; i < TD_LEN(td_slurm_roles); i++) {
		const struct td_slurm_role *r = &td_slurm_roles[i];
		const char *theirs = r->key ? own(cluster, r->key) : NULL;
		if (theirs && script(cluster, r->name))
			td_strv_addf(problems,
				     "spec.config.slurmConf.%s: spec.scripts.%s is there too; keep one of them", theirs,
				     r->name);
	}
}

const char *td_slurm_scripts_value(const yyjson_val *cluster, const char *key, const char *ours)
{
	bool more = script(cluster, "taskProlog") || td_slurm_fabric(cluster);
	return td_streq(key, "TaskProlog") && more ? TD_SLURM_SITE "/" TASK_PROLOG : ours;
}

const char *td_slurm_scripts_plugin(const yyjson_val *cluster, const char *key)
{
	if (!strcasecmp(key, "JobSubmitPlugins") && script(cluster, "jobSubmitLua"))
		return "lua";
	return !strcasecmp(key, "CliFilterPlugins") && script(cluster, "cliFilterLua") ? "lua" : NULL;
}

void td_slurm_scripts_lines(const yyjson_val *cluster, struct td_buf *b)
{
	for (size_t i = 0; i < TD_LEN(td_slurm_roles); i++) {
		const struct td_slurm_role *r = &td_slurm_roles[i];
		if (r->key && script(cluster, r->name))
			td_buf_printf(b, "%s=" TD_SLURM_SITE "/%s\n", r->key, r->file);
	}
	// Slurm's own default is never.
	if (script(cluster, "healthCheck") && !own(cluster, "HealthCheckInterval"))
		td_buf_puts(b, "HealthCheckInterval=60\n");
	static const char *const lists[] = {"JobSubmitPlugins", "CliFilterPlugins"};
	for (size_t i = 0; i < TD_LEN(lists); i++)
		if (td_slurm_scripts_plugin(cluster, lists[i]) && !own(cluster, lists[i]))
			td_buf_printf(b, "%s=lua\n", lists[i]);
}

const char *td_slurm_text(const struct td_slurm_facts *f, const yyjson_val *ref)
{
	const char *map = td_jstr(ref, "configMap"), *key = td_jstr(ref, "key");
	for (size_t i = 0; i < f->n_texts; i++)
		if (td_streq(f->texts[i].map, map) && td_streq(f->texts[i].key, key))
			return f->texts[i].text;
	return NULL;
}

void td_slurm_files_add(struct td_slurm_files *f, const char *name, const char *text, bool site)
{
	if (f->n == TD_LEN(f->v))
		return;
	f->v[f->n].name = td_strdup(name);
	f->v[f->n].text = td_strdup(text);
	f->v[f->n++].site = site;
}

void td_slurm_plugstack(struct td_slurm_files *f, const char *lines)
{
	for (size_t i = 0; i < f->n; i++) {
		if (!td_streq(f->v[i].name, "plugstack.conf"))
			continue;
		char *both = td_asprintf("%s%s", lines, f->v[i].text);
		free(f->v[i].text);
		f->v[i].text = both;
		return;
	}
	td_slurm_files_add(f, "plugstack.conf", lines, false);
}

static bool includes(const char *text)
{
	for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		const char *p = line + strspn(line, " \t\r");
		if (!strncasecmp(p, "include", 7) && p[7] && strchr(" \t", p[7]))
			return true;
	}
	return false;
}

void td_slurm_scripts_files(const yyjson_val *cluster, const struct td_slurm_facts *f, struct td_slurm_files *ret,
			    struct td_strv *problems)
{
	for (size_t i = 0; i < TD_LEN(td_slurm_roles); i++) {
		const struct td_slurm_role *r = &td_slurm_roles[i];
		yyjson_val *ref = script(cluster, r->name);
		const char *text = ref ? td_slurm_text(f, ref) : NULL;
		if (!text)
			continue;
		if (r->program && !td_starts(text, "#!"))
			td_strv_addf(
				problems,
				"spec.scripts.%s: key %s of ConfigMap %s does not begin with \"#!\", so it cannot be "
				"executed; write for example #!/bin/sh in its first line",
				r->name, td_jstr(ref, "key"), td_jstr(ref, "configMap"));
		if (td_streq(r->name, "plugstack") && includes(text))
			td_strv_addf(problems, "spec.scripts.plugstack: include is not allowed; write the lines "
					       "themselves");
		td_slurm_files_add(ret, r->file, text, !r->conf);
	}
	bool fabric = td_slurm_fabric(cluster);
	if (fabric)
		td_slurm_files_add(ret, "fabric", f->fabric ? f->fabric : "", true);
	if (fabric || script(cluster, "taskProlog"))
		td_slurm_files_add(ret, TASK_PROLOG, td_embedded(td_slurm_programs, TASK_PROLOG)->text, true);
}
