// Keeps in the admin comments of native jobs which fault of their node they met: it stays there when the fault is gone, and
// `sacct` shows it. slurmctld takes it for a job that has not ended, slurmdbd for one that has (docs/facts/slurm.md S-A16).
#include "standin/watch.h"
#include "standin/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COMMAND_MS = 10000, MOST_MS = 30000, COMMENT = 4096, KNOWN = 256, TRIES = 30, SOON_S = 120, SAID = 8 };
static const char mark[] = "tandem: fault on ", digits[] = "0123456789";

static struct faulted_job { // that was written, or was tried so often
	long long id;
	char words[96];
	int tries; // TRIES: no more
} known[KNOWN];
static int next_known;

// Do both say the same? Not but for a figure that moves, as in "/ is full to 96 %": one behind a blank, but an XID's. was goes
// on behind what it says.
static bool says(const char *was, const char *words)
{
	for (const char *p = words;; p++, was++) {
		bool figure = p > words && p[-1] == ' ' && (p - words < 4 || strncmp(p - 4, "XID ", 4) != 0);
		size_t n = figure ? strspn(was, digits) : 0, m = figure ? strspn(p, digits) : 0;
		if (n && m) {
			was += n;
			p += m;
		}
		if (!*p)
			return !strncmp(was, "; seen ", strlen("; seen "));
		if (*was != *p)
			return false;
	}
}

bool td_standin_faulted_text(const char *was, const struct standin_fault *f, char *out, size_t n)
{
	char words[320];
	size_t len = strlen(was), own = strlen(mark) + strlen(f->node);
	int said = 0;
	while (len && was[len - 1] == ' ')
		len--;
	snprintf(words, sizeof(words), "%s%s: %s", mark, f->node, f->words);
	for (const char *p = was; (p = strstr(p, mark)); p += strlen(mark))
		if (++said == SAID || (!strncmp(p, words, own + 2) && says(p + own, words + own)))
			return false;
	int k = snprintf(out, n, "%.*s%s%s; seen %s", (int)len, was, len ? " " : "", words, f->when);
	return k > 0 && (size_t)k < n;
}

// Of a job that has not ended. 1: it stands there. 0: it was written, and is looked at once more, because another node's `watch`
// may write over it. -1: slurmctld does not take it.
static int alive(const char *id, const struct standin_fault *f)
{
	static char was[COMMENT], text[COMMENT], arg[COMMENT + 32];
	char name[48], where[64], why[160];
	if (td_standin_job_text(id, "admin_comment", td_standin_now_ms() + COMMAND_MS,
				(struct standin_text){was, sizeof(was)}, why, sizeof(why)) < 0)
		return -1;
	// A pod's is the bridge's. Its mark is its comment until the admin comment is written.
	if (!*was && td_standin_job_text(id, "comment", td_standin_now_ms() + COMMAND_MS,
					 (struct standin_text){text, sizeof(text)}, why, sizeof(why)) < 0)
		return -1;
	if (!strncmp(*was ? was : text, TD_WIRE_STANDIN, strlen(TD_WIRE_STANDIN)) ||
	    !td_standin_faulted_text(was, f, text, sizeof(text)))
		return 1;
	if (!td_standin_job_name(id, false, td_standin_now_ms() + COMMAND_MS, name, sizeof(name)))
		return -1;
	// What somebody, such as the bridge, wrote meanwhile stays.
	if (td_standin_job_text(id, "admin_comment", td_standin_now_ms() + COMMAND_MS,
				(struct standin_text){was, sizeof(was)}, why, sizeof(why)) < 0)
		return -1;
	if (!td_standin_faulted_text(was, f, text, sizeof(text)))
		return 1;
	snprintf(where, sizeof(where), "jobid=%s", name);
	snprintf(arg, sizeof(arg), "admincomment=%s", text);
	char *said = NULL;
	int r = td_standin_command((char *[]){"scontrol", "update", where, arg, NULL}, false,
				   td_standin_now_ms() + COMMAND_MS, &said, why, sizeof(why));
	free(said);
	return r ? -1 : 0;
}

// The same of one that has ended. True: it stands there, or is not to.
static bool ended(const char *id, const struct standin_fault *f)
{
	static struct standin_run run;
	static char comment[COMMENT], set[COMMENT + 32];
	char name[48], where[64], why[128], *text = NULL;
	int r = td_standin_command((char *[]){"env", "SLURM_TIME_FORMAT=%s", "sacct", "-D", "-X", "-n", "-P", "-j",
					      (char *)id, "-o", "JobIDRaw,Start,End,NodeList,AdminComment", NULL},
				   false, td_standin_now_ms() + COMMAND_MS, &text, why, sizeof(why));
	bool there = !r && text && td_standin_run_read(text, atoll(id), 0, &run);
	free(text);
	if (!there || !run.ended || !run.whole)
		return false;
	// An XID ends its program often, and is found a moment later. What is found long after is not the job's.
	if (strstr(f->words, "last held by") && (long long)time(NULL) - run.end > SOON_S)
		return true;
	if (!strncmp(run.comment, TD_WIRE_STANDIN, strlen(TD_WIRE_STANDIN)) ||
	    !td_standin_faulted_text(run.comment, f, comment, sizeof(comment)))
		return true;
	if (!td_standin_job_name(id, true, td_standin_now_ms() + COMMAND_MS, name, sizeof(name)))
		return false;
	snprintf(where, sizeof(where), "jobid=%s", name);
	snprintf(set, sizeof(set), "AdminComment=%s", comment);
	td_standin_act("watch", (char *[]){"sacctmgr", "-i", "-Q", "modify", "job", "where", where, "set", set, NULL},
		       td_standin_now_ms() + COMMAND_MS);
	return false;
}

static struct faulted_job *known_of(long long id, const char *words)
{
	for (int i = 0; i < KNOWN; i++)
		if (known[i].id == id && !strncmp(known[i].words, words, sizeof(known[i].words) - 1))
			return &known[i];
	struct faulted_job *k = &known[next_known++ % KNOWN];
	*k = (struct faulted_job){.id = id};
	snprintf(k->words, sizeof(k->words), "%s", words);
	return k;
}

void td_standin_faulted(const char *node, const char *list)
{
	static char text[TD_WIRE_LINE];
	const int64_t end = td_standin_now_ms() + MOST_MS; // meanwhile nobody looks for jobs that hang
	char *save = NULL, when[32], id[24];
	const time_t now = time(NULL);
	struct tm tm;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	snprintf(text, sizeof(text), "%s", list);
	text[strcspn(text, " \n")] = '\0';
	for (char *one = strtok_r(text, ",", &save); one && td_standin_now_ms() < end;
	     one = strtok_r(NULL, ",", &save)) {
		char *words = strchr(one, ':');
		long long job = strtoll(one, NULL, 10);
		if (!words || job <= 0)
			continue;
		for (char *p = ++words; *p; p++)
			if (*p == '_')
				*p = ' ';
			else if (*p == '~')
				*p = '_';
			else if (*p == '\'') // slurmdbd would change it
				*p = '`';
		for (char *p = words; (p = strstr(p, " tandem"));)
			*p = '-'; // no sentence of its own
		struct faulted_job *k = known_of(job, words);
		if (k->tries >= TRIES)
			continue;
		const struct standin_fault f = {node, words, when};
		snprintf(id, sizeof(id), "%lld", job);
		int r = alive(id, &f);
		k->tries = r > 0 || (r < 0 && ended(id, &f)) ? TRIES : k->tries + 1;
		if (k->tries == TRIES)
			fprintf(stderr, "tandem watch: job %s met a fault of %s: %s\n", id, node, words);
	}
}
