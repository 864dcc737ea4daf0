// Says in a SlurmCluster's own words why slurmctld does not start with a configuration.
#include "slurm/conf.h"
#include "slurm/scripts.h"

#include <string.h>
#include <strings.h>

// True for complaints of every slurmctld that starts without a state, and for those that only say
// that there were others.
static bool idle_talk(const char *line)
{
	static const char *const words[] = {"state file", "Trying backup state", "MailProg is invalid",
					    "Unable to process configuration file",
					    // the trial is without slurmdbd: trial.sh
					    "Job accounting information gathered, but not stored"};
	for (size_t i = 0; i < TD_LEN(words); i++)
		if (strstr(line, words[i]))
			return true;
	return false;
}

// Returns the line from "error: " or "fatal: " on; NULL: it is neither.
static const char *complaint(const char *line)
{
	const char *error = strstr(line, "error: "), *fatal = strstr(line, "fatal: ");
	return fatal && (!error || fatal < error) ? fatal : error;
}

// Is the word in the text, not as a part of a longer one?
static bool has_word(const char *text, const char *word)
{
	static const char part[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = strlen(word);
	for (const char *p = text; n && (p = strcasestr(p, word)); p++)
		if ((p == text || !strchr(part, p[-1])) && (!p[n] || !strchr(part, p[n])))
			return true;
	return false;
}

// Returns the field that the complaints name. The caller frees it; NULL: none was found.
static char *field_of(const yyjson_val *cluster, const char *text)
{
	enum { TELLING = 4 }; // shorter values ("1", "YES") say nothing
	yyjson_val *conf = td_jget(cluster, "spec.config.slurmConf"), *files = td_jget(cluster, "spec.config.files"),
		   *x;
	for (int by_value = 0; by_value < 2; by_value++) {
		yyjson_obj_iter it = yyjson_obj_iter_with(conf);
		for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));) {
			const char *key = yyjson_get_str(k), *value = yyjson_get_str(yyjson_obj_iter_get_val(k));
			const char *word = by_value ? value : key;
			if (word && (!by_value || strlen(word) >= TELLING) && has_word(text, word))
				return td_asprintf("spec.config.slurmConf.%s", key);
		}
	}

	if (strstr(text, TD_SLURM_SITE_LUA) && td_jget(cluster, "spec.scripts.jobSubmitLua"))
		return td_strdup("spec.scripts.jobSubmitLua");

	yyjson_obj_iter it = yyjson_obj_iter_with(files);
	for (yyjson_val *k; (k = yyjson_obj_iter_next(&it));)
		if (strstr(text, yyjson_get_str(k)))
			return td_asprintf("spec.config.files.%s", yyjson_get_str(k));

	size_t i, n;
	yyjson_arr_foreach (td_jget(cluster, "spec.partitions"), i, n, x)
		if (strcasestr(text, "partition") && has_word(text, td_jstr_or(x, "name", "")))
			return td_asprintf("spec.partitions[%zu]", i);
	return NULL;
}

char *td_slurm_refusal(const yyjson_val *cluster, const char *log)
{
	enum { LINES_MAX = 4 };
	td_auto_strv struct td_strv lines = {0}, said = {0};
	td_strv_split(&lines, log, '\n');
	for (size_t i = 0; i < lines.n && said.n < LINES_MAX; i++) {
		const char *line = complaint(lines.v[i]);
		if (line && !idle_talk(line) && !td_strv_has(&said, line))
			td_strv_add(&said, line);
	}

	td_auto_buf struct td_buf text = {0};
	for (size_t i = 0; i < said.n; i++)
		td_buf_printf(&text, "%s%s", i ? "; " : "", said.v[i]);
	// What quotes other people's text must not carry control characters.
	for (size_t i = 0; i < text.len; i++)
		text.s[i] = (unsigned char)text.s[i] < ' ' ? '?' : text.s[i];

	td_auto_free char *field = field_of(cluster, td_buf_str(&text));
	return td_asprintf("%s: slurmctld does not start with it: %s; %s", field ? field : "spec.config",
			   text.len ? td_buf_str(&text) : "it gave no reason",
			   field ? "correct it, or remove it" : "correct what this names");
}
