// rows: C1.2 C8.1
// A Tenant's storage over its namespaces: the sum holds at every moment, and whoever needs room gets it. Storage groups.
#include "base/groupfiles.h"
#include "pool/storage.h"
#include "pool/storagegroup.h"
#include "pool/storagelist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SPACES = 4 };
static const size_t every[] = {0, 1, 2, 3};

static void split(const struct td_pool_storage_limit *l, size_t n_l, const struct td_pool_storage_space *s, size_t n,
		  int64_t *ret)
{
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	td_pool_storage_split(arena, l, n_l, s, n, ret);
}

static void one_namespace_has_all_of_it(void **state)
{
	int64_t said;
	const struct td_pool_storage_limit l = {100, every, 1};
	split(&l, 1, &(struct td_pool_storage_space){.counted = false}, 1, &said);
	assert_int_equal(said, 0); // nobody has counted yet
	split(&l, 1, &(struct td_pool_storage_space){.counted = true}, 1, &said);
	assert_int_equal(said, 100);
	split(&l, 1, &(struct td_pool_storage_space){true, 100, 100, 60}, 1, &said);
	assert_int_equal(said, 100);
	// More and less are taken over at once; what is there stays.
	split(&(struct td_pool_storage_limit){101, every, 1}, 1, &(struct td_pool_storage_space){true, 100, 100, 60}, 1,
	      &said);
	assert_int_equal(said, 101);
	split(&(struct td_pool_storage_limit){50, every, 1}, 1, &(struct td_pool_storage_space){true, 100, 100, 60}, 1,
	      &said);
	assert_int_equal(said, 60);
}

static void what_one_gives_up_others_get_when_it_is_enforced(void **state)
{
	int64_t said[2];
	const struct td_pool_storage_limit l = {100, every, 2};
	struct td_pool_storage_space s[] = {{true, 50, 50, 50}, {true, 50, 50, 0}};
	split(&l, 1, s, 2, said);
	assert_int_equal(said[0], 50); // not yet: the other may still use its 50
	assert_int_equal(said[1], 25);
	s[1].said = 25;
	split(&l, 1, s, 2, said);
	assert_int_equal(said[0], 50);
	s[1].hard = 25;
	split(&l, 1, s, 2, said);
	assert_int_equal(said[0], 75);
	assert_int_equal(said[1], 25);
	// Within an eighth of its part nothing is written.
	s[0] = (struct td_pool_storage_space){true, 75, 75, 52};
	split(&l, 1, s, 2, said);
	assert_int_equal(said[0], 75);
	assert_int_equal(said[1], 25);
}

static void the_quota_above_holds_too(void **state)
{
	int64_t said[2];
	static const size_t child[] = {1};
	const struct td_pool_storage_limit l[] = {{100, every, 2}, {30, child, 1}};
	struct td_pool_storage_space s[] = {{true, 0, 0, 0}, {true, 0, 0, 0}};
	split(l, 2, s, 2, said);
	assert_int_equal(said[0], 50);
	assert_int_equal(said[1], 30);
	// What the one above uses itself, those below have not.
	s[0] = (struct td_pool_storage_space){true, 95, 95, 95};
	split(l, 2, s, 2, said);
	assert_int_equal(said[1], 2);
}

static void who_asks_for_room_has_it_at_once(void **state)
{
	int64_t said[3];
	static const size_t below[] = {1, 2};
	const struct td_pool_storage_limit l[] = {{90, every, 3}, {50, below, 2}};
	struct td_pool_storage_space s[] = {{true, 20, 20, 0, 0}, {true, 20, 20, 10, 0}, {true, 20, 20, 0, 40}};
	// 80 are left, and 40 below, which are asked for: all of that, in two steps.
	split(l, 2, s, 3, said);
	assert_int_equal(said[1], 10); // it gives up what it has not used
	for (int step = 0; step < 3; step++) {
		for (int i = 0; i < 3; i++)
			s[i].hard = s[i].said = said[i];
		split(l, 2, s, 3, said);
	}
	assert_int_equal(said[1], 10);
	assert_int_equal(said[2], 40);
	assert_true(said[0] >= 13 && said[0] + said[1] + said[2] <= 90);
	// When it has used it, or asks no more, the others have their parts again.
	for (int step = 0; step < 3; step++) {
		s[2].room = 0;
		for (int i = 0; i < 3; i++)
			s[i].hard = s[i].said = said[i];
		split(l, 2, s, 3, said);
	}
	assert_int_equal(said[1], 30);
	assert_int_equal(said[2], 20);
	// More than there is: as much as there is, and what two ask for one after the other.
	s[0] = s[1] = s[2] = (struct td_pool_storage_space){.counted = true};
	s[0].room = INT64_MAX;
	s[2].room = 30;
	split(l, 2, s, 3, said);
	assert_int_equal(said[0], 90);
	assert_int_equal(said[2], 0);
}

// Claims come and go at random in several namespaces, the API server takes over what is said late, the quota changes:
// what claims can come to never goes beyond the quota (or what was there when it was lowered), and in the end whoever
// asks for what is left gets it.
static void the_sum_holds_whatever_happens(void **state)
{
	unsigned seed = 7;
	for (int run = 0; run < 300; run++) {
		struct td_pool_storage_space s[SPACES] = {0};
		static const size_t below[] = {2, 3};
		struct td_pool_storage_limit l[] = {{64, every, SPACES}, {20, below, 2}};
		int64_t most_used = 64;
		for (int step = 0; step < 400; step++) {
			struct td_pool_storage_space *x = &s[rand_r(&seed) % SPACES];
			int64_t size = 1 + rand_r(&seed) % 20, said[SPACES], sum = 0, under = 0;
			switch (rand_r(&seed) % 6) {
			case 5: // somebody asks for room, or has what he wanted
				x->room = rand_r(&seed) % 2 ? size * 3 : 0;
				break;
			case 0: // a claim: the API server takes it or not
				if (x->counted && x->used + size <= x->hard)
					x->used += size;
				break;
			case 1:
				x->used -= size < x->used ? size : x->used;
				break;
			case 2: // it takes over what is said
				x->hard = x->said;
				x->counted = true;
				break;
			default:
				split(l, 2, s, SPACES, said);
				for (size_t i = 0; i < SPACES; i++)
					s[i].said = said[i];
			}
			for (size_t i = 0; i < SPACES; i++) {
				sum += s[i].used;
				under += i >= 2 ? s[i].used : 0;
			}
			assert_true(sum <= most_used);
			assert_true(under <= 20);
		}
		// Now one namespace wants all that is left, in one piece or a piece at a time.
		int64_t left = 64;
		for (size_t i = 0; i < SPACES; i++) {
			s[i].room = 0;
			left -= s[i].used;
		}
		s[0].room = run % 2 ? left : 0;
		for (int step = 0; step < 100; step++) {
			int64_t said[SPACES];
			if (step == 10 && run % 2)
				assert_int_equal(s[0].hard - s[0].used, left);
			split(l, 2, s, SPACES, said);
			for (size_t i = 0; i < SPACES; i++) {
				s[i].hard = s[i].said = said[i];
				s[i].counted = true;
			}
			if (s[0].used < s[0].hard && (step >= 10 || !(run % 2)))
				s[0].used++;
		}
		assert_int_equal(s[0].used + s[1].used + s[2].used + s[3].used, 64);
	}
}

static void a_group_is_for_those_to_whom_it_is_granted(void **state)
{
	static const char *const nvme[] = {"nvme", "nvme-wide"}, *const both[] = {"nvme", "tape"};
	struct td_pool_storage_group g[] = {{.name = "fast", .classes = nvme, .n_classes = 2},
					    {.name = "archive", .classes = both, .n_classes = 2}};
	static const char *const fast[] = {"other", "fast"}, *const archive[] = {"archive"};
	static const struct {
		const char *class;
		const char *const *has;
		size_t n;
		bool may;
	} rows[] = {
		{"nvme", NULL, 0, false},   {"tape", NULL, 0, false},   {"nfs", NULL, 0, true},
		{"", NULL, 0, true},        {"nvme", fast, 2, true},    {"nvme-wide", fast, 2, true},
		{"tape", fast, 2, false},   {"nvme", archive, 1, true}, {"nvme-wide", archive, 1, false},
		{"tape", archive, 1, true}, {"nvme", fast, 1, false},   {"nvm", fast, 1, true},
	};
	for (size_t i = 0; i < TD_LEN(rows); i++)
		assert_int_equal(td_pool_storage_may(g, 2, rows[i].class, rows[i].has, rows[i].n), rows[i].may);
	assert_true(td_pool_storage_may(NULL, 0, "nvme", NULL, 0));

	static const char *const vault[] = {"vault"};
	g[0].files = vault;
	g[0].n_files = 1;
	assert_true(td_pool_storage_grouped(g, 2, "vault") && !td_pool_storage_grouped(g, 2, "home"));
	assert_true(td_pool_storage_sees(g, 2, "vault", fast, 2) && td_pool_storage_sees(g, 2, "home", NULL, 0));
	assert_false(td_pool_storage_sees(g, 2, "vault", archive, 1) || td_pool_storage_sees(g, 2, "vault", NULL, 0));
	assert_true(td_pool_storage_holds(&g[0], "vault"));
	assert_false(td_pool_storage_holds(&g[1], "vault") || td_pool_storage_holds(&g[0], "home"));
	td_pool_storage_count(g, 2, "nvme", 5);
	td_pool_storage_count(g, 2, "tape", 7);
	td_pool_storage_count(g, 2, "nfs", 9);
	td_pool_storage_count(g, 2, "nvme-wide", INT64_MAX);
	assert_int_equal(g[0].claims, 2);
	assert_int_equal(g[0].bytes, INT64_MAX);
	assert_int_equal(g[1].claims, 2);
	assert_int_equal(g[1].bytes, 12);
}

// What a reader finds of a user: "name=path …".
static void has(const char *text, const char *user, char *ret, size_t n)
{
	struct td_groupfiles g;
	size_t at = 0;
	*ret = '\0';
	for (td_groupfiles_begin(&g, text, user); td_groupfiles_next(&g) && at < n;)
		at += (size_t)snprintf(ret + at, n - at, "%s%s=%s", at ? " " : "", g.name, g.path);
}

static void the_list_says_who_has_what(void **state)
{
	(void)state;
	static const struct td_pool_storage_file files[] = {
		{"vault", "/vault"}, {"fast", "/mnt/fast"}, {"none", "/none"}};
	struct td_pool_storage_has v[] = {{"eve", 0}, {"bob", 1}, {"ann", 0}, {"ann", 1},
					  {"bob", 0}, {"cid", 1}, {"ann", 0}};
	struct td_pool_storage_list l = {files, 3, v, TD_LEN(v)};
	char seen[200];
	size_t left = 9;
	td_auto_free char *text = td_pool_storage_text(&l, TD_STORAGE_LIST_MOST, &left);
	assert_string_equal(
		text, "file vault /vault\nfile fast /mnt/fast\nfile none /none\npeople fast cid\npeople vault eve\n"
		      "people vault,fast ann bob\n");
	assert_int_equal(left, 0);
	has(text, "ann", seen, sizeof(seen));
	assert_string_equal(seen, "vault=/vault fast=/mnt/fast");
	has(text, "cid", seen, sizeof(seen));
	assert_string_equal(seen, "fast=/mnt/fast");
	has(text, "an", seen, sizeof(seen));
	assert_string_equal(seen, "");
	has(text, NULL, seen, sizeof(seen));
	assert_string_equal(seen, "vault=/vault fast=/mnt/fast none=/none");
	// In any order, and with nobody.
	struct td_pool_storage_has w[] = {{"bob", 0}, {"cid", 1}, {"ann", 1}, {"ann", 0}, {"eve", 0}, {"bob", 1}};
	td_auto_free char *same = td_pool_storage_text(&(struct td_pool_storage_list){files, 3, w, TD_LEN(w)},
						       TD_STORAGE_LIST_MOST, &left);
	assert_string_equal(same, text);
	td_auto_free char *nobody =
		td_pool_storage_text(&(struct td_pool_storage_list){files, 1, NULL, 0}, TD_STORAGE_LIST_MOST, &left);
	assert_string_equal(nobody, "file vault /vault\n");
	// Who is beyond the room has nothing; the others have what they have.
	td_auto_free char *cut = td_pool_storage_text(&l, strlen(text) - 1, &left);
	assert_int_equal(left, 1);
	has(cut, "bob", seen, sizeof(seen));
	assert_string_equal(seen, "");
	has(cut, "ann", seen, sizeof(seen));
	assert_string_equal(seen, "vault=/vault fast=/mnt/fast");
}

static void ten_thousand_people_of_ten_groups_fit(void **state)
{
	(void)state;
	enum { PEOPLE = 10000, FILES = 10, SETS = 40 };
	static struct td_pool_storage_file files[FILES];
	td_auto(td_arena_free) struct td_arena *arena = td_arena_new();
	for (size_t f = 0; f < FILES; f++)
		files[f] = (struct td_pool_storage_file){td_arena_printf(arena, "filesystem-%zu", f),
							 td_arena_printf(arena, "/data/filesystem-%zu", f)};
	struct td_pool_storage_has *v = td_arena_alloc(arena, sizeof(*v) * PEOPLE * FILES);
	// Names as long as they may be; all have all, or each of forty teams another part.
	for (int teams = 0; teams < 2; teams++) {
		struct td_pool_storage_list l = {files, FILES, v, 0};
		for (size_t i = 0; i < PEOPLE; i++) {
			const char *name = td_arena_printf(arena, "u%031zu", i * 7919 % PEOPLE);
			for (size_t f = 0; f < FILES; f++)
				if (!teams || ((i % SETS + 1) * 37 >> f & 1))
					v[l.n++] = (struct td_pool_storage_has){name, f};
		}
		size_t left = 1;
		td_auto_free char *text = td_pool_storage_text(&l, TD_STORAGE_LIST_MOST, &left);
		assert_int_equal(left, 0);
		assert_true(strlen(text) < 400 << 10);
		char seen[800], name[64];
		for (size_t i = 0; i < PEOPLE; i += 997) {
			struct td_groupfiles g;
			snprintf(name, sizeof(name), "u%031zu", i * 7919 % PEOPLE);
			td_groupfiles_begin(&g, text, name);
			for (size_t f = 0; f < FILES; f++)
				assert_int_equal(td_groupfiles_has(&g, files[f].name),
						 !teams || ((i % SETS + 1) * 37 >> f & 1));
		}
		has(text, "root", seen, sizeof(seen));
		assert_string_equal(seen, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_namespace_has_all_of_it),
		cmocka_unit_test(what_one_gives_up_others_get_when_it_is_enforced),
		cmocka_unit_test(the_quota_above_holds_too),
		cmocka_unit_test(who_asks_for_room_has_it_at_once),
		cmocka_unit_test(the_sum_holds_whatever_happens),
		cmocka_unit_test(a_group_is_for_those_to_whom_it_is_granted),
		cmocka_unit_test(the_list_says_who_has_what),
		cmocka_unit_test(ten_thousand_people_of_ten_groups_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
