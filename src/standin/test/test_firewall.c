// The firewall between users: what it reads, who is let in, and which jobs count.
// rows: C9.1
#include "standin/firewall.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static struct in6_addr at(const char *s)
{
	struct firewall_block b;
	assert_true(td_firewall_block(s, &b));
	return b.at;
}

static void test_packets(void **state)
{
	// TCP over IPv4 with an option, from 10.1.2.3:4660 to 10.0.0.1:22136.
	uint8_t four[24 + 20] = {0x46, [9] = IPPROTO_TCP, [12] = 10, 1,    2,   3, 10, 0, 0,
				 1,    [24] = 0x12,       0x34,      0x56, 0x78};
	struct firewall_flow f;
	const uint8_t *data;
	size_t n;
	assert_true(td_firewall_packet(four, sizeof(four), &f, &data, &n));
	assert_int_equal(f.proto, IPPROTO_TCP);
	struct in6_addr from = at("10.1.2.3"), to = at("10.0.0.1");
	assert_memory_equal(&f.from.at, &from, 16);
	assert_memory_equal(&f.to.at, &to, 16);
	assert_int_equal(f.from.port, 0x1234);
	assert_int_equal(f.to.port, 0x5678);
	assert_int_equal(n, 0);
	for (size_t i = 0; i < sizeof(four); i++) // not all there
		assert_false(td_firewall_packet(four, i, &f, &data, &n));
	assert_false(td_firewall_fragment(four, sizeof(four)));
	four[7] = 1; // a later fragment has no ports
	assert_false(td_firewall_packet(four, sizeof(four), &f, &data, &n));
	four[7] = 0;
	four[9] = IPPROTO_ICMP;
	assert_false(td_firewall_packet(four, sizeof(four), &f, &data, &n));

	// UDP over IPv6, behind an extension and a first fragment's head.
	uint8_t six[40 + 8 + 8 + 8 + 3] = {0x60, [6] = IPPROTO_HOPOPTS, [23] = 1, [39] = 2};
	six[40] = IPPROTO_FRAGMENT;
	six[48] = IPPROTO_UDP;
	six[51] = 1; // more follow
	memcpy(six + 56, (uint8_t[]){0, 53, 0x1a, 0xa5}, 4);
	memcpy(six + 64, "abc", 3);
	assert_true(td_firewall_packet(six, sizeof(six), &f, &data, &n));
	from = at("::1");
	assert_memory_equal(&f.from.at, &from, 16);
	assert_int_equal(f.from.port, 53);
	assert_int_equal(f.to.port, FIREWALL_PORT);
	assert_int_equal(n, 3);
	assert_memory_equal(data, "abc", 3);
	assert_false(td_firewall_fragment(six, sizeof(six)));
	six[51] = 8;
	assert_false(td_firewall_packet(six, sizeof(six), &f, &data, &n));
	assert_true(td_firewall_fragment(six, sizeof(six)));
	assert_false(td_firewall_fragment(six, 55)); // its head is not all there
	six[51] = 0;
	six[41] = 255; // an extension that is longer than the packet
	assert_false(td_firewall_packet(six, sizeof(six), &f, &data, &n));
}

static void test_messages(void **state)
{
	struct firewall_message m = {.answer = true,
				     .known = true,
				     .number = 0x0123456789abcdef,
				     .flow = {IPPROTO_UDP, {at("fd00::1"), 1}, {at("10.0.0.1"), 65535}},
				     .uid = 3001,
				     .accounts = "red\nblue\n"},
				got;
	uint8_t b[FIREWALL_MESSAGE], again[FIREWALL_MESSAGE];
	size_t n = td_firewall_write(&m, b);
	assert_true(td_firewall_read(b, n, &got));
	assert_int_equal(td_firewall_write(&got, again), n);
	assert_memory_equal(b, again, n);
	assert_true(got.answer && got.known && got.number == m.number && got.uid == 3001 && got.flow.to.port == 65535);
	assert_string_equal(got.accounts, m.accounts);
	for (size_t i = 0; i < 64; i++)
		assert_false(td_firewall_read(b, i, &got));
	b[n - 1] = '\0';
	assert_false(td_firewall_read(b, n, &got));
	m.answer = m.known = false;
	*m.accounts = '\0';
	assert_int_equal(td_firewall_write(&m, b), 64);
	assert_true(td_firewall_read(b, 64, &got) && !got.answer && got.uid == 3001);
	b[7] = '2'; // of another version
	assert_false(td_firewall_read(b, 64, &got));
	memset(m.accounts, 'a', sizeof(m.accounts) - 1);
	m.answer = true;
	assert_int_equal(td_firewall_write(&m, b), FIREWALL_MESSAGE - 1);
	assert_true(td_firewall_read(b, FIREWALL_MESSAGE - 1, &got));
	assert_false(td_firewall_read(b, FIREWALL_MESSAGE, &got));
}

static void test_who_is_let_in(void **state)
{
	assert_true(td_firewall_may(3001, "", 3001, ""));
	assert_false(td_firewall_may(3001, "", 3002, ""));
	assert_true(td_firewall_may(3001, "", 0, ""));
	assert_true(td_firewall_may(0, "", 3002, ""));
	assert_true(td_firewall_may(3001, "", 64030, "")); // slurmctld
	assert_false(td_firewall_may(3001, "", 65534, ""));
	assert_true(td_firewall_may(3001, "red\nblue\n", 3002, "green\nblue\n"));
	assert_false(td_firewall_may(3001, "red\nblue\n", 3002, "re\nredd\nblu\n"));
	assert_false(td_firewall_may(3001, "red\n", 3002, "\n\n"));
	assert_false(td_firewall_may(3001, "\n", 3002, "\n")); // no account is none that two have

	struct firewall_block b;
	static const char *const wrong[] = {"",       "10.0.0.0/33", "10.0.0.0/", "10.0.0/8",
					    "::/129", "::/-1",       "::/1x",     "x"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(td_firewall_block(wrong[i], &b));
	struct in6_addr a = at("10.20.127.1"), out = at("10.20.128.1"), six = at("fd00::1");
	assert_true(td_firewall_block("10.20.0.0/17", &b) && td_firewall_within(&b, &a) &&
		    !td_firewall_within(&b, &out) && !td_firewall_within(&b, &six));
	assert_true(td_firewall_block("fd00::1", &b) && td_firewall_within(&b, &six) && !td_firewall_within(&b, &a));
	assert_true(td_firewall_block("0.0.0.0/0", &b) && td_firewall_within(&b, &a) && !td_firewall_within(&b, &six));
}

static void file(const char *dir, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_jobs(void **state)
{
	char jobs[] = "/tmp/firewall-jobs-XXXXXX", spool[] = "/tmp/firewall-spool-XXXXXX", got[FIREWALL_ACCOUNTS],
	     path[64];
	assert_true(mkdtemp(jobs) && mkdtemp(spool));
	file(jobs, "7", "3001 red\n");
	file(jobs, "8", "3001 blue\n");
	file(jobs, "9", "3001 red\n");
	file(jobs, "10", "3002 green\n");
	file(jobs, "11", "3001 gone\n"); // it has ended
	file(jobs, "12.new", "3001 half\n");
	file(jobs, "13", "3001");
	file(spool, "n_1_7.4294967292", "");
	file(spool, "n_1_8.0", "");
	file(spool, "n_1_9.batch", "");
	file(spool, "n_1_10.0", "");
	file(spool, "n_1_12.0", "");
	file(spool, "n_1_13.0", "");
	file(spool, "cred_state", "");
	file(spool, "n_1_11", ""); // no socket's name
	td_firewall_accounts(jobs, spool, 3001, got);
	assert_int_equal(strlen(got), strlen("red\nblue\n"));
	assert_true(strstr(got, "red\n") && strstr(got, "blue\n"));
	td_firewall_accounts(jobs, spool, 3002, got);
	assert_string_equal(got, "green\n");
	td_firewall_accounts(jobs, "/nowhere", 3002, got);
	assert_string_equal(got, "");

	// Only who runs the firewall says whose a job is: what others planted does not count, and soon they cannot.
	struct stat st;
	if (!geteuid()) {
		snprintf(path, sizeof(path), "%s/10", jobs);
		assert_int_equal(chown(path, 3002, 3002), 0);
		td_firewall_accounts(jobs, spool, 3002, got);
		assert_string_equal(got, "");
	}
	assert_int_equal(chmod(jobs, 0777), 0);
	assert_true(td_firewall_jobs_close(jobs) && td_firewall_jobs_close("/nowhere"));
	assert_true(!stat(jobs, &st) && (st.st_mode & 07777) == 0755);

	// What is said of jobs that ended long ago goes.
	const struct timeval old[2] = {{1, 0}, {1, 0}};
	snprintf(path, sizeof(path), "%s/11", jobs);
	td_firewall_sweep(jobs, spool);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(utimes(path, old), 0);
	snprintf(path, sizeof(path), "%s/7", jobs);
	assert_int_equal(utimes(path, old), 0);
	td_firewall_sweep(jobs, "/nowhere"); // who lives is not known
	assert_int_equal(access(path, F_OK), 0);
	td_firewall_sweep(jobs, spool);
	assert_int_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/11", jobs);
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "rm -r %s %s", jobs, spool);
	assert_int_equal(system(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_packets), cmocka_unit_test(test_messages),
					   cmocka_unit_test(test_who_is_let_in), cmocka_unit_test(test_jobs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
