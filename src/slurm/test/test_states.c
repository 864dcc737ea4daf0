// Checks every state of both tables by name. A state that is added to a table without a line here
// fails the count.
// rows: A3.4
#include "base/mem.h"
#include "slurm/states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *name;
	enum td_job_phase alone, with_running; // what the flag means alone, and beside RUNNING
	bool ended;
} table[] = {
	{"PENDING", TD_PHASE_WAITING, TD_PHASE_RUNNING, false},
	{"RUNNING", TD_PHASE_RUNNING, TD_PHASE_RUNNING, false},
	{"SUSPENDED", TD_PHASE_LOST, TD_PHASE_LOST, false},
	{"COMPLETED", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"CANCELLED", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"FAILED", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"TIMEOUT", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"NODE_FAIL", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"PREEMPTED", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"BOOT_FAIL", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"DEADLINE", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"OUT_OF_MEMORY", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"LAUNCH_FAILED", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"UPDATE_DB", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"REQUEUED", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"REQUEUE_HOLD", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"SPECIAL_EXIT", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"RESIZING", TD_PHASE_LOST, TD_PHASE_LOST, false},
	{"CONFIGURING", TD_PHASE_STARTING, TD_PHASE_STARTING, false},
	{"COMPLETING", TD_PHASE_ENDING, TD_PHASE_ENDING, true},
	{"STOPPED", TD_PHASE_LOST, TD_PHASE_LOST, false},
	{"RECONFIG_FAIL", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"POWER_UP_NODE", TD_PHASE_STARTING, TD_PHASE_STARTING, false},
	{"REVOKED", TD_PHASE_ENDED, TD_PHASE_ENDED, true},
	{"REQUEUE_FED", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"RESV_DEL_HOLD", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"SIGNALING", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
	{"STAGE_OUT", TD_PHASE_ENDING, TD_PHASE_ENDING, true},
	{"EXPEDITING", TD_PHASE_UNKNOWN, TD_PHASE_RUNNING, false},
};

static void test_jobs(void **state)
{
	uint64_t all = 0;
	char buf[64];

	for (size_t i = 0; i < TD_LEN(table); i++) {
		uint64_t s = td_job_state_parse(table[i].name);
		assert_int_not_equal(s, TD_JOB(OTHER));
		assert_int_equal(all & s, 0);
		all |= s;
		assert_string_equal(td_job_states_text(s, buf, sizeof(buf)), table[i].name);
		if (td_job_phase(s) != table[i].alone || td_job_phase(s | TD_JOB(RUNNING)) != table[i].with_running ||
		    td_job_ended(s) != table[i].ended)
			fail_msg("%s", table[i].name);
	}

	assert_int_equal(TD_LEN(table), TD_JOB_BIT_OTHER);
	assert_int_equal(td_job_state_parse("SOMETHING_NEW"), TD_JOB(OTHER));
	assert_int_equal(td_job_state_parse(NULL), TD_JOB(OTHER));
	assert_int_equal(td_job_phase(TD_JOB(OTHER)), TD_PHASE_UNKNOWN);
	assert_int_equal(td_job_phase(TD_JOB(OTHER) | TD_JOB(RUNNING)), TD_PHASE_RUNNING);
	assert_int_equal(td_job_phase(0), TD_PHASE_UNKNOWN);
	// A requeued job: its grant is over.
	assert_int_equal(td_job_phase(TD_JOB(PENDING) | TD_JOB(COMPLETING)), TD_PHASE_ENDING);

	assert_string_equal(td_job_states_text(TD_JOB(CANCELLED) | TD_JOB(COMPLETING), buf, sizeof(buf)),
			    "CANCELLED+COMPLETING");
	assert_string_equal(td_job_end_words(TD_JOB(TIMEOUT) | TD_JOB(COMPLETING)), "its time limit was reached");

	char tiny[8];
	td_job_states_text(~UINT64_C(0), tiny, sizeof(tiny)); // does not write beyond the buffer
}

static const struct {
	const char *name, *words, *idle_words; // alone; with IDLE
	bool usable;                           // with IDLE
} nodes[] = {
	{"INVALID", "failed", "failed", false},
	{"UNKNOWN", "unknown", "idle", false},
	{"DOWN", "down", "down", false},
	{"IDLE", "idle", "idle", true},
	{"ALLOCATED", "allocated", "allocated", true},
	{"ERROR", "failed", "failed", false},
	{"MIXED", "mixed", "mixed", true},
	{"FUTURE", "future", "future", false},
	{"RESERVED", "unknown", "idle", false},
	{"UNDRAIN", "unknown", "idle", true},
	{"CLOUD", "unknown", "idle", true},
	{"RESUME", "unknown", "idle", true},
	{"DRAIN", "drained", "drained", false},
	{"COMPLETING", "completing", "completing", false},
	{"NOT_RESPONDING", "not responding", "not responding", false},
	{"POWERED_DOWN", "powered down", "powered down", false},
	{"FAIL", "failed", "failed", false},
	{"POWERING_UP", "powering up", "powering up", false},
	{"MAINTENANCE", "maintenance", "maintenance", false},
	{"REBOOT_REQUESTED", "unknown", "idle", false},
	{"REBOOT_CANCELED", "unknown", "idle", true},
	{"POWERING_DOWN", "powered down", "powered down", false},
	{"DYNAMIC_FUTURE", "unknown", "idle", false},
	{"REBOOT_ISSUED", "unknown", "idle", false},
	{"PLANNED", "unknown", "planned", true},
	{"INVALID_REG", "invalid registration", "invalid registration", false},
	{"POWER_DOWN", "powered down", "powered down", false},
	{"POWER_UP", "unknown", "idle", true},
	{"POWER_DRAIN", "unknown", "idle", false},
	{"DYNAMIC_NORM", "unknown", "idle", true},
	{"BLOCKED", "unknown", "idle", false},
	{"EXTERNAL", "unknown", "idle", false},
};

static void test_nodes(void **state)
{
	static const uint64_t bad[] = {TD_NODE(INVALID), TD_NODE(UNKNOWN),        TD_NODE(DOWN),       TD_NODE(ERROR),
				       TD_NODE(FAIL),    TD_NODE(NOT_RESPONDING), TD_NODE(INVALID_REG)};
	for (size_t i = 0; i < TD_LEN(bad); i++)
		assert_true(td_node_bad(bad[i] | TD_NODE(IDLE)) && !td_node_usable(bad[i] | TD_NODE(IDLE)));
	assert_false(td_node_bad(TD_NODE(IDLE) | TD_NODE(DRAIN) | TD_NODE(MAINTENANCE) | TD_NODE(COMPLETING)));
	assert_true(td_node_busy(TD_NODE(COMPLETING)) && td_node_busy(TD_NODE(MIXED)) &&
		    !td_node_busy(TD_NODE(IDLE) | TD_NODE(DRAIN)));

	for (size_t i = 0; i < TD_LEN(nodes); i++) {
		uint64_t s = td_node_state_parse(nodes[i].name);
		assert_int_not_equal(s, TD_NODE(OTHER));
		if (strcmp(td_node_words(s), nodes[i].words) != 0 ||
		    strcmp(td_node_words(s | TD_NODE(IDLE)), nodes[i].idle_words) != 0 ||
		    td_node_usable(s | TD_NODE(IDLE)) != nodes[i].usable)
			fail_msg("%s: %s, %s, %d", nodes[i].name, td_node_words(s), td_node_words(s | TD_NODE(IDLE)),
				 td_node_usable(s | TD_NODE(IDLE)));
	}

	assert_int_equal(TD_LEN(nodes), TD_NODE_BIT_OTHER);
	assert_int_equal(td_node_state_parse("NEW"), TD_NODE(OTHER));
	assert_true(td_node_drained(TD_NODE(IDLE) | TD_NODE(DRAIN)));
	assert_true(td_node_drained(TD_NODE(DOWN) | TD_NODE(DRAIN)));
	assert_false(td_node_drained(TD_NODE(MIXED) | TD_NODE(DRAIN)));
	assert_false(td_node_drained(TD_NODE(IDLE) | TD_NODE(DRAIN) | TD_NODE(COMPLETING)));

	assert_string_equal(td_node_words(TD_NODE(ALLOCATED) | TD_NODE(DRAIN)), "draining");
	assert_string_equal(td_node_words(TD_NODE(DOWN) | TD_NODE(DRAIN) | TD_NODE(REBOOT_ISSUED)), "rebooting");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_jobs), cmocka_unit_test(test_nodes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
