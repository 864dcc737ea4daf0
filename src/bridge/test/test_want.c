// A pod as a job of Slurm's, and the settings for that.
// rows: A6.2 A18.2
#include "bridge/bridge.h"
#include "bridge/scheduler/ran.h"
#include "bridge/scheduler/turns.h"
#include "bridge/scheduler/want.h"
#include "bridge/test/given.h"
#include "pool/allowed.h"
#include "pool/notes.h"
#include "slurm/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UID "5c7f65f6-fdda-46b5-a964-0787cf79ec1d"

static struct td_settings *settings(const char *scheduler)
{
	td_auto_free char *spec = td_asprintf("{\"scheduler\":%s}", scheduler);
	return given_settings(spec);
}

#define MAPPED                                                                                                         \
	"{\"schedulerName\":\"tandem\",\"endGrace\":\"1m\",\"gresMap\":{\"nvidia.com/gpu\":\"gpu\",\"amd.com/"         \
	"gpu\":\"gpu:mi300\"},\"namespaces\":["                                                                        \
	"{\"namespace\":\"ml\",\"user\":\"alice\",\"account\":\"acc\",\"partition\":\"p\",\"qos\":\"q\"},{"            \
	"\"namespace\":\"*\",\"user\":"                                                                                \
	"\"pods\"}]}"

static void test_settings(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED), *d = settings("{}");
	struct td_owner o;

	assert_int_equal(s->end_grace_s, 60);
	assert_true(td_settings_owner(s, "ml", &o));
	assert_string_equal(o.user, "alice");
	assert_string_equal(o.account, "acc");
	assert_string_equal(o.partition, "p");
	assert_string_equal(o.qos, "q");

	assert_true(td_settings_owner(s, "other", &o));
	assert_string_equal(o.user, "pods");
	assert_null(o.account);

	td_auto(td_settings_unref) struct td_settings *known =
		given_settings("{\"users\":[{\"name\":\"pods\",\"uid\":4711}],\"scheduler\":" MAPPED "}");
	assert_true(td_settings_owner(known, "other", &o));
	assert_int_equal(o.uid, 4711);
	assert_false(o.unknown);
	assert_true(td_settings_owner(known, "ml", &o));
	assert_true(!o.uid && o.unknown);
	td_auto(td_settings_unref) struct td_settings *directory = given_settings(
		"{\"users\":[{\"name\":\"pods\",\"uid\":4711}],\"identity\":{\"ldap\":{}},\"scheduler\":" MAPPED "}");
	assert_true(td_settings_owner(directory, "ml", &o));
	assert_true(!o.uid && !o.unknown);
	assert_string_not_equal(known->text, s->text);

	assert_false(td_settings_owner(d, "ml", &o)); // an unmapped namespace has no user
	assert_int_equal(d->end_grace_s, 30);
	assert_string_equal(d->scheduler, "tandem");
	assert_int_equal(d->n_gres, 1);
	assert_string_equal(d->gres[0].resource, "nvidia.com/gpu");
	td_auto(td_settings_unref) struct td_settings *nics =
		given_settings("{\"fabric\":{\"nics\":{\"grant\":true}},\"scheduler\":{\"gresMap\":{\"a/"
			       "b\":\"nic\",\"x/gpu\":\"gpu\"}}}");
	assert_int_equal(nics->n_gres, 2); // one name for adapters, so that nobody takes them for GPUs
	assert_string_equal(td_settings_key(nics, "nic"), "tandem.dev/nic");
}

// Whose pods are in a Tenant that says spec.perUser.pods: its members', and of nobody else.
static void test_people(void **state)
{
	static const char cluster[] =
		"{\"metadata\":{\"uid\":\"c1\"},\"spec\":{\"users\":[{\"name\":\"pods\",\"uid\":2000},{\"name\":"
		"\"alice\","
		"\"uid\":1001},{\"name\":\"bob\",\"uid\":1002}],\"scheduler\":{\"defaultUser\":\"pods\"}}}";
	static const char tenant[] =
		"{\"metadata\":{\"name\":\"physics\"},\"spec\":{\"perUser\":{\"pods\":%s},\"members\":[{\"user\":"
		"\"alice\"},"
		"{\"user\":\"bob\",\"kubernetesUser\":\"bob@uni\"},{\"user\":\"pods\",\"role\":\"viewer\"},{\"user\":"
		"\"gone\"}]},"
		"\"status\":{\"account\":\"phys\",\"namespaces\":[{\"name\":\"lab\",\"user\":\"pods\"}]}}";
	td_auto_free char *with = td_asprintf(tenant, "true"), *without = td_asprintf(tenant, "false");
	td_auto(td_json_unref) struct td_json *c = given_json(cluster), *t = given_json(with), *f = given_json(without);
	const yyjson_val *one = td_json_root(t), *other = td_json_root(f);
	td_auto(td_settings_unref) struct td_settings *s =
		td_settings_read_with(td_json_root(c), &(const struct td_tenant_list){&one, 1});
	td_auto(td_settings_unref) struct td_settings *plain =
		td_settings_read_with(td_json_root(c), &(const struct td_tenant_list){&other, 1});
	static const struct {
		const char *ns, *person, *user;
	} t_[] = {{"lab", "alice", "alice"}, {"lab", "bob@uni", "bob"}, {"lab", "bob", "pods"}, {"lab", NULL, "pods"},
		  {"lab", "admin", "pods"},  {"lab", "gone", "pods"}, // Slurm has no such user
		  {"else", "alice", "pods"}};
	struct td_owner o;
	for (size_t i = 0; i < TD_LEN(t_); i++) {
		assert_true(td_settings_owner_of(s, t_[i].ns, t_[i].person, &o));
		assert_string_equal(o.user, t_[i].user);
		assert_string_equal(o.account, strcmp(t_[i].ns, "lab") ? "open" : "phys");
	}
	assert_true(td_settings_owner_of(s, "lab", "alice", &o));
	assert_int_equal(o.uid, 1001);
	assert_true(td_settings_owner_of(plain, "lab", "alice", &o));
	assert_string_equal(o.user, "pods");
	assert_string_not_equal(plain->text, s->text);

	// A comment that bob has copied makes no job of his alice's pod's.
	struct td_slurm_job job = {.user = (char *)(uintptr_t)"bob"};
	assert_true(td_bridge_job_stands(s, &job, "lab", "bob@uni"));
	assert_false(td_bridge_job_stands(s, &job, "lab", "alice"));
	assert_false(td_bridge_job_stands(s, &job, "lab", NULL));
}

static struct td_json *pod(const char *ns, const char *notes, const char *requests, const char *more)
{
	td_auto_free char *s = td_asprintf("{\"metadata\":{\"name\":\"a-pod-whose-name-is-longer-than-forty-"
					   "characters\",\"namespace\":\"%s\",\"uid\":\"" UID
					   "\",\"annotations\":{%s}},\"spec\":{%s\"containers\":[{\"name\":\"m\","
					   "\"resources\":{\"requests\":{%s}}}]}}",
					   ns, notes, more, requests);
	return given_json(s);
}

// A pod in the namespace of a Tenant whose account is not in place yet waits for that; nothing about it is wrong.
static void test_new_tenant(void **state)
{
	td_auto(td_json_unref) struct td_json *c = given_json("{\"spec\":{\"scheduler\":{\"defaultUser\":\"u\"}}}"),
					      *t = given_json("{\"metadata\":{\"name\":\"lab\",\"generation\":1}}");
	const yyjson_val *one = td_json_root(t);
	td_auto(td_settings_unref) struct td_settings *s =
		td_settings_read_with(td_json_root(c), &(const struct td_tenant_list){&one, 1});
	td_auto(td_json_unref) struct td_json *p = pod("lab", "", "", ""), *other = pod("else", "", "", "");
	td_auto_want struct td_want w = {0}, w2 = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, &err), TD_NOT_FOUND);
	assert_non_null(strstr(err.msg, "kubectl describe tenant lab"));
	assert_int_equal(td_want_read(s, "x", td_json_root(other), 0, &w2, &err), 0);
}

// A part of a GPU is as large as the gate has places for.
static void test_parts(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings("{\"defaultUser\":\"u\"}");
	static const struct {
		const char *said, *ask; // ask NULL: it is refused
	} parts[] = {{"25", "gres/shard:25"},
		     {"6", "gres/shard:6"},
		     {"100", "gres/shard:100"},
		     {"5", NULL},
		     {"0", NULL},
		     {"101", NULL},
		     {"a", NULL}};
	for (size_t i = 0; i < TD_LEN(parts); i++) {
		td_auto_free char *notes = td_asprintf("\"slurm.tandem.dev/gpu-share\":\"%s\"", parts[i].said);
		td_auto(td_json_unref) struct td_json *p = pod("ml", notes, "\"nvidia.com/gpu\":\"1\"", "");
		td_auto_want struct td_want w = {0};
		struct td_error err = TD_ERROR_INIT;
		int r = td_want_read(s, "x", td_json_root(p), 0, &w, &err);
		assert_int_equal(r, parts[i].ask ? 0 : TD_INVALID);
		if (parts[i].ask)
			assert_string_equal(w.ask.tres_per_node, parts[i].ask);
	}
}

static void test_want(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED);
	struct td_error err = TD_ERROR_INIT;

	{
		td_auto(td_json_unref) struct td_json *p =
			pod("ml", "", "\"cpu\":\"1500m\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"2\"", "");
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, &err), 0);
		assert_string_equal(w.ask.name, "a-pod-whose-name-is-longer-than-forty-ch." UID);
		assert_string_equal(w.ask.comment,
				    "tandem/c1/ml/a-pod-whose-name-is-longer-than-forty-characters/" UID);
		assert_int_equal(w.ask.cpus, 2);
		assert_int_equal(w.ask.memory_mb, 1024);
		assert_string_equal(w.ask.tres_per_node, "gres/gpu:2");
		assert_string_equal(w.ask.account, "acc");
		assert_string_equal(w.ask.partition, "p");
		assert_int_equal(w.pool.gres[0], 2);
		assert_string_equal(w.kinds[0], "gpu");
	}

	{
		td_auto(td_json_unref) struct td_json *p =
			pod("x",
			    "\"slurm.tandem.dev/partition\":\"fast\",\"slurm.tandem.dev/"
			    "time-limit\":\"1-12\",\"slurm.tandem.dev/nice\":\"5\",\"slurm.tandem.dev/"
			    "exclusive\":\"true\",\"slurm.tandem.dev/job-name\":\"train\",\"slurm.tandem.dev/"
			    "constraint\":\"a&(b|c)\"",
			    "\"amd.com/gpu\":\"1\"", "\"activeDeadlineSeconds\":60,");
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, &err), 0);
		assert_string_equal(w.ask.name, "train." UID);
		assert_string_equal(w.ask.partition, "fast");
		assert_int_equal(w.ask.time_limit_min, 36 * 60); // the annotation, not the deadline
		assert_int_equal(w.ask.nice, 5);
		assert_true(w.ask.exclusive);
		assert_string_equal(w.ask.tres_per_node, "gres/gpu:mi300:1");
		assert_int_equal(w.ask.cpus, 1);
		assert_int_equal(w.ask.memory_mb, 1); // without it the job would take all memory
	}

	{
		td_auto(td_json_unref) struct td_json *p = pod("x", "", "", "\"activeDeadlineSeconds\":90,");
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, &err), 0);
		assert_int_equal(w.ask.time_limit_min, 3);
		assert_null(w.ask.tres_per_node);
	}

	{ // more than can be counted is no room of nothing
		td_auto(td_json_unref) struct td_json *p =
			pod("x", "", "\"cpu\":\"9223372036854775807m\",\"memory\":\"9223372036854775807\"", "");
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, &err), 0);
		assert_true(w.ask.cpus == INT64_MAX / 1000 + 1 && w.ask.memory_mb == INT64_MAX / (1 << 20) + 1);
	}
}

static void refused(const struct td_settings *s, struct td_json *p, const char *words)
{
	td_auto(td_json_unref) struct td_json *own = p;
	td_auto_want struct td_want w = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_want_read(s, "SlurmCluster slurm/main", td_json_root(own), 0, &w, &err), TD_INVALID);
	if (!strstr(err.msg, words))
		fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
}

// A PriorityClass gives a QOS where neither namespace nor pod says one, and only to its namespaces.
static void test_class_is_qos(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(
		"{\"namespaces\":[{\"namespace\":\"own\",\"user\":\"u\",\"qos\":\"theirs\"},{\"namespace\":\"*\","
		"\"user\":\"pods\"}],\"priorityClassMap\":[{\"priorityClass\":\"hot\",\"qos\":\"urgent\","
		"\"namespaces\":[\"a\",\"own\"]},{\"priorityClass\":\"cold\",\"qos\":\"patient\"}]}");
	static const char hot[] = "\"priorityClassName\":\"hot\",", cold[] = "\"priorityClassName\":\"cold\",",
			  other[] = "\"priorityClassName\":\"other\",";
	static const struct {
		const char *ns, *notes, *more, *qos; // qos NULL: refused
	} cases[] = {
		{"a", "", hot, "urgent"},
		{"b", "", hot, NULL},
		{"b", "", cold, "patient"},
		{"b", "", other, ""},
		{"b", "\"slurm.tandem.dev/qos\":\"URGENT\"", "", NULL},
		{"a", "\"slurm.tandem.dev/qos\":\"patient\"", hot, "patient"},
		{"b", "\"slurm.tandem.dev/qos\":\"some\"", hot, "some"},
		{"own", "", hot, "theirs"},
	};
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *p = pod(cases[i].ns, cases[i].notes, "", cases[i].more);
		td_auto_want struct td_want w = {0};
		struct td_error e = TD_ERROR_INIT;
		int r = td_want_read(s, "s", td_json_root(p), 0, &w, &e);
		assert_int_equal(r, cases[i].qos ? 0 : TD_INVALID);
		if (cases[i].qos)
			assert_string_equal(w.ask.qos ? w.ask.qos : "", cases[i].qos);
		else
			assert_non_null(strstr(e.msg, "pods of namespace b may not have the QOS"));
	}
}

static void test_priority_is_nice(void **state)
{
	static const struct {
		const char *notes, *spec;
		int nice;
	} cases[] = {
		{"", "", 0},
		{"", "\"priority\":1000,", -1000},
		{"", "\"priority\":-7,", 7},
		{"\"slurm.tandem.dev/nice\":\"100\"", "\"priority\":30,", 70},
		{"\"slurm.tandem.dev/nice\":\"2147483645\"", "\"priority\":-30,", 2147483645},
		{"", "\"priority\":2000001000,", -1000000000},
	};
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED);
	for (size_t i = 0; i < TD_LEN(cases); i++) {
		td_auto(td_json_unref) struct td_json *p = pod("x", cases[i].notes, "", cases[i].spec);
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_nice(td_json_root(p)), cases[i].nice);
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 0, &w, NULL), 0);
		assert_int_equal(w.ask.nice, cases[i].nice > 0 ? cases[i].nice : 0); // a plain user asks for no less
	}
}

static void test_refusals_say_the_fix(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED), *none = settings("{}");
	refused(none, pod("ml", "", "", ""), "add it to spec.scheduler.namespaces of SlurmCluster slurm/main");
	refused(s, pod("x", "", "\"vendor.example/fpga\":\"1\"", ""),
		"add it to spec.scheduler.gresMap of SlurmCluster slurm/main");
	refused(s, pod("x", "\"slurm.tandem.dev/partition\":\"a b\"", "", ""), "slurm.tandem.dev/partition");
	refused(s, pod("x", "\"slurm.tandem.dev/partition\":\"a\\nb\"", "", ""), "slurm.tandem.dev/partition");
	refused(s, pod("x", "\"slurm.tandem.dev/qos\":\"\"", "", ""), "slurm.tandem.dev/qos");
	refused(s, pod("x", "\"slurm.tandem.dev/nice\":\"-5\"", "", ""), "from 0 up");
	refused(s, pod("x", "\"slurm.tandem.dev/priority\":\"5\"", "", ""),
		"slurm.tandem.dev/priority: there is no such key");
	refused(s, pod("x", "\"slurm.tandem.dev/user\":\"root\"", "", ""), "tandem annotations");
	refused(s, pod("ml", "\"slurm.tandem.dev/account\":\"teamb\"", "", ""),
		"\"teamb\" is not what namespace ml is given (acc)");
	refused(s, pod("ml", "\"slurm.tandem.dev/partition\":\"fast\"", "", ""),
		"is not what namespace ml is given (p)");
	refused(s, pod("ml", "\"slurm.tandem.dev/qos\":\"high\"", "", ""), "is not what namespace ml is given (q)");
	refused(s, pod("x", "\"slurm.tandem.dev/account\":\"teamb\"", "", ""),
		"namespace x is given no account, so \"teamb\" is refused: leave it out, or add it to "
		"spec.scheduler.namespaces of SlurmCluster slurm/main");
	refused(s, pod("x", "\"slurm.tandem.dev/exclusive\":\"yes\"", "", ""), "\"true\" or \"false\"");
	refused(s, pod("x", "\"slurm.tandem.dev/time-limit\":\"soon\"", "", ""), "D-HH");
}

// Which projects a pod may be charged to. rows: C10.3
static void test_projects(void **state)
{
	static const char cluster[] =
		"{\"metadata\":{\"uid\":\"c1\"},\"spec\":{\"users\":[{\"name\":\"pods\",\"uid\":2000},{\"name\":"
		"\"alice\",\"uid\":1001}],\"scheduler\":{\"defaultUser\":\"pods\",\"namespaces\":[{\"namespace\":"
		"\"sessions-alice\",\"user\":\"alice\"},{\"namespace\":\"sessions-bob\",\"user\":\"bob\"},"
		"{\"namespace\":\"*\",\"user\":\"alice\"}]},\"resourceGroups\":[{\"name\":\"fast\"}]}}";
	static const char *const tenants[] = {
		"{\"metadata\":{\"name\":\"physics\"},\"spec\":{\"members\":[{\"user\":\"alice\"}]},"
		"\"status\":{\"account\":\"phys\",\"namespaces\":[{\"name\":\"lab\",\"user\":\"pods\"}]}}",
		"{\"metadata\":{\"name\":\"bio\"},\"spec\":{\"members\":[{\"user\":\"alice\"}]},"
		"\"status\":{\"account\":\"bio\",\"namespaces\":[{\"name\":\"wet\",\"user\":\"pods\"}]}}",
		"{\"metadata\":{\"name\":\"physics.q\"},\"spec\":{\"parent\":\"physics\",\"namespaces\":[],\"members\":"
		"[{"
		"\"user\":\"alice\",\"kubernetesUser\":\"alice@uni\"},{\"user\":\"boss\",\"role\":\"viewer\"}]},"
		"\"status\":{\"account\":\"physics.q\"}}",
		"{\"metadata\":{\"name\":\"physics.new\"},\"spec\":{\"parent\":\"physics\",\"namespaces\":[],"
		"\"members\":["
		"{\"user\":\"alice\",\"kubernetesUser\":\"alice@uni\"}]}}",
		"{\"metadata\":{\"name\":\"lenses\"},\"spec\":{\"parent\":\"physics\",\"namespaces\":[],"
		"\"resourceGroups\":[\"fast\"],\"members\":[{\"user\":\"alice\"}]},"
		"\"status\":{\"account\":\"lenses\",\"qos\":\"lenses.quota,lenses.borrowed\"}}"};
	td_auto(td_json_unref) struct td_json *c = given_json(cluster);
	struct td_json *t[TD_LEN(tenants)];
	const yyjson_val *list[TD_LEN(tenants)];
	for (size_t i = 0; i < TD_LEN(tenants); i++)
		list[i] = td_json_root(t[i] = given_json(tenants[i]));
	td_auto(td_settings_unref) struct td_settings *s =
		td_settings_read_with(td_json_root(c), &(const struct td_tenant_list){list, TD_LEN(tenants)});
	const struct {
		const char *ns, *person, *account;
		enum td_settings_may may;
	} t_[] = {
		{"lab", "alice@uni", "physics.q", TD_PROJECT_MAY},
		{"lab", "alice", "physics.q", TD_PROJECT_STRANGER}, // not his name in Kubernetes
		{"lab", "bob", "physics.q", TD_PROJECT_STRANGER},
		{"lab", "boss", "physics.q", TD_PROJECT_STRANGER}, // he only looks
		{"lab", NULL, "physics.q", TD_PROJECT_STRANGER},
		{"wet", "alice@uni", "physics.q", TD_PROJECT_NOT},   // another Tenant's
		{"lab", "alice@uni", "physics.new", TD_PROJECT_NOT}, // its account is not there yet
		{"lab", "alice@uni", "bio", TD_PROJECT_NOT},         // no project
		{"lab", "alice@uni", "phys", TD_PROJECT_NOT},
		{"sessions-alice", NULL, "physics.q", TD_PROJECT_MAY},
		{"sessions-alice", "bob", "physics.q", TD_PROJECT_MAY}, // all that is there is alice's
		{"sessions-bob", "alice@uni", "physics.q", TD_PROJECT_STRANGER},
		{"else", "alice@uni", "physics.q", TD_PROJECT_NOT}, // of everybody
	};
	for (size_t i = 0; i < TD_LEN(t_); i++)
		assert_int_equal(td_settings_project(s, t_[i].ns, t_[i].person, t_[i].account, NULL), t_[i].may);
	// A pod has the QOS and the groups of the account that it is charged to.
	td_auto(td_json_unref) struct td_json *p =
		given_json("{\"metadata\":{\"name\":\"p\",\"namespace\":\"lab\",\"uid\":\"" UID
			   "\",\"annotations\":{\"tandem.dev/user\":\"alice\",\"slurm.tandem.dev/account\":\"lenses\","
			   "\"slurm.tandem.dev/partition\":\"fast\"}},\"spec\":{\"containers\":[{\"name\":\"c\"}]}}");
	td_auto_want struct td_want w = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_want_read(s, "main", td_json_root(p), 0, &w, &err))
		fail_msg("%s", err.msg);
	assert_string_equal(w.ask.account, "lenses");
	assert_string_equal(w.ask.partition, "fast");
	assert_string_equal(w.ask.qos, "lenses.quota,lenses.borrowed");
	td_auto(td_settings_unref) struct td_settings *fewer =
		td_settings_read_with(td_json_root(c), &(const struct td_tenant_list){list, 2});
	assert_string_not_equal(fewer->text, s->text);
	for (size_t i = 0; i < TD_LEN(tenants); i++)
		td_json_unref(t[i]);
}

static void limit(const char *s, int64_t min)
{
	int64_t got = -1;
	int r = td_bridge_time_limit(s, &got, NULL);
	if (min < 0 ? r != TD_INVALID || got != -1 : r || got != min)
		fail_msg("%s: %d, %lld", s, r, (long long)got);
}

static void test_time_limits(void **state)
{
	limit("90", 90);
	limit("1:30", 2); // one minute, thirty seconds
	limit("2:00:00", 120);
	limit("1-12", 36 * 60);
	limit("1-12:30", 36 * 60 + 30);
	limit("1-00:00:01", 24 * 60 + 1);
	limit("UNLIMITED", 0);
	limit("0", -1);
	limit("", -1);
	limit("-5", -1);
	limit("1-", -1);
	limit("1-2-3", -1);
	limit("1:2:3:4", -1);
	limit("5x", -1);
	limit("99999999999999999999", -1);
}

static const char *uid_of(const char *admin, const char *comment)
{
	const struct td_slurm_job j = {.admin_comment = (char *)(uintptr_t)admin,
				       .comment = (char *)(uintptr_t)comment};
	return td_bridge_job_uid(&j, "c1");
}

static void test_whose_job(void **state)
{
	assert_string_equal(uid_of("tandem/c1/" UID, ""), UID);
	assert_string_equal(uid_of("", "tandem/c1/" UID), UID); // right after the submit
	assert_string_equal(uid_of("", "tandem/c1/ml/train-0/" UID), UID);
	assert_null(uid_of("", "tandem/c1/ml/" UID));
	assert_null(uid_of("", "tandem/c1/ml/train-0/x/" UID));
	assert_null(uid_of("", "tandem/c1/" UID "/"));
	assert_null(uid_of("", "tandem/c2/ml/train-0/" UID));
	assert_string_equal(uid_of("tandem/c1/ml/pod=a&service=Deployment%2Fweb&end=failed&busy=1&idle=2/" UID, "x"),
			    UID);
	assert_null(uid_of("tandem/c2/ml/pod=a/" UID, "tandem/c1/" UID)); // another SlurmCluster's
	assert_null(uid_of("somebody's", "tandem/c1/" UID));              // the admin comment decides
	assert_null(uid_of("tandem/c2/" UID, ""));
	assert_null(uid_of("tandem/c1/" UID "x", ""));
	assert_null(uid_of("tandem/c1/not-a-uid", ""));
	assert_null(uid_of("", ""));
	assert_null(uid_of(NULL, NULL));

	// The user counts only while there is no admin comment.
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED), *d = settings("{}");
	struct td_slurm_job job = {.user = (char[]){"alice"}};
	assert_true(td_bridge_job_stands(s, &job, "ml", NULL));
	assert_false(td_bridge_job_stands(s, &job, "other", NULL));
	assert_false(td_bridge_job_stands(d, &job, "ml", NULL)); // nobody's namespace
	job.user = NULL;
	assert_false(td_bridge_job_stands(s, &job, "ml", NULL));
	assert_false(td_bridge_job_stands(d, &job, "ml", NULL));
	job.admin_comment = (char[]){"tandem/c1/" UID};
	assert_true(td_bridge_job_stands(s, &job, "ml", NULL));
}

static void devices(const struct td_settings *s, const char *gres, const char *want)
{
	const struct td_slurm_job_node n = {.name = (char *)(uintptr_t)"n0", .gres = (char *)(uintptr_t)gres};
	td_auto_free char *got = NULL;
	int r = td_devices_text(s, &n, NULL, &got, NULL);
	if (want ? r || strcmp(got, want) != 0 : r != TD_INVALID)
		fail_msg("%s: %d %s", gres, r, got ? got : "");
}

// Devices of two vendors are the same GRES: a grant calls them as its node's share does.
static void test_vendors(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s =
		given_settings("{\"devices\":[{\"resource\":\"nvidia.com/gpu\"},{\"resource\":\"amd.com/"
			       "gpu\"}],\"scheduler\":{\"gresMap\":"
			       "{\"nvidia.com/gpu\":\"gpu\",\"amd.com/gpu\":\"gpu\"},\"defaultUser\":\"pods\"}}");
	td_auto(td_json_unref) struct td_json *amd = given_json("{\"metadata\":{\"annotations\":{\"" TD_ANN_SHARE
								"\":\"{\\\"cpu\\\":\\\"4\\\",\\\"amd.com/gpu\\\":"
								"\\\"4\\\"}\"}}}"),
					      *bare = given_json("{\"metadata\":{}}");
	assert_string_equal(td_settings_resource(s, td_json_root(amd)), "amd.com/gpu");
	assert_string_equal(td_settings_resource(s, td_json_root(bare)), "nvidia.com/gpu");
	const struct td_slurm_job_node n = {.name = (char *)(uintptr_t)"n1",
					    .gres = (char *)(uintptr_t)"gpu:mi300x:2(IDX:0,3)"};
	td_auto_free char *there = NULL, *unknown = NULL;
	assert_int_equal(td_devices_text(s, &n, td_json_root(amd), &there, NULL), 0);
	assert_string_equal(there, "{\"amd.com/gpu\":\"0,3\"}");
	assert_int_equal(td_devices_text(s, &n, NULL, &unknown, NULL), 0);
	assert_string_equal(unknown, "{\"nvidia.com/gpu\":\"0,3\"}");

	td_auto(td_json_unref) struct td_json *p = pod("ml", "", "\"amd.com/gpu\":\"2\"", ""),
					      *two = pod("ml", "", "\"amd.com/gpu\":\"2\",\"nvidia.com/gpu\":\"1\"",
							 "");
	assert_string_equal(td_settings_asked(s, td_json_root(p)), "amd.com/gpu");
	assert_true(td_devices_cover(s, td_json_root(p), 0, there));
	assert_false(td_devices_cover(s, td_json_root(p), 0, "{\"amd.com/gpu\":\"0\"}"));
	assert_false(td_devices_cover(s, td_json_root(p), 0, "{\"nvidia.com/gpu\":\"0-1\"}")); // as many, another's
	td_auto_want struct td_want w = {0};
	struct td_error e = TD_ERROR_INIT;
	assert_int_equal(td_want_read(s, "main", td_json_root(two), 0, &w, &e), TD_INVALID); // not of both vendors
	assert_non_null(strstr(e.msg, "two types of gpu"));
}

static void stands_at(const char *line, const char *ns, const char *kind, const char *notes)
{
	td_auto_free char *text =
		td_asprintf("{\"metadata\":{\"name\":\"p\",\"namespace\":\"%s\",\"uid\":\"" UID
			    "\",\"annotations\":{%s},\"ownerReferences\":[{\"apiVersion\":\"%s\",\"kind\":\"%s\","
			    "\"name\":\"j\",\"uid\":\"u1\",\"controller\":true}]}}",
			    ns, notes, td_streq(kind, "Job") ? "batch/v1" : "apps/v1", kind);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	td_auto(td_object_unref) struct td_object *o = td_object_kept(td_json_root(j));
	td_auto_strv struct td_strv got = {0};
	td_turns_index(o, &got);
	assert_int_equal(got.n, line ? 1 : 0);
	if (line)
		assert_string_equal(got.v[0], line);
}

// What ran before is known by marks that only Slurm's operators write, each run once, and of nobody else's line.
static void test_used(void **state)
{
	struct td_bridge b = {.clock = &td_clock_system, .asks = td_asks_new(), .ran = td_ran_new()};
	struct td_notes n = {.ns = "ml", .pod = "web-0", .user = "bob", .line = "u1/web-0"};
	td_auto_free char *mark = td_notes_mark("tandem/", "c1", &n, UID), *key = td_ran_key("ml", "u1/web-0", "bob"),
			  *line = td_ran_line(mark, "c1"), *other = td_ran_line(mark, "c2"),
			  *forged = td_ran_line("tandem/c1/ml/web-0/" UID, "c1");
	assert_string_equal(line, key);
	assert_null(other);
	assert_null(forged);
	td_auto_free char *end = td_asprintf("tandem/c1/ml/pod=web-0&line=u1%%2Fweb-0&user=eve/" UID);
	struct td_slurm_run v[] = {{.id = 7, .start = 100, .end = 160, .admin_comment = mark},
				   {.id = 7, .start = 100, .end = 160, .admin_comment = mark}, // read once more
				   {.id = 8, .start = 200, .end = 230, .admin_comment = mark},
				   {.id = 9, .start = 300, .end = 0, .admin_comment = mark}, // it runs
				   {.id = 10, .start = 0, .end = 310, .admin_comment = mark},
				   {.id = 11, .start = 300, .end = 320, .admin_comment = end}}; // another person's
	const struct td_slurm_runs runs = {v, TD_LEN(v)};
	td_ran_take(b.ran, "c1", &runs);
	const int64_t not[] = {8};
	td_auto_free struct td_pool_slice_pod *all = NULL, *less = NULL, *now = NULL, *none = NULL;
	assert_int_equal(td_ran_of(&b, key, NULL, 0, 1000, &all), 2);
	assert_int_equal(td_pool_slice_turn(10, all, 2).used_s, 90);
	assert_int_equal(td_ran_of(&b, key, not, 1, 1000, &less), 1);
	assert_int_equal(td_ran_of(&b, "ml/u2/web-0/bob", NULL, 0, 1000, &none), 0);

	// What this bridge saw itself: with an end at once; slurmdbd knows it better.
	int64_t s = td_real_ms(b.clock) / 1000;
	td_ran_saw(&b, key, 12, s - 50, 0);
	td_ran_saw(&b, key, 12, s - 50, s - 20);
	td_ran_saw(&b, key, 12, s - 50, s);
	td_ran_saw(&b, NULL, 13, s - 50, 0);
	assert_int_equal(td_ran_of(&b, key, NULL, 0, s, &now), 3);
	assert_int_equal(td_pool_slice_turn(10, now, 3).used_s, 120);
	free(now);
	now = NULL;
	v[0] = (struct td_slurm_run){.id = 12, .start = s - 50, .end = s - 25, .admin_comment = mark};
	td_ran_take(b.ran, "c1", &(const struct td_slurm_runs){v, 1});
	assert_int_equal(td_ran_of(&b, key, NULL, 0, s, &now), 3);
	assert_int_equal(td_pool_slice_turn(10, now, 3).used_s, 115);
	free(now);
	now = NULL;

	// One whose end nobody saw ran until it was seen last, unless its ask is there.
	td_ran_saw(&b, key, 14, s - 10, 0);
	assert_int_equal(td_ran_of(&b, key, NULL, 0, s + 5000, &now), 4);
	assert_true(td_pool_slice_turn(1000, now, 4).used_s < 200);
	td_asks_free(b.asks);
	td_ran_free(b.ran);
}

// Only pods of the same namespace, person, owner and work take time of each other.
static void test_turns(void **state)
{
	stands_at("ml/u1//", "ml", "Job", "");
	stands_at("ml/u1/3/", "ml", "Job", "\"batch.kubernetes.io/job-completion-index\":\"3\"");
	stands_at("other/u1//", "other", "Job", "");
	stands_at("ml/u1//", "ml", "ReplicaSet", "");
	stands_at("ml/u1//bob", "ml", "ReplicaSet", "\"tandem.dev/user\":\"bob\""); // who names another one's
	stands_at("ml/u1/p/", "ml", "StatefulSet", ""); // it names its pods, and each goes on by its name
	stands_at("ml/u1/p/bob", "ml", "RayCluster", "\"tandem.dev/user\":\"bob\"");
	stands_at(NULL, "ml", "Node", "");
}

static void test_devices(void **state)
{
	td_auto(td_settings_unref) struct td_settings *s = settings(MAPPED), *d = settings("{}");
	devices(d, "gpu:2(IDX:0-1)", "{\"nvidia.com/gpu\":\"0-1\"}");
	devices(d, "gpu:2(IDX:1,0)", "{\"nvidia.com/gpu\":\"0-1\"}"); // canonical: grants are compared as text
	devices(d, "gpu:h100:3(IDX:0,2-3)", "{\"nvidia.com/gpu\":\"0,2-3\"}");
	devices(d, "", "{}");
	devices(d, "gpu(CNT:2)", NULL); // Slurm does not say which: never bound
	devices(d, "gpu:0", "{}");
	// All types of a GRES are of one resource, whichever the pod asked for: an index means one device.
	devices(s, "gpu:mi300:1(IDX:5)", "{\"nvidia.com/gpu\":\"5\"}");
	devices(s, "gpu:mi300:1(IDX:5),gpu:h100:2(IDX:0-1)", "{\"nvidia.com/gpu\":\"0-1,5\"}");
	devices(d, "gpu:2(IDX:0-", NULL);
}

static void test_kinds(void **state)
{
	const char *mixed = "gpu:zeta:1,gpu:alpha:3(S:0)";
	assert_int_equal(td_devices_of_kind(mixed, "gpu:zeta", "0-2"), 1);
	assert_int_equal(td_devices_of_kind(mixed, "gpu:alpha", "0-2"), 2);
	assert_int_equal(td_devices_of_kind(mixed, "gpu", "0-2"), 3);
	assert_int_equal(td_devices_of_kind(mixed, "gpu:h100", "0-2"), 0); // a victim there would be one in vain
	assert_int_equal(td_devices_of_kind("gpu:4", "gpu:h100", "0-2"), 0);
	assert_int_equal(td_devices_of_kind("gpu:4", "gpu", "0,3"), 2);
	assert_int_equal(td_devices_of_kind("shard:8,gpu:4", "gpu", "0-3"), 4);
	assert_int_equal(td_devices_of_kind("gpu:4", "gpu", "?"), 0);
}

static bool cover(const struct td_settings *s, const char *limits, const char *devices)
{
	td_auto_free char *text =
		td_asprintf("{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{%s}}}]}}", limits);
	td_auto(td_json_unref) struct td_json *j = NULL;
	assert_int_equal(td_json_parse(text, strlen(text), &j, NULL), 0);
	return td_devices_cover(s, td_json_root(j), 0, devices);
}

static void test_cover(void **state)
{
	td_auto(td_settings_unref) struct td_settings *d = settings("{}");
	const char *three = "\"cpu\":\"1\",\"nvidia.com/gpu\":\"3\"";
	assert_true(cover(d, three, "{\"nvidia.com/gpu\":\"0,2-3\"}"));
	assert_true(cover(d, three, "{\"nvidia.com/gpu\":\"0-7\"}")); // exclusive: the whole node
	assert_false(cover(d, three, "{\"nvidia.com/gpu\":\"0-1\"}"));
	assert_false(cover(d, three, "{}"));
	assert_false(cover(d, three, "{\"nvidia.com/gpu\":\"0-\"}"));
	assert_false(cover(d, three, "{\"nvidia.com/gpu\":\"1,1,0-1\"}"));
	assert_false(cover(d, three, "{\"nvidia.com/gpu\":\"0-9223372036854775807\"}")); // too large to count
	assert_false(cover(d, three, "?"));
	assert_true(cover(d, "\"cpu\":\"1\"", "{}"));
}

// Claims give the same GRES as the resource. A pod may not ask for the resource as well.
static void test_claimed(void **state)
{
	td_auto(td_json_unref) struct td_json *sc = given_json(
		"{\"metadata\":{\"uid\":\"c1\"},\"spec\":{\"scheduler\":{\"defaultUser\":\"u\"},\"devices\":[{"
		"\"resource\":\"nvidia.com/gpu\",\"source\":\"DRA\",\"driver\":\"d\",\"deviceClasses\":[\"k\"]}]}}");

	td_auto(td_settings_unref) struct td_settings *s = td_settings_read(td_json_root(sc));
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_json_unref) struct td_json *p = pod("ml", "", "\"cpu\":\"1\"", "");

	{
		td_auto_want struct td_want w = {0};
		assert_int_equal(td_want_read(s, "x", td_json_root(p), 3, &w, &err), 0);
		assert_string_equal(w.ask.tres_per_node, "gres/gpu:3");
		assert_int_equal(w.pool.gres[0], 3);
	}

	td_auto(td_json_unref) struct td_json *both = pod("ml", "", "\"nvidia.com/gpu\":\"1\"", "");
	td_auto_want struct td_want w = {0};
	assert_int_equal(td_want_read(s, "SlurmCluster slurm/main", td_json_root(both), 0, &w, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "name a claim of DeviceClass k in spec.resourceClaims"));

	td_auto(td_settings_unref) struct td_settings *allocatable = settings("{\"defaultUser\":\"u\"}");
	assert_string_equal(td_want_counted(allocatable, td_json_root(both)), "nvidia.com/gpu");
	assert_null(td_want_counted(allocatable, td_json_root(p)));
	assert_null(td_want_counted(s, td_json_root(p)));

	// Parts of GPUs, and GPUs by another name, are chosen by the kubelet, too.
	td_auto(td_settings_unref) struct td_settings *parts =
		settings("{\"defaultUser\":\"u\",\"gresMap\":{\"nvidia.com/gpu\":\"gpu\",\"nvidia.com/"
			 "mig-1g.10gb\":\"gpu:1g.10gb\","
			 "\"example.com/h100\":\"gpu:h100\",\"example.com/nic\":\"nic\"}}");
	static const char *const kinds[] = {"nvidia.com/mig-1g.10gb", "example.com/h100", "example.com/nic"};
	for (size_t i = 0; i < TD_LEN(kinds); i++) {
		td_auto_free char *limits = td_asprintf("\"%s\":\"1\"", kinds[i]);
		td_auto(td_json_unref) struct td_json *one = pod("ml", "", limits, "");
		const char *as = td_want_counted(parts, td_json_root(one));
		assert_true(i == 2 ? !as : td_streq(as, kinds[i]));
		assert_true(td_streq(td_settings_asked(parts, td_json_root(one)), i ? NULL : "nvidia.com/gpu"));
	}

	assert_true(td_devices_cover(s, td_json_root(p), 2, "{\"nvidia.com/gpu\":\"4-5\"}"));
	assert_false(td_devices_cover(s, td_json_root(p), 3, "{\"nvidia.com/gpu\":\"4-5\"}"));
}

static int64_t offer(const struct td_settings *s, const char *version, const char *allocatable)
{
	td_auto_free char *text =
		td_asprintf("{\"status\":{\"nodeInfo\":{%s},\"allocatable\":{%s}}}", version, allocatable);
	td_auto(td_json_unref) struct td_json *j = given_json(text);
	const struct td_object node = {.root = td_json_root(j)};
	return td_counted_offer(s, &node);
}

// The offer of a kubelet counts only where a kubelet chooses the devices.
static void test_counted(void **state)
{
	td_auto(td_json_unref) struct td_json *counted =
		given_json("{\"spec\":{\"scheduler\":{\"gresMap\":{\"example.com/gpu\":\"gpu\",\"example.com/"
			   "nic\":\"nic\"}},\"devices\":[{\"resource\":\"example.com/gpu\"}]}}");
	td_auto(td_json_unref) struct td_json *dra =
		given_json("{\"spec\":{\"devices\":[{\"resource\":\"example.com/gpu\",\"source\":\"DRA\"}]}}");
	td_auto(td_settings_unref) struct td_settings *s = td_settings_read(td_json_root(counted)),
						      *d = td_settings_read(td_json_root(dra));

	const char *kubelet = "\"kubeletVersion\":\"v1.34.4\"";
	assert_int_equal(offer(s, kubelet, "\"example.com/gpu\":\"5\",\"nvidia.com/gpu\":\"8\""), 5);
	assert_int_equal(offer(s, kubelet, "\"example.com/gpu\":\"0\""), 0);
	assert_int_equal(offer(s, kubelet, "\"cpu\":\"8\""), 0);
	assert_int_equal(offer(d, kubelet, "\"cpu\":\"8\""), -1);
	// The embedded agent gives what Slurm granted.
	assert_int_equal(offer(s, "\"kubeletVersion\":\"v1.34.0-tandem.1\"", "\"example.com/gpu\":\"5\""), -1);
	assert_int_equal(offer(s, "", "\"example.com/gpu\":\"5\""), -1);

	assert_int_equal(td_counted_gres(s, "gpu:8(S:0),nic:2"), 8);
	assert_int_equal(td_counted_gres(s, "nic:2"), 0);
	assert_int_equal(td_counted_gres(s, ""), 0);
	assert_int_equal(td_counted_gres(s, NULL), 0);
}

static void test_pool_nodes(void **state)
{
	char n0[] = "n0", n1[] = "n1", gres[] = "gpu:h100:4(S:0),gpu:a:2,shard:9",
	     used[] = "gpu:h100:1(IDX:0),gpu:a:0(IDX:N/A)", parts[] = "all,fast", one[] = "all";
	struct td_slurm_node v[] = {{.name = n0,
				     .gres = gres,
				     .gres_used = used,
				     .partitions = parts,
				     .states = TD_NODE(MIXED),
				     .cpus = 16,
				     .alloc_cpus = 3,
				     .memory_mb = 100},
				    {.name = n1,
				     .gres = gres,
				     .gres_used = used,
				     .partitions = one,
				     .states = TD_NODE(IDLE) | TD_NODE(DRAIN)}};
	const struct td_slurm_nodes l = {.v = v, .n = 2};
	const bool ok[] = {true, true};
	const char *const kinds[TD_POOL_KINDS] = {"gpu", "gpu:h100"};

	td_auto_free struct td_pool_node *p = NULL;
	td_bridge_pool_nodes(&l, ok, kinds, "fast", &p);
	assert_true(p[0].feasible && p[0].usable);
	assert_false(p[1].feasible); // not in the partition
	assert_false(p[1].usable);
	assert_int_equal(p[0].gres[0], 6);
	assert_int_equal(p[0].gres[1], 4);
	assert_int_equal(p[0].used_gres[0], 1);
	assert_int_equal(p[0].used_cpus, 3);
}

static void test_lists(void **state)
{
	assert_true(td_bridge_lists("a", "a"));
	assert_true(td_bridge_lists("a,bc", "bc"));
	assert_true(td_bridge_lists("ab,a,c", "a"));
	assert_false(td_bridge_lists("ab,ca", "a"));
	assert_false(td_bridge_lists("a", "ab"));
	assert_false(td_bridge_lists("", "a"));
	assert_false(td_bridge_lists(NULL, "a"));
	assert_true(td_pool_lists_any("a,bc", "x,bc"));
	assert_true(td_pool_lists_any("a,bc", "a"));
	assert_false(td_pool_lists_any("a,bc", "b,c,"));
	assert_false(td_pool_lists_any("a,bc", ""));
	assert_false(td_pool_lists_any(NULL, "a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vendors),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_claimed),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_people),
		cmocka_unit_test(test_new_tenant),
		cmocka_unit_test(test_projects),
		cmocka_unit_test(test_want),
		cmocka_unit_test(test_class_is_qos),
		cmocka_unit_test(test_priority_is_nice),
		cmocka_unit_test(test_refusals_say_the_fix),
		cmocka_unit_test(test_time_limits),
		cmocka_unit_test(test_whose_job),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_used),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_cover),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_pool_nodes),
		cmocka_unit_test(test_counted),
		cmocka_unit_test(test_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
