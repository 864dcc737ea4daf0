// The REST client against a fake slurmrestd that gives the answers of real ones
// (docs/facts/slurm.md T, A, R, W, E, N).
// rows: A6.2 F2.2
#include "http/pki.h"
#include "http/server.h"
#include "slurm/adapter.h"
#include "slurm/history.h"
#include "slurm/hostlist.h"
#include "slurm/token.h"
#include "slurm/view.h"
#include "slurm/where.h"
#include "json/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char key[] = "0123456789abcdef0123456789abcdef";

struct script { // the next answers, in order; the last one is repeated
	int status;
	const char *body;
};
static struct fake {
	struct td_http_server *server;
	struct td_cancel *cancel;
	pthread_t thread;
	pthread_mutex_t lock; // guards the fields below
	const struct script *next;
	size_t left, asked;
	char method[16], target[4096], body[8192], user[64];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void handler(struct td_http_x *x, void *ctx)
{
	pthread_mutex_lock(&fake.lock);
	const struct script *s = fake.next;
	if (fake.left > 1) {
		fake.next++;
		fake.left--;
	}
	fake.asked++;

	size_t n;
	const char *b = td_http_body(x, &n), *t = td_http_header(x, "X-SLURM-USER-TOKEN");
	snprintf(fake.method, sizeof(fake.method), "%s", td_http_method(x));
	snprintf(fake.target, sizeof(fake.target), "%s", td_http_target(x));
	snprintf(fake.body, sizeof(fake.body), "%s", b ? b : "");

	td_auto_free char *claims = NULL;
	td_auto(td_json_unref) struct td_json *j = NULL;
	fake.user[0] = '\0';
	if (t && td_jwt_verify(key, strlen(key), t, &claims, NULL) == 0 &&
	    td_json_parse(claims, strlen(claims), &j, NULL) == 0)
		snprintf(fake.user, sizeof(fake.user), "%s", td_jstr_or(td_json_root(j), "sun", ""));
	pthread_mutex_unlock(&fake.lock);

	td_http_send(x, s->status, s->body[0] == '{' ? "application/json" : "text/plain", s->body, strlen(s->body));
}

static void *serve(void *p)
{
	td_http_server_run(fake.server, fake.cancel, NULL);
	return NULL;
}

static struct td_slurm *slurm;

static int setup(void **state)
{
	const char *const listen[] = {"127.0.0.1:0", NULL};
	const struct td_http_server_opts o = {.listen = listen, .handler = handler};
	fake.cancel = td_cancel_new();
	struct td_error err = TD_ERROR_INIT;
	if (td_http_server_new(&o, &fake.server, &err))
		return -1;
	pthread_create(&fake.thread, NULL, serve, NULL);
	td_auto_free char *url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(fake.server));
	const struct td_slurm_opts so = {.url = url, .key = key, .key_len = strlen(key)};
	return td_slurm_new(&so, &slurm, &err);
}

static int teardown(void **state)
{
	td_slurm_free(slurm);
	td_cancel_fire(fake.cancel);
	pthread_join(fake.thread, NULL);
	td_http_server_free(fake.server);
	td_cancel_unref(fake.cancel);
	return 0;
}

static void answers(const struct script *s, size_t n)
{
	pthread_mutex_lock(&fake.lock);
	fake.next = s;
	fake.left = n;
	fake.asked = 0;
	pthread_mutex_unlock(&fake.lock);
}
#define ANSWER(...)                                                                                                    \
	static const struct script script_[] = {__VA_ARGS__};                                                          \
	answers(script_, TD_LEN(script_))

#define ERR(n, text)                                                                                                   \
	"{\"errors\":[{\"description\":\"what\",\"error_number\":" #n ",\"error\":\"" text                             \
	"\",\"source\":\"x\"}],\"warnings\":[]}"

static const struct td_slurm_ask ask = {.name = "a.b",
					.script = "#!/bin/sh\n",
					.cpus = 2,
					.memory_mb = 100,
					.tres_per_node = "gres/gpu:2",
					.excluded_nodes = "n[1-2]",
					.time_limit_min = 5,
					.begin = 1900000000,
					.warn_usr1 = true,
					.warn_delay_s = 90};

static void test_submit(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	int64_t job = 0;

	{
		ANSWER({200, "{\"job_id\":7,\"step_id\":\"batch\",\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_submit(slurm, "alice", &ask, NULL, &job, &err), 0);
		assert_int_equal(job, 7);
		assert_string_equal(fake.method, "POST");
		assert_string_equal(fake.target, "/slurm/v0.0.42/job/submit");
		assert_string_equal(fake.user, "alice");
		td_auto(td_json_unref) struct td_json *j = NULL;
		assert_int_equal(td_json_parse(fake.body, strlen(fake.body), &j, NULL), 0);
		yyjson_val *v = td_json_root(j);
		assert_string_equal(td_jstr(v, "script"), "#!/bin/sh\n");
		assert_string_equal(td_jstr(v, "job.excluded_nodes.[1]"), "n2");
		assert_int_equal(td_jint(v, "job.memory_per_node.number", 0), 100);
		assert_int_equal(td_jint(v, "job.kill_warning_delay.number", 0), 90);
		assert_int_equal(td_jint(v, "job.begin_time.number", 0), 1900000000);
		assert_false(td_jbool(v, "job.requeue", true));
		assert_string_equal(td_jstr(v, "job.standard_output"), "/dev/null");
		assert_null(td_jget(v, "job.immediate"));
	}

	{ // 500 with a job id is a job (S-T3)
		ANSWER({500, "{\"job_id\":8,\"errors\":[{\"error_number\":9207,\"error\":\"Unknown flag\"}]}"});
		assert_int_equal(td_slurm_submit(slurm, NULL, &ask, NULL, &job, &err), 0);
		assert_int_equal(job, 8);
		assert_string_equal(fake.user, "root");
	}

	{ // 200 without a job id is none (S-T4)
		ANSWER({200, "{\"errors\":[],\"warnings\":[{\"description\":\"Expected integer\"}]}"});
		job = 42;
		assert_int_equal(td_slurm_submit(slurm, NULL, &ask, NULL, &job, &err), TD_INVALID);
		assert_int_equal(job, 42);
		assert_non_null(strstr(err.msg, "Expected integer"));
	}

	{
		ANSWER({200, "{\"job_id\":0,\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_submit(slurm, NULL, &ask, NULL, &job, &err), TD_INVALID);
	}

	{
		ANSWER({200, "{\"job_id\":9,\"errors\":[]}"});
		assert_int_equal(td_slurm_allocate(slurm, "alice", &ask, NULL, &job, &err), 0);
		assert_string_equal(fake.target, "/slurm/v0.0.42/job/allocate");
		assert_non_null(strstr(fake.body, "\"immediate\":true"));
		assert_null(strstr(fake.body, "begin_time"));
		assert_null(strstr(fake.body, "script"));
		assert_null(strstr(fake.body, "shared"));
	}

	{ // the owner's number is a text in the body, and is sent only where it is known (S-A5)
		struct td_slurm_ask mine = ask;
		assert_null(strstr(fake.body, "user_id"));
		mine.uid = 4711;
		ANSWER({200, "{\"job_id\":9,\"errors\":[]}"});
		assert_int_equal(td_slurm_allocate(slurm, "alice", &mine, NULL, &job, &err), 0);
		assert_non_null(strstr(fake.body, "\"user_id\":\"4711\""));
	}

	{ // `exclusive`, a whole node, goes before `exclusive_user`
		struct td_slurm_ask mine = ask;
		mine.exclusive_user = true;
		ANSWER({200, "{\"job_id\":9,\"errors\":[]}"}, {200, "{\"job_id\":10,\"errors\":[]}"});
		assert_int_equal(td_slurm_allocate(slurm, "alice", &mine, NULL, &job, &err), 0);
		assert_non_null(strstr(fake.body, "\"shared\":[\"user\"]"));
		mine.exclusive = true;
		assert_int_equal(td_slurm_allocate(slurm, "alice", &mine, NULL, &job, &err), 0);
		assert_non_null(strstr(fake.body, "\"shared\":[\"none\"]"));
	}

	assert_int_equal(td_slurm_submit(slurm, "alice; rm", &ask, NULL, &job, &err), TD_INVALID);
}

// A submit gets this answer and must fail with `code`. Returns the detail, Slurm's number.
static int refusal(const char *body, int status, int code)
{
	const struct script s[] = {{status, body}};
	struct td_error err = TD_ERROR_INIT;
	int64_t job = 0;

	answers(s, 1);
	int r = td_slurm_submit(slurm, "alice", &ask, NULL, &job, &err);
	if (r != code)
		fail_msg("%s: %s, wanted %s: %s", body, td_code_name(r), td_code_name(code), err.msg);

	assert_int_equal(job, 0);
	return err.detail;
}

static void test_refusals(void **state)
{
	assert_int_equal(refusal(ERR(2013, "Immediate execution impossible, insufficient priority"), 500, TD_THROTTLED),
			 TD_SLURM_ERR_NOT_TOP);
	assert_int_equal(refusal("{}", 503, TD_UNCERTAIN), 0); // slurmrestd's own answer has no number
	refusal(ERR(2016, "Requested nodes are busy"), 422, TD_THROTTLED);
	refusal(ERR(11, "Resource temporarily unavailable"), 500, TD_THROTTLED);
	refusal(ERR(2007, "MaxJobCount limit reached"), 422, TD_THROTTLED); // 26.05
	refusal(ERR(2050, "Job violates accounting/QOS policy"), 500, TD_THROTTLED);
	refusal(ERR(2014, "Requested node configuration is not available"), 500, TD_INVALID);
	refusal(ERR(2000, "Invalid partition name specified"), 422, TD_INVALID);
	refusal(ERR(2002, "Access/permission denied"), 500, TD_DENIED);
	refusal(ERR(1800, "Unable to contact slurm controller"), 502, TD_TRANSIENT);
	refusal(ERR(5004, "Socket timed out on send/recv operation"), 504, TD_UNCERTAIN);
	refusal(ERR(-1, "Unspecified error"), 500, TD_UNCERTAIN);
	refusal("half a re", 200, TD_UNCERTAIN);
	refusal("Unable to parse query.", 400, TD_INVALID);
	refusal("Unable find requested URL", 404, TD_UNSUPPORTED);
	refusal("Authentication failure", 401, TD_UNAUTHENTICATED);
}

// Who asks for less because the question was refused would ask for ever.
static void test_only_a_history_that_is_too_large_is_unsupported(void **state)
{
	enum { TOO_LARGE = (64 << 20) + 1 };
	td_auto_runs struct td_slurm_runs l = {0};
	struct td_error err = TD_ERROR_INIT;
	{
		ANSWER({500, ERR(2000, "Invalid partition name specified")});
		assert_int_equal(td_slurm_history(slurm, "c", 1, 2, NULL, &l, &err), TD_INVALID);
	}
	{
		ANSWER({400, "Unable to parse query."});
		assert_int_equal(td_slurm_history(slurm, "c", 1, 2, NULL, &l, &err), TD_INVALID);
	}
	td_auto_free char *large = td_calloc(1, TOO_LARGE + 1);
	memset(large, 'x', TOO_LARGE);
	const struct script s[] = {{200, large}};
	answers(s, 1);
	assert_int_equal(td_slurm_history(slurm, "c", 1, 2, NULL, &l, &err), TD_UNSUPPORTED);
	assert_int_equal(err.http, 0);
	assert_int_equal(td_slurm_history(slurm, "c", 1, 2, NULL, &l, NULL), TD_UNSUPPORTED);
}

static void test_token_is_minted_again_after_511(void **state)
{
	struct td_error err = TD_ERROR_INIT;

	{
		ANSWER({511, ERR(1007, "Protocol authentication error")},
		       {200, "{\"jobs\":[],\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_check(slurm, NULL, &err), 0);
		assert_int_equal(fake.asked, 2);
	}

	{
		ANSWER({511, ERR(1007, "Protocol authentication error")});
		assert_int_equal(td_slurm_check(slurm, NULL, &err), TD_UNAUTHENTICATED);
		assert_int_equal(fake.asked, 2);
		assert_int_equal(err.http, 511);
	}
}

// Slurm 26.11 is to be without v0.0.42. What an unknown address is answered, in all versions: text, not JSON.
static void test_another_parser_version_is_found(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	static const char old[] = "Unable find requested URL. Please view /openapi/v3 for API reference.",
			  new[] = "Unable to find requested URL";

	{
		ANSWER({404, new}, {404, new}, {200, "{\"jobs\":[],\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_check(slurm, NULL, &err), 0);
		assert_int_equal(fake.asked, 3);
		assert_string_equal(fake.target, "/slurm/v0.0.44/jobs/state/?job_id=4294967000");
	}
	{
		ANSWER({200, "{\"jobs\":[],\"errors\":[],\"warnings\":[]}"}); // it is kept
		assert_int_equal(td_slurm_check(slurm, NULL, &err), 0);
		assert_int_equal(fake.asked, 1);
		assert_true(td_starts(fake.target, "/slurm/v0.0.44/"));
	}
	{
		// An unknown job is no reason to look for another version.
		ANSWER({404,
			"{\"jobs\":[],\"errors\":[{\"error_number\":2017,\"error\":\"Invalid job id specified\"}]}"});
		td_auto_job struct td_slurm_job j = {0};
		assert_int_equal(td_slurm_job(slurm, 5, NULL, &j, &err), TD_NOT_FOUND);
		assert_int_equal(fake.asked, 1);
	}
	{
		ANSWER({404, old}); // none of them: said once, after each was asked for, and nothing changes
		int64_t job = 0;
		assert_int_equal(td_slurm_submit(slurm, "alice", &ask, NULL, &job, &err), TD_UNSUPPORTED);
		assert_int_equal(fake.asked, 3);
		assert_non_null(strstr(err.msg, "v0.0.42"));
	}
	{
		ANSWER({404, old}, {200, "{\"job_id\":7,\"step_id\":\"batch\",\"errors\":[],\"warnings\":[]}"});
		int64_t job = 0;
		assert_int_equal(td_slurm_submit(slurm, "alice", &ask, NULL, &job, &err), 0); // an older one again
		assert_int_equal(job, 7);
		assert_string_equal(fake.target, "/slurm/v0.0.42/job/submit");
	}
}

#define JOB                                                                                                            \
	"{\"job_id\":5,\"name\":\"p.u\",\"user_name\":\"alice\",\"user_id\":2001,\"job_state\":[\"RUNNING\"],\"state_" \
	"reason\":\"Prolog\","                                                                                         \
	"\"nodes\":\"n[1-2]\",\"gres_detail\":[\"gpu:2(IDX:3-4)\",\"gpu:2(IDX:0-1)\"],\"start_time\":{\"set\":true,"   \
	"\"infinite\":false,"                                                                                          \
	"\"number\":100},\"time_limit\":{\"set\":true,\"infinite\":true,\"number\":0},\"restart_cnt\":0,\"batch_"      \
	"flag\":false,"                                                                                                \
	"\"admin_comment\":\"tandem/c/"                                                                                \
	"u\",\"excluded_nodes\":\"\",\"job_resources\":{\"nodes\":{\"allocation\":[{\"name\":\"n2\",\"cpus\":{"        \
	"\"count\":2},\"memory\":{\"allocated\":100},\"sockets\":[{\"index\":1,\"cores\":[{\"index\":0,\"status\":["   \
	"\"ALLOCATED\"]},{"                                                                                            \
	"\"index\":1,\"status\":[\"ALLOCATED\"]}]},{\"index\":0,\"cores\":[{\"index\":0,\"status\":[\"UNALLOCATED\"]}" \
	",{\"index\":1,"                                                                                               \
	"\"status\":[\"ALLOCATED\"]}]}]},{\"name\":\"n1\",\"cpus\":{\"count\":1},\"memory\":{\"allocated\":50},"       \
	"\"sockets\":[]}]}}}"

static void check_job(const struct td_slurm_job *j)
{
	assert_int_equal(j->id, 5);
	assert_int_equal(j->states, TD_JOB(RUNNING));
	assert_string_equal(j->reason, "Prolog");
	assert_string_equal(j->admin_comment, "tandem/c/u");
	assert_int_equal(j->start, 100);
	assert_int_equal(j->time_limit_min, 0); // infinite
	assert_int_equal(j->n_nodes, 2);
	assert_string_equal(j->nodes[0].name, "n1");
	assert_string_equal(j->nodes[0].gres, "gpu:2(IDX:3-4)");
	assert_int_equal(j->nodes[0].memory_mb, 50);
	// The allocation is found by the node's name; its sockets come in any order.
	assert_string_equal(j->nodes[1].cores, "1-3");
}

static void test_jobs(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_job struct td_slurm_job j = {0};

	{
		ANSWER({200, "{\"jobs\":[" JOB "],\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_job(slurm, 5, NULL, &j, &err), 0);
		check_job(&j);
		assert_string_equal(fake.target, "/slurm/v0.0.42/job/5");
		td_auto_job struct td_slurm_job other = {0};
		// An answer about another job does not count.
		assert_int_equal(td_slurm_job(slurm, 6, NULL, &other, &err), TD_NOT_FOUND);
	}

	// Slurm's one reason for nodes that are out and for nodes where others come first is told apart.
#define BEHIND "ReqNodeNotAvail, May be reserved for other job"
#define WAITS(says)                                                                                                    \
	"{\"jobs\":[{\"job_id\":5,\"job_state\":[\"PENDING\"],\"state_reason\":\"ReqNodeNotAvail\","                   \
	"\"state_description\":\"" says "\"}],\"errors\":[],\"warnings\":[]}"
	{
		ANSWER({200, WAITS("ReqNodeNotAvail, UnavailableNodes:n1")}, {200, WAITS(BEHIND)});
		td_auto_job struct td_slurm_job out = {0}, behind = {0};
		assert_int_equal(td_slurm_job(slurm, 5, NULL, &out, &err), 0);
		assert_string_equal(out.reason, "ReqNodeNotAvail");
		assert_int_equal(td_slurm_job(slurm, 5, NULL, &behind, &err), 0);
		assert_string_equal(behind.reason, BEHIND);
	}

	{
		ANSWER({404, ERR(2017, "Invalid job id specified")});
		assert_int_equal(td_slurm_job(slurm, 5, NULL, &j, &err), TD_NOT_FOUND);
	}
}

// As slurmrestd 25.11.7 writes them with v0.0.44, shortened to what is read: a pod's job on one GPU, and a job that waits for
// whole nodes.
static void test_jobs_of_2511(void **state)
{
	static const char runs[] =
		"{\"job_id\":3,\"job_state\":[\"RUNNING\"],\"name\":\"p1.3c66df8c-856d-436b-933c-5404b4eb057e\",\"user"
		"_name\":\"pods\",\"account\":\"\",\"partition\":\"all\",\"qos\":\"normal\",\"state_reason\":\"None\","
		"\"nodes\":"
		"\"n0\",\"user_id\":2000,\"start_time\":{\"set\":true,\"infinite\":false,\"number\":1795734609},\"time_"
		"l"
		"imit\":{\"set\":false,\"infinite\":true,\"number\":0},\"cpus\":{\"set\":true,\"infinite\":false,"
		"\"number"
		"\":1},\"node_count\":{\"set\":true,\"infinite\":false,\"number\":1},\"tasks\":{\"set\":true,"
		"\"infinite\":"
		"false,\"number\":1},\"cpus_per_task\":{\"set\":true,\"infinite\":false,\"number\":1},\"memory_per_cpu"
		"\":{\"set\":false,\"infinite\":false,\"number\":0},\"memory_per_node\":{\"set\":true,\"infinite\":"
		"false"
		",\"number\":64},\"tres_per_node\":\"gres/gpu:1\",\"shared\":[],\"tres_alloc_str\":\"cpu=1,mem=64M,nod"
		"e=1,billing=1,gres/gpu=1\",\"batch_flag\":false,\"gres_detail\":[\"gpu:1(IDX:1)\"],\"job_resources"
		"\":{\"select_type\":[\"CORE\"],\"nodes\":{\"count\":1,\"select_type\":[\"ONE_ROW\"],\"list\":\"n0\","
		"\"whole\""
		":false,\"allocation\":[{\"index\":0,\"name\":\"n0\",\"cpus\":{\"count\":1,\"used\":0},\"memory\":{"
		"\"used\":0"
		",\"allocated\":64},\"sockets\":[{\"index\":0,\"cores\":[{\"index\":1,\"status\":[\"ALLOCATED\"]}]}]}]}"
		",\""
		"cpus\":1,\"threads_per_core\":{\"set\":false,\"infinite\":false,\"number\":0}},\"hold\":false,\"exit_c"
		"ode\":{\"status\":[\"SUCCESS\"],\"return_code\":{\"set\":true,\"infinite\":false,\"number\":0},"
		"\"signal\""
		":{\"id\":{\"set\":false,\"infinite\":false,\"number\":0},\"name\":\"\"}}}";
	static const char waits[] =
		"{\"job_id\":5,\"job_state\":[\"PENDING\"],\"name\":\"wrap\",\"user_name\":\"researcher\","
		"\"partition\":\"al"
		"l\",\"state_reason\":\"ReqNodeNotAvail\",\"nodes\":\"\",\"user_id\":1000,\"time_limit\":{\"set\":"
		"false,\"i"
		"nfinite\":true,\"number\":0},\"cpus\":{\"set\":true,\"infinite\":false,\"number\":1},\"node_count\":{"
		"\"s"
		"et\":true,\"infinite\":false,\"number\":1},\"tasks\":{\"set\":true,\"infinite\":false,\"number\":1},"
		"\"cp"
		"us_per_task\":{\"set\":true,\"infinite\":false,\"number\":1},\"memory_per_cpu\":{\"set\":false,\"infin"
		"ite\":false,\"number\":0},\"memory_per_node\":{\"set\":true,\"infinite\":false,\"number\":10},\"tres_p"
		"er_node\":\"\",\"shared\":[\"none\"],\"batch_flag\":true,\"hold\":false}";
	struct td_error err = TD_ERROR_INIT;
	struct td_slurm_job j = {0};
	td_auto(td_json_unref) struct td_json *doc = NULL, *other = NULL;
	assert_int_equal(td_json_parse(runs, strlen(runs), &doc, &err), 0);
	assert_int_equal(td_slurm_v0042.read_job(td_json_root(doc), &j, &err), 0);
	assert_int_equal(j.id, 3);
	assert_int_equal(j.states, TD_JOB(RUNNING));
	assert_int_equal(j.n_nodes, 1);
	assert_string_equal(j.nodes[0].name, "n0");
	assert_string_equal(j.nodes[0].gres, "gpu:1(IDX:1)");
	assert_int_equal(j.nodes[0].memory_mb, 64);
	assert_int_equal(j.nodes[0].cpus, 1);
	assert_string_equal(j.shared, "");
	td_slurm_job_done(&j);

	assert_int_equal(td_json_parse(waits, strlen(waits), &other, &err), 0);
	assert_int_equal(td_slurm_v0042.read_job(td_json_root(other), &j, &err), 0);
	assert_int_equal(j.states, TD_JOB(PENDING));
	assert_string_equal(j.shared, "none");
	assert_int_equal(j.n_nodes, 0);
	assert_int_equal(j.time_limit_min, 0);
	td_slurm_job_done(&j);
}

static void test_end(void **state)
{
	struct td_error err = TD_ERROR_INIT;

	{
		ANSWER({200, "{\"status\":[],\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_job_end(slurm, 5, "a.b", NULL, &err), 0);
		assert_string_equal(fake.method, "DELETE");
		assert_string_equal(fake.target, "/slurm/v0.0.42/jobs/");
		// Without a list of jobs it would end every job.
		assert_string_equal(fake.body, "{\"jobs\":[\"5\"],\"job_name\":\"a.b\"}");
		assert_int_equal(fake.asked, 1);
		const struct td_slurm_signal usr1 = {"USR1", false}, script = {"USR2", true};
		assert_int_equal(td_slurm_job_signal(slurm, 5, "a.b", &usr1, NULL, &err), 0);
		assert_string_equal(fake.body, "{\"jobs\":[\"5\"],\"job_name\":\"a.b\",\"signal\":\"USR1\"}");
		assert_int_equal(td_slurm_job_signal(slurm, 5, "a.b", &script, NULL, &err), 0);
		assert_string_equal(fake.body, "{\"jobs\":[\"5\"],\"job_name\":\"a.b\",\"signal\":\"USR2\","
					       "\"flags\":[\"BATCH_JOB\"]}");
		assert_int_equal(td_slurm_job_end(slurm, 5, NULL, NULL, &err), TD_INVALID);
		assert_int_equal(td_slurm_job_end(slurm, 5, "", NULL, &err), TD_INVALID);
		assert_int_equal(td_slurm_job_end(slurm, 0, "a.b", NULL, &err), TD_INVALID);
	}

	{
		ANSWER({200, "{\"status\":[{\"error\":{\"string\":\"Job/step already completing or "
			     "completed\",\"code\":2021},\"step_id\":\"5\"}],\"errors\":[]}"});
		assert_int_equal(td_slurm_job_end(slurm, 5, "a.b", NULL, &err), TD_NOT_FOUND);
	}

	{ // the id is another job's now, or the owner has renamed the job
		ANSWER({200,
			"{\"status\":[{\"error\":{\"string\":\"Cannot signal job\",\"code\":2172,\"message\":\"Job "
			"name x != filter name a.b: Cannot signal job\"},\"step_id\":\"5\"}],\"errors\":[]}"});
		assert_int_equal(td_slurm_job_end(slurm, 5, "a.b", NULL, &err), TD_CONFLICT);
		assert_non_null(strstr(err.msg, "Job name x"));
	}

	{
		ANSWER({200,
			"{\"status\":[{\"error\":{\"string\":\"\",\"code\":0},\"step_id\":\"5\"}],\"errors\":[]}"});
		assert_int_equal(td_slurm_job_end(slurm, 5, "a.b", NULL, &err), 0);
	}

	{
		ANSWER({500, ERR(1, "Operation not permitted")});
		assert_int_equal(td_slurm_job_end(slurm, 5, "a.b", NULL, &err), TD_UNCERTAIN);
	}
}

static void test_nodes(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_nodes struct td_slurm_nodes l = {0};

	{
		ANSWER({200, "{\"nodes\":[{\"name\":\"n2\",\"state\":[\"IDLE\",\"DRAIN\"],\"reason\":\"bad "
			     "fan\",\"reason_changed_at\":{\"set\":true,\"number\":9},\"cpus\":16,\"effective_cpus\":"
			     "14,\"real_memory\":"
			     "20000,\"specialized_memory\":1000,\"gres\":\"gpu:8\",\"gres_used\":\"gpu:2\",\"alloc_"
			     "cpus\":3,\"partitions\":["
			     "\"all\",\"x\"]},{\"name\":\"n1\",\"state\":[\"IDLE\"]}],\"errors\":[],"
			     "\"meta\":{\"slurm\":{\"release\":\"25.11.7\"}}}"});
		assert_int_equal(td_slurm_nodes(slurm, NULL, &l, &err), 0);
		assert_string_equal(l.release, "25.11.7");
		assert_int_equal(l.n, 2);
		const struct td_slurm_node *n = td_slurm_node_find(&l, "n2");
		assert_non_null(n);
		assert_int_equal(n->states, TD_NODE(IDLE) | TD_NODE(DRAIN));
		assert_string_equal(n->reason, "bad fan");
		assert_int_equal(n->reason_at, 9);
		assert_string_equal(n->partitions, "all,x");
		assert_int_equal(n->cpus, 14); // what jobs may have
		assert_int_equal(n->kept_cpus, 2);
		assert_int_equal(n->memory_mb, 19000);
		assert_int_equal(n->kept_memory_mb, 1000);
		assert_null(td_slurm_node_find(&l, "n3"));
		td_auto_strv struct td_strv names = {0};
		td_strv_split(&names, "n3,n2,n2", ',');
		td_auto_free bool *in = td_slurm_nodes_in(&l, &names);
		for (size_t i = 0; i < l.n; i++)
			assert_int_equal(in[i], !strcmp(l.v[i].name, "n2"));
	}

	{ // an unknown node is HTTP 200 (S-T6); it must not look like a node without DRAIN
		ANSWER({200, "{\"errors\":[{\"description\":\"Failure to query node "
			     "X\",\"error_number\":0,\"error\":\"No error\"}],\"warnings\":[]}"});
		assert_int_equal(td_slurm_node(slurm, "X", NULL, &l, &err), TD_NOT_FOUND);
		assert_int_equal(l.n, 2); // untouched
		assert_int_not_equal(td_slurm_nodes(slurm, NULL, &l, &err), 0);
	}

	{
		ANSWER({500, ERR(5004, "Socket timed out")});
		assert_int_equal(td_slurm_node(slurm, "n1", NULL, &l, &err), TD_TRANSIENT);
	}

	{
		ANSWER({500, ERR(2018, "Invalid node name specified")});
		assert_int_equal(td_slurm_node_update(slurm, "n9", "DRAIN", "x", NULL, &err), TD_NOT_FOUND);
		assert_int_equal(td_slurm_node_delete(slurm, "n9", NULL, &err), TD_NOT_FOUND);
	}

	{
		ANSWER({200, "{\"errors\":[],\"warnings\":[]}"});
		assert_int_equal(td_slurm_node_update(slurm, "n1", "DRAIN", "tandem: cordoned", NULL, &err), 0);
		assert_string_equal(fake.body, "{\"state\":[\"DRAIN\"],\"reason\":\"tandem: cordoned\"}");
		assert_int_equal(td_slurm_node_undrain(slurm, "n1", NULL, &err), 0);
		assert_string_equal(fake.body, "{\"state\":[\"UNDRAIN\"],\"reason\":\"Not responding: over\"}");
		assert_int_equal(td_slurm_node_update(slurm, "n1", "DRAIN", "two\nlines", NULL, &err), TD_INVALID);
		assert_int_equal(td_slurm_node_update(slurm, "n1,n2", "DRAIN", "x", NULL, &err), TD_INVALID);
		assert_int_equal(td_slurm_node_update(slurm, "../jobs", "DRAIN", "x", NULL, &err), TD_INVALID);
	}
}

static void test_pace(void **state)
{
	struct td_slurm_pace p = {0}, young = {0};

	// slurmctld is just starting: the first slow answer must not blind the caller for two
	// minutes.
	assert_int_equal(td_slurm_pace_wait(&young, 6000, 20, 250), 250);

	assert_int_equal(td_slurm_pace_wait(&p, 5, 10, 200), 200);
	assert_int_equal(td_slurm_pace_wait(&p, 50, 10, 200), 200);
	assert_int_equal(td_slurm_pace_wait(&p, 800, 10, 200), 200); // a hiccup
	for (int i = 0; i < 7; i++)
		td_slurm_pace_wait(&p, 50 + i, 10, 200);
	assert_int_equal(td_slurm_pace_wait(&p, 60, 10, 200), 500); // every poll is that slow
}

static bool wanted(void *ctx, int64_t job)
{
	return job == 3;
}

static void test_states_and_view(void **state)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto(td_slurm_view_free) struct td_slurm_view *v = td_slurm_view_new();
	td_auto_states struct td_slurm_states diff = {0}, gone = {0};

	{
		ANSWER({200, "{\"jobs\":[{\"job_id\":\"1\",\"state\":[\"RUNNING\"]},{\"job_id\":\"2\",\"state\":["
			     "\"CANCELLED\",\"COMPLETING\"]},{\"job_id\":\"12_3\",\"state\":[\"PENDING\"]},{\"job_id\":"
			     "\"77\",\"state\":[\"PENDING\"]}],\"errors\":[]}"});
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
		assert_int_equal(fake.asked, 0); // no job is watched
		td_slurm_view_watch(v, 2, TD_JOB(RUNNING));
		td_slurm_view_watch(v, 1, TD_JOB(RUNNING));
		td_slurm_view_watch(v, 3, TD_JOB(PENDING));
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
		assert_string_equal(fake.target, "/slurm/v0.0.42/jobs/state/?job_id=1&job_id=2&job_id=3");
		assert_int_equal(diff.n, 2);
		assert_int_equal(diff.v[0].id, 2);
		assert_int_equal(diff.v[0].states, TD_JOB(CANCELLED) | TD_JOB(COMPLETING));
		assert_int_equal(diff.v[1].id, 3);
		assert_int_equal(gone.n, 1);
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
		assert_int_equal(diff.n, 0); // reported once
		assert_int_equal(gone.n, 1); // but still absent
		size_t n;
		uint64_t print, other;
		assert_int_equal(td_slurm_view_poll_waiting(v, slurm, NULL, NULL, &err), 0);
		td_slurm_view_waiting(v, &n, &print);
		assert_int_equal(n, 1); // 77; array tasks do not count
		td_slurm_view_watch(v, 77, TD_JOB(PENDING));
		assert_int_equal(td_slurm_view_poll_waiting(v, slurm, NULL, NULL, &err), 0);
		td_slurm_view_waiting(v, &n, &other);
		assert_int_equal(n, 0);
		assert_true(print != other);
	}

	{ // a job that nobody wants any more is watched a little longer, and polled more rarely
		assert_int_equal(td_slurm_view_sweep(v, 1000, 500, wanted, NULL), 1);
		assert_int_equal(td_slurm_view_sweep(v, 1500, 500, wanted, NULL), 1);
		int with = 0, without = 0;
		for (int i = 0; i < 20; i++) {
			assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
			with += strstr(fake.target, "job_id=3&job_id=77") != NULL;
			without += td_ends(fake.target, "/?job_id=3");
		}
		assert_int_equal(with, 2);
		assert_int_equal(without, 18);
		assert_int_equal(td_slurm_view_sweep(v, 1501, 500, wanted, NULL), 1);
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
		assert_string_equal(fake.target, "/slurm/v0.0.42/jobs/state/?job_id=3");
	}

	{ // but not when there is nothing else to poll: a gap in Slurm's answers must be noticed
		td_auto(td_slurm_view_free) struct td_slurm_view *u = td_slurm_view_new();
		td_slurm_view_watch(u, 2, TD_JOB(CANCELLED));
		assert_int_equal(td_slurm_view_sweep(u, 1000, 500, wanted, NULL), 0);
		for (int i = 0; i < 3; i++) {
			fake.target[0] = '\0';
			assert_int_equal(td_slurm_view_poll_jobs(u, slurm, NULL, &diff, &gone, &err), 0);
			assert_string_equal(fake.target, "/slurm/v0.0.42/jobs/state/?job_id=2");
		}
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), 0);
	}

	{ // an error changes nothing
		ANSWER({500, ERR(5004, "Socket timed out")});
		assert_int_equal(td_slurm_view_poll_jobs(v, slurm, NULL, &diff, &gone, &err), TD_TRANSIENT);
		assert_int_equal(gone.n, 1);
	}

	{
		ANSWER({200, "{\"nodes\":[{\"name\":\"n1\",\"state\":[\"IDLE\"]}],\"errors\":[]}"},
		       {200, "{\"nodes\":[{\"name\":\"n1\",\"state\":[\"IDLE\"]}],\"errors\":[]}"},
		       {200, "{\"nodes\":[{\"name\":\"n1\",\"state\":[\"IDLE\",\"DRAIN\"]}],\"errors\":[]}"});
		bool changed = false;
		assert_null(td_slurm_view_nodes(v));
		assert_int_equal(td_slurm_view_poll_nodes(v, slurm, 5, NULL, &changed, &err), 0);
		assert_true(changed);
		assert_int_equal(td_slurm_view_poll_nodes(v, slurm, 6, NULL, &changed, &err), 0);
		assert_false(changed);
		td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *a = td_slurm_view_nodes(v);
		assert_int_equal(td_slurm_view_poll_nodes(v, slurm, 7, NULL, &changed, &err), 0);
		assert_true(changed);
		td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *b = td_slurm_view_nodes(v);
		assert_int_equal(a->seq, 2);
		assert_int_equal(a->gen, 1);
		assert_int_equal(b->gen, 2);
		// An old snapshot stays as it was.
		assert_int_equal(a->nodes.v[0].states, TD_NODE(IDLE));
	}
}

#define NODE_LIST(at, state)                                                                                           \
	"{\"nodes\":[{\"name\":\"n1\",\"state\":[\"" state "\"]}],\"last_update\":{\"set\":true,\"number\":" #at       \
	"},\"errors\":[]}"
#define UNCHANGED {304, ""}
#define CHANGED {500, ERR(-1, "Unspecified error")}

// Polls the nodes at now_ms. Returns how many requests that took; *ret: they differ.
static size_t poll_nodes(struct td_slurm_view *v, int64_t now_ms, bool *ret)
{
	size_t before = fake.asked;
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_slurm_view_poll_nodes(v, slurm, now_ms, NULL, ret, &err), 0);
	return fake.asked - before;
}

static int64_t age_of(struct td_slurm_view *v)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *s = td_slurm_view_nodes(v);
	return s->asked_ms;
}

static void test_nodes_are_listed_when_they_change(void **state)
{
	td_auto(td_slurm_view_free) struct td_slurm_view *v = td_slurm_view_new();
	bool diff;
	ANSWER({200, NODE_LIST(100, "IDLE")}, {200, NODE_LIST(100, "IDLE")}, UNCHANGED, UNCHANGED,
	       // a change that means nothing: one list, and one more when its second is over
	       CHANGED, {200, NODE_LIST(110, "IDLE")}, CHANGED, UNCHANGED, {200, NODE_LIST(111, "IDLE")}, UNCHANGED,
	       // one that means something: lists until two are the same
	       CHANGED, {200, NODE_LIST(120, "DOWN")}, {200, NODE_LIST(120, "DOWN")},
	       // another one in the next second is not waited for
	       CHANGED, CHANGED, {200, NODE_LIST(121, "IDLE")}, {500, ERR(5004, "Socket timed out")});
	assert_int_equal(poll_nodes(v, 1000, &diff), 1);
	assert_true(diff);
	assert_int_equal(poll_nodes(v, 1250, &diff), 1);
	assert_false(diff);
	assert_int_equal(poll_nodes(v, 1500, &diff), 1);
	assert_int_equal(age_of(v), 1500); // as fresh as a list
	assert_int_equal(poll_nodes(v, 11000, &diff), 1);
	assert_int_equal(age_of(v), 11000);

	assert_int_equal(poll_nodes(v, 11250, &diff), 2);
	assert_false(diff);
	assert_int_equal(poll_nodes(v, 11500, &diff), 1);
	assert_int_equal(poll_nodes(v, 11750, &diff), 1);
	assert_int_equal(age_of(v), 11250); // what came after the list in its second is not known
	assert_int_equal(poll_nodes(v, 12250, &diff), 1);
	assert_int_equal(poll_nodes(v, 12500, &diff), 1);
	assert_int_equal(age_of(v), 12500);

	assert_int_equal(poll_nodes(v, 20000, &diff), 2);
	assert_true(diff);
	assert_int_equal(poll_nodes(v, 20250, &diff), 1);
	assert_false(diff);
	assert_int_equal(poll_nodes(v, 20500, &diff), 1);
	assert_int_equal(poll_nodes(v, 20750, &diff), 2);
	assert_true(diff);

	struct td_slurm_nodes_pace p = {.since = 5, .read_ms = 100};
	int64_t since;
	assert_int_equal(td_slurm_nodes_next(&p, 60099, &since), TD_NODES_ASK);
	assert_int_equal(td_slurm_nodes_next(&p, 60100, &since), TD_NODES_READ); // to be sure
	assert_int_equal(td_slurm_nodes_changed(slurm, 5, NULL, &diff, NULL), TD_TRANSIENT);
}

#define TWO(at, a, b)                                                                                                  \
	"{\"nodes\":[{\"name\":\"n1\",\"state\":[\"" a "\"]},{\"name\":\"n2\",\"state\":[\"" b                         \
	"\"]}],\"last_update\":{\"set\":true,\"number\":" #at "},\"errors\":[]}"
#define ONE(name, state) "{\"nodes\":[{\"name\":\"" name "\",\"state\":[\"" state "\"]}],\"errors\":[]}"

static uint64_t states_of(struct td_slurm_view *v, size_t i)
{
	td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *s = td_slurm_view_nodes(v);
	return s->nodes.v[i].states;
}

// Of many nodes the list is kept back, and those of which somebody said so are read by themselves. Nothing is lost.
static void test_nodes_are_read_by_themselves_between_lists(void **state)
{
	td_auto(td_slurm_view_free) struct td_slurm_view *v = td_slurm_view_new();
	bool diff;
	td_slurm_view_paced(v, &(struct td_slurm_list_pace){.times = 1, .least_ms = 5000, .few = 1});
	ANSWER({200, TWO(100, "IDLE", "IDLE")},
	       // the list would be due for its news, and is kept back: one node is read
	       {200, ONE("n2", "MIXED")},
	       // at last it comes, and once more because it differed; nobody told of n1
	       {200, TWO(110, "DOWN", "MIXED")}, {200, TWO(115, "DOWN", "MIXED")},
	       // nothing has changed: what somebody said is void
	       UNCHANGED,
	       // a node that is drained with a job on it is read without a word, until its job is gone
	       CHANGED, {200, TWO(140, "DOWN", "MIXED\",\"DRAIN")}, {200, ONE("n2", "MIXED\",\"DRAIN")},
	       {200, ONE("n2", "IDLE\",\"DRAIN")},
	       // a node that is gone: the list says so, in its time
	       {200, "{\"nodes\":[],\"errors\":[{\"error_number\":0,\"error\":\"\"}]}"}, {200, NODE_LIST(150, "DOWN")});
	td_slurm_view_hint(v, "n1"); // before the first list: it shows it
	assert_int_equal(poll_nodes(v, 1000, &diff), 1);
	uint64_t stir = td_slurm_view_stir(v);

	td_slurm_view_hint(v, "n2");
	td_slurm_view_hint(v, "n2");
	td_slurm_view_hint(v, "unknown");
	assert_int_equal(poll_nodes(v, 1250, &diff), 1);
	assert_true(diff);
	assert_int_equal(states_of(v, 1), TD_NODE(MIXED));
	assert_true(td_slurm_view_stir(v) > stir);
	stir = td_slurm_view_stir(v);
	assert_int_equal(poll_nodes(v, 1500, &diff), 0);
	assert_false(diff);
	assert_true(td_slurm_view_stir(v) > stir); // while the list is kept back nobody knows what has changed
	{
		td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *s = td_slurm_view_nodes(v);
		assert_int_equal(s->asked_ms, 1000); // of all of them
		assert_int_equal(td_slurm_snapshot_seen(s, "n1"), 1000);
		assert_int_equal(td_slurm_snapshot_seen(s, "n2"), 1250);
		assert_true(s->gen > s->whole);
		assert_int_equal(td_slurm_snapshot_late(s, 1000 + s->gap_ms), 0);
		assert_int_equal(td_slurm_snapshot_late(s, 1007 + s->gap_ms), 7);
	}

	assert_int_equal(poll_nodes(v, 20000, &diff), 1);
	assert_true(diff);
	assert_int_equal(states_of(v, 0), TD_NODE(DOWN));
	assert_int_equal(poll_nodes(v, 40000, &diff), 1);
	assert_false(diff);

	td_slurm_view_hint(v, "n1");
	assert_int_equal(poll_nodes(v, 40250, &diff), 1);
	assert_int_equal(age_of(v), 40250);

	assert_int_equal(poll_nodes(v, 60000, &diff), 2);
	assert_int_equal(poll_nodes(v, 60250, &diff), 1);
	assert_false(diff);
	assert_int_equal(poll_nodes(v, 60500, &diff), 1);
	assert_true(diff);
	assert_int_equal(states_of(v, 1), TD_NODE(IDLE) | TD_NODE(DRAIN));

	td_slurm_view_hint(v, "n2");
	assert_int_equal(poll_nodes(v, 60750, &diff), 1);
	assert_false(diff);
	assert_int_equal(poll_nodes(v, 80000, &diff), 1);
	assert_true(diff);
}

// One that cannot be read: what was read before it is not in the view either, for whoever polls is told of a failure
// only. One that is as it was is known to be so now.
static void test_nodes_that_are_read_by_themselves_come_together(void **state)
{
	td_auto(td_slurm_view_free) struct td_slurm_view *v = td_slurm_view_new();
	bool diff = false;
	td_slurm_view_paced(v, &(struct td_slurm_list_pace){.times = 1, .least_ms = 5000, .few = 1});
	ANSWER({200, TWO(100, "IDLE", "IDLE")}, {200, ONE("n1", "DOWN")}, {500, ERR(5004, "Socket timed out")},
	       {200, ONE("n2", "IDLE")}, {200, TWO(110, "DOWN", "IDLE")});
	assert_int_equal(poll_nodes(v, 1000, &diff), 1);
	td_slurm_view_hint(v, "n1");
	td_slurm_view_hint(v, "n2");
	assert_int_equal(td_slurm_view_poll_nodes(v, slurm, 1250, NULL, &diff, NULL), TD_TRANSIENT);
	assert_false(diff);
	assert_int_equal(states_of(v, 0), TD_NODE(IDLE));

	td_slurm_view_hint(v, "n2");
	assert_int_equal(poll_nodes(v, 1500, &diff), 1);
	assert_false(diff);
	{
		td_auto(td_slurm_snapshot_unref) struct td_slurm_snapshot *s = td_slurm_view_nodes(v);
		assert_int_equal(td_slurm_snapshot_seen(s, "n1"), 1000);
		assert_int_equal(td_slurm_snapshot_seen(s, "n2"), 1500);
	}
	assert_int_equal(poll_nodes(v, 20000, &diff), 1);
	assert_true(diff);
	assert_int_equal(states_of(v, 0), TD_NODE(DOWN));
}

// Where little changes, the list is not kept back.
static void test_lists_that_were_not_read_are_kept_for_later(void **state)
{
	td_auto(td_slurm_view_free) struct td_slurm_view *v = td_slurm_view_new();
	bool diff;
	td_slurm_view_paced(v, &(struct td_slurm_list_pace){.times = 1, .least_ms = 5000, .few = 1, .burst = 1});
	ANSWER({200, TWO(100, "IDLE", "IDLE")}, {200, TWO(100, "IDLE", "IDLE")}, CHANGED,
	       {200, TWO(130, "DOWN", "IDLE")}, {200, TWO(131, "DOWN", "DOWN")}, {200, TWO(140, "DOWN", "IDLE")});
	poll_nodes(v, 100000, &diff);
	assert_int_equal(poll_nodes(v, 100250, &diff), 1);
	assert_int_equal(poll_nodes(v, 130000, &diff), 2);
	assert_true(diff);
	assert_int_equal(poll_nodes(v, 130250, &diff), 1); // it differed
	assert_true(diff);
	assert_int_equal(poll_nodes(v, 130500, &diff), 0); // now it is kept back
	assert_int_equal(poll_nodes(v, 150000, &diff), 1);
}

static void test_many_ids_are_asked_in_pieces(void **state)
{
	int64_t ids[900];
	for (int i = 0; i < 900; i++)
		ids[i] = i + 1;
	ANSWER({200, "{\"jobs\":[{\"job_id\":\"1\",\"state\":[\"RUNNING\"]}],\"errors\":[]}"});
	td_auto_states struct td_slurm_states l = {0};
	assert_int_equal(td_slurm_job_states(slurm, ids, 900, NULL, &l, NULL), 0);
	assert_int_equal(fake.asked, 3);
	assert_int_equal(l.n, 3);
}

static void test_tokens(void **state)
{
	struct td_clock_manual m;
	td_clock_manual_init(&m, 1000000);
	td_auto(td_slurm_tokens_free) struct td_slurm_tokens *t = td_slurm_tokens_new(key, strlen(key), 600, &m.clock);
	td_auto_free char *a = NULL, *b = NULL, *c = NULL, *d = NULL, *claims = NULL;

	assert_int_equal(td_slurm_token(t, "alice", &a, NULL), 0);
	assert_int_equal(td_jwt_verify(key, strlen(key), a, &claims, NULL), 0);
	assert_string_equal(claims, "{\"exp\":1600,\"iat\":1000,\"sun\":\"alice\"}");

	td_clock_manual_add(&m, 299999);
	assert_int_equal(td_slurm_token(t, "alice", &b, NULL), 0);
	assert_string_equal(a, b);

	td_clock_manual_add(&m, 1); // now half of the token's life is over
	assert_int_equal(td_slurm_token(t, "alice", &c, NULL), 0);
	assert_string_not_equal(a, c);
	assert_int_equal(td_slurm_token(t, "bob", &d, NULL), 0);
	assert_string_not_equal(c, d);

	static const char *const bad[] = {
		"", "Alice", "a\"b", "a b", "-a", "12x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_false(td_slurm_user_ok(bad[i]));
	assert_true(td_slurm_user_ok("2001"));
	assert_true(td_slurm_user_ok("_x-y.z1"));
	assert_false(td_slurm_user_ok(NULL));
}

static void *serve_socket(void *server)
{
	td_http_server_run(server, fake.cancel, NULL);
	return NULL;
}

static void test_a_socket_with_a_long_path(void **state)
{
	char top[] = "/tmp/td-rest-XXXXXX";
	assert_non_null(mkdtemp(top));
	td_auto_free char *at = td_asprintf("unix:%s/s", top), *dir = td_asprintf("%s/%0150d", top, 7),
			  *sock = td_asprintf("%s/api.sock", dir), *url = td_asprintf("unix:%s", sock);
	const char *const listen[] = {at, NULL};
	const struct td_http_server_opts o = {.listen = listen, .handler = handler};
	const struct td_slurm_opts so = {.url = url, .key = key, .key_len = strlen(key)};
	struct td_http_server *server;
	struct td_slurm *s = NULL;
	struct td_error err = TD_ERROR_INIT;
	pthread_t t;

	// The pod is just starting, and its directory is not there: surely nothing was sent.
	assert_int_equal(td_slurm_new(&so, &s, &err), TD_TRANSIENT);

	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(td_slurm_new(&so, &s, &err), 0);
	assert_int_equal(td_slurm_check(s, NULL, &err), TD_TRANSIENT);
	assert_true(td_slurm_is_silence(&err));

	assert_int_equal(td_http_server_new(&o, &server, &err), 0);
	assert_int_equal(rename(at + strlen("unix:"), sock), 0);
	pthread_create(&t, NULL, serve_socket, server);
	ANSWER({200, "{\"jobs\":[],\"errors\":[],\"warnings\":[]}"});
	assert_int_equal(td_slurm_check(s, NULL, &err), 0);
	assert_string_equal(td_slurm_url(s), url);

	td_slurm_free(s);
	td_cancel_fire(fake.cancel); // ends both servers, so this is the last test
	pthread_join(t, NULL);
	td_http_server_free(server);

	unlink(sock);
	rmdir(dir);
	rmdir(top);
}

static void test_where(void **state)
{
	static const char pattern[] = "/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{name}";
	static const struct {
		const char *pod, *dirs, *url;
		int code;
	} t[] = {
		{"{\"status\":{\"podIP\":\"10.1.2.3\"}}", pattern, "http://10.1.2.3:6820", 0},
		{"{\"status\":{\"podIP\":\"fd00::1\"}}", NULL, "http://[fd00::1]:6820", 0},
		{"{\"status\":{}}", pattern, NULL, TD_TRANSIENT},
		{"{\"metadata\":{\"uid\":\"u-1\",\"annotations\":{\"tandem.dev/rest-access\":\"socket\"}}}", pattern,
		 "unix:/var/lib/kubelet/pods/u-1/volumes/kubernetes.io~empty-dir/rest/private/api.sock", 0},
		{"{\"metadata\":{\"uid\":\"u-1\",\"annotations\":{\"tandem.dev/rest-access\":\"socket\"}}}", NULL, NULL,
		 TD_INVALID},
	};

	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto(td_json_unref) struct td_json *j = NULL;
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(td_json_parse(t[i].pod, strlen(t[i].pod), &j, NULL), 0);
		td_auto_free char *url = td_slurm_pod_url(td_json_root(j), t[i].dirs, &err);
		assert_int_equal(err.code, t[i].code);

		if (t[i].url)
			assert_string_equal(url, t[i].url);
		else
			assert_null(url);
	}
}

static void test_tasks_of_an_array(void **state)
{
	static const struct {
		const char *tasks;
		int64_t task;
		bool has;
	} t[] = {{"2-5%2", 2, true},  {"2-5%2", 5, true},     {"2-5%2", 6, false},    {"7", 7, true},
		 {"7", 8, false},     {"1,3,9-11", 10, true}, {"1,3,9-11", 2, false}, {"0-8:4", 4, true},
		 {"0-8:4", 5, false}, {"", 0, false},         {NULL, 0, false},       {"x", 0, false}};
	for (size_t i = 0; i < TD_LEN(t); i++)
		assert_int_equal(td_slurm_tasks_has(t[i].tasks, t[i].task), t[i].has);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_submit),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_only_a_history_that_is_too_large_is_unsupported),
		cmocka_unit_test(test_token_is_minted_again_after_511),
		cmocka_unit_test(test_another_parser_version_is_found),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_jobs_of_2511),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_states_and_view),
		cmocka_unit_test(test_nodes_are_listed_when_they_change),
		cmocka_unit_test(test_nodes_are_read_by_themselves_between_lists),
		cmocka_unit_test(test_nodes_that_are_read_by_themselves_come_together),
		cmocka_unit_test(test_lists_that_were_not_read_are_kept_for_later),
		cmocka_unit_test(test_many_ids_are_asked_in_pieces),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_tasks_of_an_array),
		cmocka_unit_test(test_a_socket_with_a_long_path),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
