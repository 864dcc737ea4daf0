// tandem usage: GPU hours and CPU hours by tenant, user or day, from Slurm's history, with prices.
#include "base/clock.h"
#include "base/mem.h"
#include "cli/ledger.h"
#include "cli/loginpod.h"
#include "cli/services.h"
#include "cli/yield.h"
#include "cmd/roles.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { JOBS, CPU, GPU, BUSY, IDLE }; // BUSY, IDLE: of GPU, as far as was measured
enum { DAY_S = 86400 };

struct usage_request {
	const char *by, *output, *since, *until, *tenant;
	double gpu_price, cpu_price;
	bool priced, yield;
	int64_t now; // epoch seconds: when it was asked
};

static int failed(const struct td_error *err)
{
	fprintf(stderr, "tandem usage: %s\n", err->msg);
	return 1;
}

// Reads a date, "2026-11-25": its first second, of UTC.
static bool date(const char *s, int64_t *ret)
{
	struct tm tm = {0};
	const char *end = strptime(s, "%Y-%m-%d", &tm);
	if (!end || *end)
		return false;
	*ret = (int64_t)timegm(&tm);
	return true;
}

static bool price(const char *s, double *ret)
{
	char *end;
	if (!s)
		return true;
	*ret = strtod(s, &end);
	return *s >= '0' && *s <= '9' && !*end && *ret < 1e9;
}

// The tenant whose account it is; an account that is none's in brackets.
static char *tenant_of(const struct td_objects *tenants, const char *account)
{
	for (size_t i = 0; i < tenants->n; i++)
		if (td_streq(td_jstr(tenants->v[i]->root, "status.account"), account))
			return td_strdup(tenants->v[i]->name);
	return td_asprintf("(%s)", *account ? account : "none");
}

static char *day_of(const char *days)
{
	char text[32];
	time_t t = (time_t)strtoll(days, NULL, 10) * DAY_S;
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d", &tm);
	return td_strdup(text);
}

static double cost(const struct usage_request *q, const struct td_ledger_row *r)
{
	return r->sum[GPU] / 3600 * q->gpu_price + r->sum[CPU] / 3600 * q->cpu_price;
}

static void print_json(const struct usage_request *q, const struct td_ledger *sums)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d), *list = td_jm_arr(d, root, "usage");
	for (size_t i = 0; i < sums->n; i++) {
		const struct td_ledger_row *r = &sums->v[i];
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, q->by, r->key[0]);
		td_jm_int(d, o, "jobs", (long long)r->sum[JOBS]);
		td_jm_set(d, o, "gpuHours", yyjson_mut_real(d, r->sum[GPU] / 3600));
		td_jm_set(d, o, "cpuHours", yyjson_mut_real(d, r->sum[CPU] / 3600));
		if (q->priced)
			td_jm_set(d, o, "cost", yyjson_mut_real(d, cost(q, r)));
		td_jm_set(d, o, "idleGpuHours", yyjson_mut_real(d, r->sum[IDLE] / 3600));
		if (td_cli_use(r->sum[BUSY], r->sum[IDLE]) >= 0)
			td_jm_set(d, o, "use", yyjson_mut_real(d, td_cli_use(r->sum[BUSY], r->sum[IDLE])));
	}
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(root);
	td_auto_free char *text = td_json_pretty(td_json_root(j));
	puts(text);
}

static void print_rows(const struct usage_request *q, const struct td_ledger *sums, bool csv)
{
	const char *row = csv ? "%s,%.0f,%.3f,%.3f" : "%-28.28s %6.0f %10.1f %10.1f";
	if (csv)
		printf("%s,jobs,gpu_hours,cpu_hours%s,idle_gpu_hours,use\n", q->by, q->priced ? ",cost" : "");
	else
		printf("%-28s %6s %10s %10s %7s %5s%s\n",
		       !strcmp(q->by, "day")       ? "DAY"
		       : !strcmp(q->by, "user")    ? "USER"
		       : !strcmp(q->by, "service") ? "SERVICE"
						   : "TENANT",
		       "JOBS", "GPU HOURS", "CPU HOURS", "IDLE", "USE", q->priced ? "     COST" : "");
	for (size_t i = 0; i < sums->n; i++) {
		const struct td_ledger_row *r = &sums->v[i];
		printf(row, r->key[0], r->sum[JOBS], r->sum[GPU] / 3600, r->sum[CPU] / 3600);
		double use = td_cli_use(r->sum[BUSY], r->sum[IDLE]);
		char percent[16] = "";
		if (use >= 0)
			snprintf(percent, sizeof(percent), csv ? "%.4f" : "%.0f %%", csv ? use : use * 100);
		if (csv && q->priced)
			printf(",%.2f", cost(q, r));
		if (csv)
			printf(",%.3f,%s", r->sum[IDLE] / 3600, percent);
		else
			printf(" %7.1f %5s", r->sum[IDLE] / 3600, percent);
		if (!csv && q->priced)
			printf(" %8.2f", cost(q, r));
		putchar('\n');
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct td_cli_yield_row *)a)->name, ((const struct td_cli_yield_row *)b)->name);
}

// lines: ACCOUNT|USER|END|RUNS|GPU SECONDS|THOSE THAT IDLED.
static void show_yield(const struct usage_request *q, const struct td_objects *tenants, const struct td_ledger *lines)
{
	size_t n = 0;
	td_auto_free struct td_cli_yield_row *rows = td_calloc(lines->n + 1, sizeof(*rows));
	for (size_t i = 0; i < lines->n; i++) {
		const struct td_ledger_row *r = &lines->v[i];
		td_auto_free char *tenant = tenant_of(tenants, r->key[0]);
		if (q->tenant && strcmp(tenant, q->tenant) != 0)
			continue;
		const char *name = !strcmp(q->by, "user") ? r->key[1] : tenant;
		size_t k = 0;
		while (k < n && strcmp(rows[k].name, name) != 0)
			k++;
		if (k == n)
			rows[n++].name = td_strdup(name);
		rows[k].runs += r->sum[0];
		rows[k].s[td_yield_of(r->key[2])] += r->sum[1];
		rows[k].idle += r->sum[2];
	}
	qsort(rows, n, sizeof(*rows), by_name);
	td_cli_yield_print(rows, n, q->by, q->output);
	for (size_t k = 0; k < n; k++)
		free(rows[k].name);
}

// Slurm's history knows how much the devices of a pod computed when its job has ended; until then its pod says it.
static void add_live(const struct td_cli_login *l, struct td_ledger *sums, int64_t from)
{
	td_auto_objects struct td_objects pods = {0};
	td_auto_services struct td_cli_services live = {0};
	struct td_error err = TD_ERROR_INIT;
	int64_t now = td_real_ms(&td_clock_system) / 1000;
	if (td_kube_list(l->kube, &td_pods, NULL, NULL, NULL, NULL, &pods, &err)) {
		fprintf(stderr, "tandem usage: IDLE and USE are of pods that have ended, without those that run: %s\n",
			err.msg);
		return;
	}
	td_cli_services_read(&pods, from, now, &live);
	for (size_t i = 0; i < live.n; i++)
		for (size_t k = 0; k < sums->n; k++)
			if (!strcmp(sums->v[k].key[0], live.v[i].name)) {
				sums->v[k].sum[BUSY] += live.v[i].busy;
				sums->v[k].sum[IDLE] += live.v[i].idle;
			}
}

static int show(const struct td_cli_login *l, const struct usage_request *q, int64_t from, int64_t to)
{
	struct td_error err = TD_ERROR_INIT;
	td_auto_objects struct td_objects tenants = {0};
	td_auto_buf struct td_buf out = {0};
	td_auto_ledger struct td_ledger lines = {0}, sums = {0};
	td_auto_free char *a = td_asprintf("%lld", (long long)from), *b = td_asprintf("%lld", (long long)to);
	const char *const args[] = {a, b, !strcmp(q->by, "service") ? "service" : "day", NULL};
	if (td_kube_list(l->kube, &td_tenants, NULL, NULL, NULL, NULL, &tenants, &err) ||
	    td_cli_login_run(l, q->yield ? "yield.sh" : "usage.sh", args, &out, &err))
		return failed(&err);
	if (td_ledger_read(td_buf_str(&out), q->yield ? 3 : TD_LEDGER_SUMS, &lines)) {
		td_cli_login_unread(l, td_buf_str(&out), &err);
		return failed(&err);
	}
	if (q->yield) {
		show_yield(q, &tenants, &lines);
		return 0;
	}

	for (size_t i = 0; i < lines.n; i++) {
		const struct td_ledger_row *r = &lines.v[i];
		td_auto_free char *tenant = tenant_of(&tenants, r->key[0]);
		td_auto_free char *key = !strcmp(q->by, "tenant")    ? td_strdup(tenant)
					 : !strcmp(q->by, "user")    ? td_strdup(r->key[1])
					 : !strcmp(q->by, "service") ? td_strdup(r->key[2])
								     : day_of(r->key[2]);
		if (q->tenant && strcmp(tenant, q->tenant) != 0)
			continue;
		struct td_ledger_row *s = td_ledger_at(&sums, key);
		for (int k = 0; k < TD_LEDGER_SUMS; k++)
			s->sum[k] += r->sum[k];
	}
	if (!strcmp(q->by, "service") && to >= q->now)
		add_live(l, &sums, from);
	td_ledger_sort(&sums);
	if (td_streq(q->output, "json"))
		print_json(q, &sums);
	else
		print_rows(q, &sums, td_streq(q->output, "csv"));
	return 0;
}

int td_usage_main(int argc, char **argv)
{
	struct td_remote remote = {0};
	struct td_error err = TD_ERROR_INIT;
	struct usage_request q = {.by = "tenant"};
	const char *gpu = NULL, *cpu = NULL;
	int code;
	const struct td_option options[] = {
		{.name = "by",
		 .value = "WHAT",
		 .help = "what the rows are (default: tenant)",
		 TD_OPT_TEXT(&q.by),
		 .choices = "tenant|user|day|service"},
		{.name = "tenant", .value = "NAME", .help = "of this tenant only", TD_OPT_TEXT(&q.tenant)},
		{.name = "since",
		 .value = "DATE",
		 .help = "from this day on, such as 2026-11-01 (default: 30 days ago)",
		 TD_OPT_TEXT(&q.since)},
		{.name = "until",
		 .value = "DATE",
		 .help = "before this day (default: up to now)",
		 TD_OPT_TEXT(&q.until)},
		{.name = "gpu-price",
		 .value = "AMOUNT",
		 .help = "of a GPU hour: adds a column with the cost",
		 TD_OPT_TEXT(&gpu)},
		{.name = "cpu-price", .value = "AMOUNT", .help = "of a CPU hour", TD_OPT_TEXT(&cpu)},
		{.name = "yield",
		 .help = "what became of the GPU hours: useful, or lost, and to what;\nruns of requeued jobs count "
			 "each",
		 TD_OPT_SWITCH(&q.yield)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json or csv: the answer for machines",
		 TD_OPT_TEXT(&q.output),
		 .choices = "json|csv"},
		TD_REMOTE_OPTIONS(&remote),
	};
	const struct td_command line = {
		.name = "usage",
		.about = "Shows how many GPU hours and CPU hours jobs and pods have held, from Slurm's history\n"
			 "(spec.accounting). Days are those of UTC; a job counts on the day of its start.\n"
			 "IDLE and USE: GPU hours of pods in which their GPUs computed nothing, and the part in\n"
			 "which they computed, as far as was measured. Services are Deployments and their like;\n"
			 "all other jobs and pods are (none).\n"
			 "An account that is no tenant's is in brackets.",
		.options = options,
		.n = TD_LEN(options),
		.exits = "0 answered, 1 no answer, 2 wrong usage."};
	if (!td_command_line(&line, argc, argv, NULL, &code))
		return code;
	if (td_remote_check(&remote, &err))
		return td_command_wrong("usage", "%s", err.msg);
	q.now = td_real_ms(&td_clock_system) / 1000;
	int64_t to = q.now, from = to - 30LL * DAY_S;
	if ((q.since && !date(q.since, &from)) || (q.until && !date(q.until, &to)))
		return td_command_wrong("usage", "--since and --until want a day, such as 2026-11-01");
	if (from >= to)
		return td_command_wrong("usage", "--since must be before --until");
	if (!price(gpu, &q.gpu_price) || !price(cpu, &q.cpu_price))
		return td_command_wrong("usage", "--gpu-price and --cpu-price want a number, such as 2.5");
	q.priced = gpu || cpu;
	if (q.yield && (q.priced || !strcmp(q.by, "day") || !strcmp(q.by, "service")))
		return td_command_wrong("usage", "--yield goes with --by tenant or user, and without prices");

	td_auto_login struct td_cli_login l = {0};
	return td_cli_login_open("usage", &remote, &l) ? 1 : show(&l, &q, from, to);
}
