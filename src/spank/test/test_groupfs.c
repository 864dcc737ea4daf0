// Who has which file system of a storage group in his jobs and logins, and what is found where somebody else mounted it.
// rows: C8.1
#include "base/groupfiles.h"
#include "base/mem.h"
#include "spank/groupfs.h"
#include "spank/groupkeep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_line_is_for_whom_it_names(void **state)
{
	(void)state;
	static const struct {
		const char *text, *user;
		bool has;
	} rows[] = {
		{"file vault /vault\npeople vault ann bob\n", "bob", true},
		{"file vault /vault\npeople vault ann bob", "ann", true},
		{"people x,vault,y bob\nfile vault /vault\n", "bob", true},
		{"file vault /vault\npeople vault ann bob\n", "an", false},
		{"file vault /vault\npeople vault ann bob\n", "anna", false},
		{"file vault /vault\npeople vaul bob\npeople vault2 ann\n", "bob", false},
		// A name that is a word of the list is nobody's grant.
		{"file vault /vault\npeople vault ann\n", "vault", false},
		{"file vault /vault\npeople vault ann\n", "/vault", false},
		{"file vault /vault\npeople vault ann\n", "people", false},
		{"file vault /vault\npeople vault ann\n", "file", false},
		{"file vault /vault\n", "ann", false},
		{"file vault /vault\npeople vault ann\n", "", false},
		{"file vault /vault\npeople\npeople vault\n", "vault", false},
		{"\n\n", "ann", false},
		{"", "ann", false},
		// The list of an older release.
		{"vault /vault ann bob\n", "ann", false},
		{"file ../scratch /vault\npeople ../scratch ann\n", "ann", false},
		{"file .. /vault\npeople .. ann\n", "ann", false},
		{"file vault vault\npeople vault ann\n", "ann", false},
		{"file vault /a/../etc\npeople vault ann\n", "ann", false},
		{"file vault\npeople vault ann\n", "ann", false},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		struct td_groupfiles g;
		td_groupfiles_begin(&g, rows[i].text, rows[i].user);
		if (td_groupfiles_next(&g) != rows[i].has)
			fail_msg("%s for %s", rows[i].text, rows[i].user);
		assert_true(!rows[i].has || (!strcmp(g.name, "vault") && !strcmp(g.path, "/vault") &&
					     td_groupfiles_has(&g, "vault") && !td_groupfiles_next(&g)));
	}
}

static void without_the_directory_there_is_nothing_to_do(void **state)
{
	(void)state;
	char why[64] = "";
	assert_int_equal(td_groupfs_show("/nonexistent/groups", "/nonexistent/list", "ann", why, sizeof(why)), 0);
	assert_int_equal(td_groupfs_login("/nonexistent/groups", "/nonexistent/list", "ann", why, sizeof(why)), 0);
	assert_int_equal(td_groupfs_login("/", "/nonexistent/list", "ann", why, sizeof(why)), 0);
	assert_string_equal(why, "");
}

static void what_is_mounted_elsewhere_is_known_by_device_and_directory(void **state)
{
	(void)state;
	static const char *const pod[] = {
		"620 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/x",
		"621 620 8:1 /claims/home /home rw,relatime shared:1 - ext4 /dev/sda1 rw",
		"622 620 8:1 /claims/vault /var/lib/tandem/groups/vault rw - ext4 /dev/sda1 rw",
		"623 620 0:77 / /var/lib/tandem/groups/tape rw - nfs4 server:/tape rw",
		"624 623 0:78 / /var/lib/tandem/groups/tape/old rw - nfs4 server:/tape/old rw",
		"625 620 0:77 /public /public rw - nfs4 server:/tape/public rw",
		"626 620 8:1 /x /var/lib/tandem/groupsx/vault rw - ext4 /dev/sda1 rw",
	};
	static const struct {
		const char *line, *of;
	} rows[] = {
		{"90 80 8:1 /claims/vault /vault rw,nosuid,nodev - ext4 /dev/sda1 rw", "vault"},
		{"90 80 8:1 /claims/vault/deep/er /home/bob/x rw - ext4 /dev/sda1 rw", "vault"},
		{"90 80 8:1 /claims/vault2 /vault rw - ext4 /dev/sda1 rw", NULL},
		{"90 80 8:2 /claims/vault /vault rw - ext4 /dev/sdb1 rw", NULL},
		{"90 80 8:1 /claims/home/bob /mnt rw - ext4 /dev/sda1 rw", NULL},
		{"90 80 0:77 / /tape rw - nfs4 server:/tape rw", "tape"},
		{"90 80 0:77 /a /home/bob/x rw - nfs4 server:/tape rw", "tape"},
		{"90 80 0:78 / /tape/old rw - nfs4 server:/tape/old rw", "tape"},
		{"90 80 0:77 /public/a /mnt rw - nfs4 server:/tape rw", NULL},
		{"90 80 0:50 / / rw - overlay overlay rw", NULL},
		{"90 80 8:1 /x /y rw - ext4 /dev/sda1 rw", NULL},
	};
	struct td_groupmount own[TD_LEN(pod)], m;
	for (size_t i = 0; i < TD_LEN(pod); i++)
		assert_true(td_groupmount_read(pod[i], "/var/lib/tandem/groups", &own[i]));
	for (size_t i = 0; i < TD_LEN(rows); i++) {
		assert_true(td_groupmount_read(rows[i].line, NULL, &m));
		const char *of = td_groupmount_of(own, TD_LEN(pod), &m);
		if ((of == NULL) != (rows[i].of == NULL) || (of && strcmp(of, rows[i].of) != 0))
			fail_msg("%s: %s", rows[i].line, of ? of : "none");
	}
	assert_false(td_groupmount_read("", NULL, &m) || td_groupmount_read("a b c", NULL, &m));
}

static void who_has_one_no_more_has_lost_it(void **state)
{
	(void)state;
	static const char had[] = "file v /v\nfile w /w\npeople v ann bob\npeople v,w eve\n",
			  list[] = "file v /v\nfile w /w\npeople v ann eve\npeople w bob cid\n";
	assert_true(td_groupkeep_lost(had, list, "bob") && td_groupkeep_lost(had, list, "eve"));
	assert_false(td_groupkeep_lost(had, list, "ann") || td_groupkeep_lost(had, list, "cid") ||
		     td_groupkeep_lost(had, list, "dan") || td_groupkeep_lost(had, had, "eve"));
	// A slip in the spec takes one out of its group: nobody is logged out for it.
	assert_false(td_groupkeep_lost(had, "file v /v\npeople v ann bob eve\n", "eve"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_for_whom_it_names),
		cmocka_unit_test(without_the_directory_there_is_nothing_to_do),
		cmocka_unit_test(what_is_mounted_elsewhere_is_known_by_device_and_directory),
		cmocka_unit_test(who_has_one_no_more_has_lost_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
