// The client of the gateway: what `tandem submit` and its like share. Nothing here needs Linux, root or
// a cluster: it is what runs on a laptop.
#pragma once

#include "base/options.h"
#include "base/term.h"
#include "http/dial.h"
#include "json/json.h"

// Where the gateway is and who asks: $TANDEM_URL and $TANDEM_KEY, else the file that `tandem login`
// wrote ($XDG_CONFIG_HOME/tandem/login.json, mode 0600).
struct td_client {
	char *url, *user, *key, *ca;
	struct td_http_client *http;
};
// TD_NOT_FOUND: nobody has logged in here; the message says how.
int td_client_open(struct td_client *ret, struct td_error *err);
void td_client_close(struct td_client *c);
#define td_auto_client __attribute__((cleanup(td_client_close)))
// The directory of Tandem's own files of a person: "$VARIABLE/tandem", or below the home. The caller frees it.
char *td_client_own_dir(const char *variable, const char *below_home);
// Where login.json is, whether it exists or not. The caller frees it.
char *td_client_place(void);
// Whether somebody has logged in here.
bool td_client_known(void);
int td_client_save(const struct td_client *c, struct td_error *err);
int td_client_forget(struct td_error *err);
// Connects to c->url with c->key (may be NULL).
int td_client_connect(struct td_client *c, struct td_error *err);

// One call. body NULL: none. A refusal becomes its code and the gateway's words. ret may be NULL.
int td_client_call(struct td_client *c, const char *method, const char *path, const yyjson_mut_doc *body,
		   struct td_json **ret, struct td_error *err);
// The same with bytes.
int td_client_put(struct td_client *c, const char *path, const void *p, size_t n, struct td_error *err);
// Reads a reply as it comes. *ret_sent: so many bytes went to on_data.
int td_client_stream(struct td_client *c, const char *path, int (*on_data)(void *ctx, const char *p, size_t n),
		     void *ctx, struct td_error *err);

// Opens a WebSocket. A refusal becomes its code and the gateway's words.
int td_client_dial(struct td_client *c, const struct td_ws_dial *d, struct td_ws_far **ret, struct td_error *err);

// The run that somebody means by RUN, or by CLUSTER/RUN as a federation's runs are shown.
const char *td_client_run(const char *word);
// The run that somebody means (runname.c): by its id, CLUSTER/ID, the number of one of its jobs, or its name, which
// is that of the newest run so called. word NULL: the newest of all. alive: by its name only one that has not ended;
// TD_INVALID then: several are called so. *ret_id: the caller frees it. What has the form of an id and is not listed is
// taken as it is. TD_NOT_FOUND: there is none, and err says what to do.
int td_client_run_of(struct td_client *c, const char *word, bool alive, char **ret_id, struct td_error *err);
// The same among the answer of GET /api/v1/runs, newest first. Pure.
int td_client_run_pick(yyjson_val *runs, const char *word, bool alive, const char **ret_id, struct td_error *err);
// Whether this has the form of a run's id: NAME-xxxxxx.
bool td_client_run_is_id(const char *word);
// What a run is called when it is shown: CLUSTER/RUN where it is a federation's and has been given to one. The caller
// frees it.
char *td_client_run_shown(yyjson_val *run);
// Where its files are, with a "/" behind; "" for a federation's, which lie at its member. The caller frees it.
char *td_client_run_dir(const yyjson_val *run);

// Prints "tandem NAME: message"; returns 1.
int td_client_failed(const char *name, const struct td_error *err);
// How many replicas of an endpoint are ready, and what the others do; nothing for a session that has none.
void td_client_replicas(yyjson_val *session, struct td_buf *ret);
// The same of one over several nodes.
void td_client_nodes(yyjson_val *session, struct td_buf *ret);
// Says how a session's server answers, as one line; nothing where nobody has asked it.
void td_client_requests(yyjson_val *session, struct td_buf *ret);
// Says how a job or a step of a run goes (src/gateway/progress.h): "hangs on n1: no output for 1800 s (seen 12:03:59), stacks:
// tandem/runs/R/tandem-hang-7-n1.txt; queued again at 12:00:01, because n2: XID 79; goes on from checkpoint step-40.pt". dir: of the
// stacks, "" where it is not known. Nothing where there is nothing.
void td_client_progress(const yyjson_val *job, const char *dir, struct td_buf *ret);
// The state of a job as people see it: "hangs" and "slow" of one that runs.
const char *td_client_state(const yyjson_val *job);
// The colour of a state, of a session's too.
enum td_term_color td_client_color(const char *state);
// Why a job waits, and when it is expected to begin.
void td_client_waits(const yyjson_val *job, struct td_buf *ret);
// Appends a sentence about a record of /api/v1/jobs/N: what it is, and where it runs, why it waits or how it ended.
void td_client_job_says(const yyjson_val *job, struct td_buf *ret);
// "812 bytes", "14 kB", "3.1 MB", "2.0 GB". Returns buf.
const char *td_client_size(long long bytes, char *buf, size_t n);
// "12:03:59" of today, else "Nov 24 12:03". Returns buf.
const char *td_client_when(int64_t epoch, char *buf, size_t n);
#define TD_CLIENT_OUTPUT(p)                                                                                            \
	{.name = "output",                                                                                             \
	 .letter = 'o',                                                                                                \
	 .value = "FORMAT",                                                                                            \
	 .help = "json: the answer for machines",                                                                      \
	 TD_OPT_TEXT(p),                                                                                               \
	 .choices = "json"}
// Says in words what a schedule is (schedule.c).
void td_client_schedule_say(yyjson_val *s);
// Shows a run's log until the run has ended. Returns the exit code: 1 when the run failed (logs.c).
int td_client_follow(struct td_client *c, const char *command, const char *run, const char *step);
