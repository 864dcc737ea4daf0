#include "api/annotations.h"

#include "base/names.h"

#include <signal.h>
#include <string.h>

#define KEY(k) .name = TD_ANN_ASK_PREFIX k

const struct td_annotation td_annotations[TD_ASKS_KEYS] = {
	[TD_ASKS_PARTITION] = {KEY("partition"), TD_ANNOTATION_OWNED, "--partition", "the partition of its job",
			       "the namespace's, else spec.scheduler.defaultPartition, else Slurm's default", "batch"},
	[TD_ASKS_ACCOUNT] = {KEY("account"), TD_ANNOTATION_OWNED, "--account", "the account that is charged",
			     "the namespace's", "physics"},
	[TD_ASKS_QOS] = {KEY("qos"), TD_ANNOTATION_OWNED, "--qos", "the quality of service",
			 "the namespace's, else Slurm's default", "high"},
	[TD_ASKS_TIME_LIMIT] = {KEY("time-limit"), TD_ANNOTATION_TIME, "--time", "for how long it may run",
				"activeDeadlineSeconds and a little more, else the partition's", "2:00:00"},
	[TD_ASKS_CONSTRAINT] = {KEY("constraint"), TD_ANNOTATION_NAMES, "--constraint",
				"features that its node must have", "none", "h100&nvlink"},
	[TD_ASKS_RESERVATION] = {KEY("reservation"), TD_ANNOTATION_NAMES, "--reservation",
				 "the reservation that it runs in", "none", "course"},
	[TD_ASKS_LICENSES] = {KEY("licenses"), TD_ANNOTATION_NAMES, "--licenses",
			      "licenses that it holds while it runs", "none", "matlab:2"},
	[TD_ASKS_NICE] = {KEY("nice"), TD_ANNOTATION_COUNT, "--nice", "how far it steps back in the queue", "0", "100"},
	[TD_ASKS_JOB_NAME] = {KEY("job-name"), TD_ANNOTATION_NAMES, "--job-name",
			      "the name of its job, followed by the pod's UID", "the pod's name", "train"},
	[TD_ASKS_EXCLUSIVE] = {KEY("exclusive"), TD_ANNOTATION_BOOL, "--exclusive", "it has its node for itself",
			       "false", "true"},
	[TD_ASKS_SIGNAL] = {KEY("signal"), TD_ANNOTATION_SIGNAL, "--signal",
			    "the signal by which it hears of its preemption or time limit, and how long before TERM",
			    "TERM only", "USR1@60"},
	[TD_ASKS_GPU_TYPE] = {KEY("gpu-type"), TD_ANNOTATION_NAMES, "--gpus=TYPE:N",
			      "the type of all its GPUs: `sinfo -o %G` shows which there are", "any type", "h100"},
	[TD_ASKS_GPU_SHARE] =
		{KEY("gpu-share"), TD_ANNOTATION_COUNT, "--gres=shard:N",
		 "which part of its one GPU it has, in hundredths, from 6 up, beside others: where NodeSets "
		 "give out such",
		 "100, the whole", "25"},
	[TD_ASKS_BEGIN] = {KEY("begin"), TD_ANNOTATION_WHEN, "--begin", "it does not start before", "at once",
			   "2026-12-24T18:00:00Z"},
	[TD_ASKS_DATASETS] = {KEY("datasets"), TD_ANNOTATION_NAMES, "--constraint=data.NAME",
			      "Datasets of which its node must hold a copy; it finds them at /datasets/NAME", "none",
			      "imagenet,llama"},
	[TD_ASKS_PLACEMENT] = {KEY("placement"), TD_ANNOTATION_PLACEMENT, "--nodes, --ntasks-per-node=1",
			       "where the pods of its gang lie: on the fewest nodes that can hold all of them, or each "
			       "on a node of its own",
			       "as Slurm finds room", "pack"},
	[TD_ASKS_GDS] = {KEY("gds"), TD_ANNOTATION_BOOL, "--constraint=gds",
			 "its node must have GPUDirect Storage, whose device files and settings it gets", "false",
			 "true"},
	[TD_ASKS_SEGMENT] =
		{KEY("segment"), TD_ANNOTATION_COUNT, "--segment",
		 "its gang, each pod on a node of its own, lies in groups of so many nodes, each group in one "
		 "block of the network, such as an NVLink domain",
		 "as Slurm finds room", "4"},
};

static const struct {
	const char *name;
	int number;
} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
	       {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"URG", SIGURG},   {"XCPU", SIGXCPU}};

int td_api_signal_number(const char *name)
{
	for (size_t i = 0; name && i < TD_LEN(signals); i++)
		if (!strcmp(td_starts(name, "SIG") ? name + 3 : name, signals[i].name))
			return signals[i].number;
	return 0;
}

const char *td_api_signal_name(int number)
{
	for (size_t i = 0; i < TD_LEN(signals); i++)
		if (signals[i].number == number)
			return signals[i].name;
	return NULL;
}

int td_api_signal_read(const char *s, int *ret_signal, int64_t *ret_seconds, struct td_error *err)
{
	const char *at = strchr(s, '@');
	td_auto_free char *name = at ? td_strndup(s, (size_t)(at - s)) : td_strdup(s);
	long long seconds = 60; // as sbatch
	int number = td_api_signal_number(name);
	if (!number || (at && (!td_parse_i64(at + 1, &seconds) || seconds < 1 || seconds > 3600)))
		return td_fail(err, TD_INVALID,
			       "\"%.40s\" is no signal: write HUP, INT, QUIT, USR1, USR2, ALRM, URG or XCPU, and "
			       "how many seconds (1 to 3600) before TERM: USR1@60",
			       s);
	*ret_signal = number;
	*ret_seconds = seconds;
	return 0;
}

const char *td_annotation_values(enum td_annotation_form form)
{
	switch (form) {
	case TD_ANNOTATION_TIME:
		return "minutes, H:MM:SS, D-HH, D-HH:MM:SS or UNLIMITED";
	case TD_ANNOTATION_COUNT:
		return "a number from 0 up";
	case TD_ANNOTATION_BOOL:
		return "true or false";
	case TD_ANNOTATION_SIGNAL:
		return "a signal, and seconds up to 3600: USR1@60";
	case TD_ANNOTATION_WHEN:
		return "a time, of UTC or with its zone: 2026-12-24T18:00:00Z";
	case TD_ANNOTATION_PLACEMENT:
		return "pack or spread";
	case TD_ANNOTATION_OWNED:
		return "the namespace's own";
	case TD_ANNOTATION_NAMES:
		break;
	}
	return "text";
}

const char *td_annotation_unknown(const yyjson_val *notes)
{
	yyjson_val *k, *v;
	size_t i, n;
	yyjson_obj_foreach ((yyjson_val *)(uintptr_t)notes, i, n, k, v) {
		bool known = !td_starts(yyjson_get_str(k), TD_ANN_ASK_PREFIX);
		for (size_t j = 0; j < TD_ASKS_KEYS; j++)
			known |= !strcmp(yyjson_get_str(k), td_annotations[j].name);
		if (!known)
			return yyjson_get_str(k);
	}
	return NULL;
}

void td_annotation_page(struct td_buf *b)
{
	td_buf_puts(
		b,
		"# Annotations of pods for Slurm\n\n"
		"What a pod of a SlurmCluster's scheduler may say to Slurm: tandem.dev/v1alpha1. The same words:\n"
		"`tandem annotations`.\n\n"
		"- A key below `" TD_ANN_ASK_PREFIX "` that is not here is refused by name: event and condition of\n"
		"  the pod.\n"
		"- Partition, account and QOS are what the pod's namespace maps to\n"
		"  (`spec.scheduler.namespaces` of the SlurmCluster). A pod may name another partition or QOS only\n"
		"  where its namespace names none, and as account, beside its namespace's, a project that its person\n"
		"  is in ([tenants.md](../tenants.md#projects)). The user is always the namespace's.\n"
		"- Text has letters, digits and ``_.,:&|()*[]=+@/-`` only, at most 256.\n"
		"- Pods that start together or not at all say so by `" TD_LABEL_GANG "`, `" TD_ANN_GANG_SIZE "`,\n"
		"  `" TD_LABEL_GANG_ROLE "`, `" TD_ANN_GANG_MIN "`, `" TD_ANN_GANG_LATER "` and\n"
		"  `" TD_ANN_GANG_LOSS "`: [gangs.md](../gangs.md).\n"
		"- The pod is read when it is submitted. A change of a waiting pod counts for its next job.\n\n"
		"| annotation | as in sbatch | meaning | value | without it | example |\n"
		"| --- | --- | --- | --- | --- | --- |\n");
	for (size_t i = 0; i < TD_ASKS_KEYS; i++) {
		const struct td_annotation *a = &td_annotations[i];
		td_buf_printf(b, "| `%s` | `%s` | %s | %s | %s | `%s` |\n", a->name, a->option, a->meaning,
			      td_annotation_values(a->form), a->without, a->example);
	}
	td_buf_puts(b, "\nAll of them in one pod:\n\n```yaml\nmetadata:\n  annotations:\n");
	for (size_t i = 0; i < TD_ASKS_KEYS; i++)
		td_buf_printf(b, "    %s: \"%s\"\n", td_annotations[i].name, td_annotations[i].example);
	td_buf_puts(b, "```\n\nWritten by `make generate` from `src/api/annotations.c`.\n");
}
