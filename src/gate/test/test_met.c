// rows: B6.1
// Who met a device's fault is found once, and stays while the fault does, whoever holds the device then.
#include "gate/met.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct td_met now, all; // all: what runs on the node
static int asked;

static bool ask(void *ctx, int device, struct td_met *ret)
{
	asked++;
	if (device < 0) {
		*ret = all;
		return all.known;
	}
	*ret = now;
	return device == 3 && now.known;
}

static struct td_checkup_findings findings(void)
{
	struct td_checkup_findings l = {.n = 4};
	l.v[0] = (struct td_checkup_finding){.check = "xid", .device = "gpu3", .code = 79, .message = "gpu3: XID 79"};
	l.v[1] = (struct td_checkup_finding){.check = "disk-full", .message = "/ is full"};
	l.v[2] = (struct td_checkup_finding){.check = "xid", .device = "gpu5", .code = 48, .message = "gpu5: XID 48"};
	l.v[3] = (struct td_checkup_finding){.check = "site", .device = "gpu-1", .code = 1, .message = "site: odd"};
	return l;
}

// The annotation after a look.
static char *look(const char *before, struct td_checkup_findings *l)
{
	static struct td_met met[TD_HEALTH_FINDINGS];
	td_met_find(before, l, ask, NULL, met);
	td_met_say(met, l);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *list = yyjson_mut_arr(d);
	yyjson_mut_doc_set_root(d, list);
	for (size_t i = 0; i < l->n; i++) {
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "check", l->v[i].check);
		td_jm_str(d, o, "device", *l->v[i].device ? l->v[i].device : NULL);
		td_jm_str(d, o, "link", *l->v[i].link ? l->v[i].link : NULL);
		td_jm_int(d, o, "code", l->v[i].code);
		td_met_write(&met[i], d, o);
	}
	return td_json_mut_text(list, NULL);
}

static void it_stays_while_the_fault_does(void **state)
{
	(void)state;
	now = (struct td_met){.known = true, .live = true, .who = {.job = 7, .uid = "1000", .account = "ml"}};
	struct td_checkup_findings l = findings();
	td_auto_free char *first = look(NULL, &l);
	assert_string_equal(first,
			    "[{\"check\":\"xid\",\"device\":\"gpu3\",\"code\":79,\"met\":{\"job\":7,\"live\":true,"
			    "\"user\":\"1000\",\"account\":\"ml\"}},{\"check\":\"disk-full\",\"code\":0},"
			    "{\"check\":\"xid\",\"device\":\"gpu5\",\"code\":48},"
			    "{\"check\":\"site\",\"device\":\"gpu-1\",\"code\":1}]");
	assert_string_equal(l.v[0].message, "gpu3: XID 79, met by job 7");
	assert_string_equal(l.v[1].message, "/ is full");
	assert_string_equal(l.v[2].message, "gpu5: XID 48");

	// The next job, and an agent that began anew, change nothing. Of a fault that nobody met nobody is asked again.
	now.who.job = 8;
	asked = 0;
	l = findings();
	td_auto_free char *second = look(first, &l);
	assert_string_equal(second, first);
	assert_string_equal(l.v[0].message, "gpu3: XID 79, met by job 7");
	assert_int_equal(asked, 0);

	// Another XID is another fault.
	l = findings();
	l.v[0].code = 94;
	td_auto_free char *third = look(second, &l);
	assert_non_null(strstr(third, "\"job\":8"));
}

static void a_pod_is_named_when_it_is_the_jobs(void **state)
{
	(void)state;
	now = (struct td_met){.known = true,
			      .who = {.job = 9, .pod = true, .uid = "u-1", .ask = "u-1", .ask_pod = "ml/x"}};
	struct td_checkup_findings l = findings();
	td_auto_free char *text = look("no JSON", &l);
	assert_non_null(strstr(text, "{\"job\":9,\"live\":false,\"podUid\":\"u-1\",\"pod\":\"ml/x\"}"));
	assert_string_equal(l.v[0].message, "gpu3: XID 79, last held by job 9");
	l = findings();
	td_auto_free char *again = look(text, &l);
	assert_string_equal(again, text);

	// A native job may write any pod into its comment.
	now.who = (struct td_holder){.job = 10, .uid = "1000", .ask = "u-1", .ask_pod = "ml/x"};
	l = findings();
	td_auto_free char *native = look(NULL, &l);
	assert_null(strstr(native, "ml/x"));

	// Where there is no room for the words the message stays whole.
	l = findings();
	memset(l.v[0].message, 'x', sizeof(l.v[0].message) - 1);
	td_auto_free char *full = look(NULL, &l);
	assert_int_equal(strspn(l.v[0].message, "x"), sizeof(l.v[0].message) - 1);
}

static void a_fault_of_a_link_was_met_by_all_jobs_of_the_node(void **state)
{
	(void)state;
	now = (struct td_met){0};
	all = (struct td_met){
		.known = true, .live = true, .who = {.job = 7, .uid = "1000"}, .jobs = {7, 9}, .n_jobs = 2};
	struct td_checkup_findings l = {.n = 3};
	l.v[0] = (struct td_checkup_finding){
		.check = "infiniband", .link = "mlx5_0/1", .message = "port mlx5_0/1 is not active"};
	l.v[1] = (struct td_checkup_finding){.check = "exchange", .message = "job 7: none of its data came"};
	l.v[2] = (struct td_checkup_finding){.check = "memory", .code = 1, .message = "1 uncorrected errors of memory"};
	struct td_checkup_findings first_time = l;
	td_auto_free char *first = look(NULL, &first_time);
	assert_string_equal(first,
			    "[{\"check\":\"infiniband\",\"link\":\"mlx5_0/1\",\"code\":0,\"met\":{\"job\":7,"
			    "\"live\":true,\"user\":\"1000\",\"jobs\":[7,9]}},{\"check\":\"exchange\",\"code\":0},"
			    "{\"check\":\"memory\",\"code\":1,\"met\":{\"job\":7,\"live\":true,\"user\":\"1000\","
			    "\"jobs\":[7,9]}}]");
	assert_string_equal(first_time.v[0].message, "port mlx5_0/1 is not active, met by jobs 7, 9");
	assert_string_equal(first_time.v[1].message, "job 7: none of its data came");

	// It stays, and another port's fault is another one.
	all.n_jobs = 6;
	for (int k = 0; k < 6; k++)
		all.jobs[k] = 20 + k;
	all.who = (struct td_holder){.job = 20};
	struct td_checkup_findings again = l;
	snprintf(again.v[2].message, sizeof(again.v[2].message), "more");
	td_auto_free char *second = look(first, &again);
	assert_string_equal(second, first);
	assert_string_equal(again.v[2].message, "more, met by jobs 7, 9");
	again = l;
	snprintf(again.v[0].link, sizeof(again.v[0].link), "mlx5_1/1");
	td_auto_free char *third = look(first, &again);
	assert_string_equal(again.v[0].message, "port mlx5_0/1 is not active, met by jobs 20, 21, 22, 23 and 2 more");
	assert_non_null(strstr(third, "\"met\":{\"job\":20,\"live\":true,\"jobs\":[20,21,22,23,24,25]}"));
	all = (struct td_met){0};
}

static void native_jobs_keep_what_they_met(void **state)
{
	(void)state;
	td_auto_free char *a = td_met_jobs(
		"[{\"check\":\"xid\",\"message\":\"gpu3: XID 79, a=b, met by job "
		"7\",\"met\":{\"job\":7,\"live\":true,\"user\":\"1000\"}},"
		"{\"message\":\"port m_5 is down, met by jobs 8, 9\",\"met\":{\"job\":8,\"live\":true,\"jobs\":[8,9]}},"
		"{\"message\":\"gpu1: lost, last held by job 6\",\"met\":{\"job\":6}},"
		"{\"message\":\"of a pod\",\"met\":{\"job\":5,\"podUid\":\"u\"}},{\"message\":\"nobody's\"},"
		"{\"message\":\"of both\",\"met\":{\"job\":5,\"live\":true,\"podUid\":\"u\",\"jobs\":[5,7]}}]");
	assert_string_equal(
		a, "7:gpu3:_XID_79;_a_b,8:port_m~5_is_down,9:port_m~5_is_down,6:gpu1:_lost;_last_held_by_it,7:of_both");
	assert_null(td_met_jobs(NULL));
	assert_null(td_met_jobs("no json"));
	assert_null(td_met_jobs("[]"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_stays_while_the_fault_does),
		cmocka_unit_test(a_pod_is_named_when_it_is_the_jobs),
		cmocka_unit_test(native_jobs_keep_what_they_met),
		cmocka_unit_test(a_fault_of_a_link_was_met_by_all_jobs_of_the_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
