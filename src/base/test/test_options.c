// Unit tests of the table of options: what it accepts, what it refuses in which words, and the help
// made from it.
// rows: F2
#include "base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct seen {
	bool purge;
	const char *ns, *output;
	struct td_strv listen;
	int gpus, renew;
	int64_t wait_ms;
	enum td_log_level level;
	char **args;
	size_t n;
	bool help;
};

// Parses `line` (words separated by blanks) with the table of this test. The words live until the
// next call.
static int parse(const char *line, bool rest, struct seen *s, struct td_error *err)
{
	static struct td_strv words;
	static char *argv[32]; // the parser reorders it, not the words
	td_strv_done(&words);
	words = (struct td_strv){0};
	td_strv_add(&words, "up");
	td_strv_split(&words, line, ' ');
	memset(argv, 0, sizeof(argv));
	memcpy(argv, words.v, words.n * sizeof(char *));

	td_strv_done(&s->listen);
	*s = (struct seen){.gpus = -1, .level = TD_LOG_INFO};
	const struct td_option options[] = {
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "where it runs",
		 TD_OPT_TEXT(&s->ns),
		 .required = true},
		{.name = "listen",
		 .value = "ADDR:PORT",
		 .help = "address to serve on;\nmay be given several times",
		 TD_OPT_LIST(&s->listen)},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json or yaml",
		 TD_OPT_TEXT(&s->output),
		 .choices = "json|yaml"},
		{.name = "gpus", .value = "N", .help = "GPUs of each node", TD_OPT_INT(&s->gpus, 0, 64)},
		{.name = "renew-deadline", .value = "S", .help = "how long", TD_OPT_SECONDS(&s->renew, 1, 3600)},
		{.name = "wait", .value = "D", .help = "how long", TD_OPT_DURATION(&s->wait_ms)},
		{.name = "purge", .letter = 'p', .help = "removes the state too", TD_OPT_SWITCH(&s->purge)},
		TD_OPT_LOG_LEVEL(&s->level),
	};
	const struct td_command c = {.name = "up",
				     .about = "Starts everything.",
				     .options = options,
				     .n = TD_LEN(options),
				     .min_args = 0,
				     .max_args = 1,
				     .args = "POD",
				     .rest = rest};
	return td_options_parse(&c, (int)words.n, argv, &s->args, &s->n, &s->help, err);
}

static void options_and_words(void **state)
{
	struct seen s = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(parse("--namespace a pod --listen 1:1 --listen=2:2 -ojson --gpus 0 --renew-deadline 15s "
			       "--wait 1.5m -p --log-level debug",
			       false, &s, &err),
			 0);
	assert_string_equal(s.ns, "a");
	assert_string_equal(s.output, "json");
	assert_int_equal(s.listen.n, 2);
	assert_string_equal(s.listen.v[1], "2:2");
	assert_int_equal(s.gpus, 0);
	assert_int_equal(s.renew, 15);
	assert_int_equal(s.wait_ms, 90000);
	assert_true(s.purge);
	assert_int_equal(s.level, TD_LOG_DEBUG);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.args[0], "pod");
	assert_null(s.args[1]);

	// The last value counts. An option that is not given leaves its place alone.
	assert_int_equal(parse("-n a -n b", false, &s, &err), 0);
	assert_string_equal(s.ns, "b");
	assert_int_equal(s.gpus, -1);
	assert_int_equal(s.n, 0);
	td_strv_done(&s.listen);
}

static void a_command_of_the_users_own_keeps_its_options(void **state)
{
	struct seen s = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(parse("-n a srun -n 4 --help -- x", true, &s, &err), 0);
	assert_int_equal(s.n, 6);
	assert_string_equal(s.args[0], "srun");
	assert_string_equal(s.args[1], "-n");
	assert_string_equal(s.args[4], "--");
	assert_false(s.help);

	assert_int_equal(parse("-n a -- -x", true, &s, &err), 0);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.args[0], "-x");
}

static void help_wins_over_what_is_missing(void **state)
{
	struct seen s = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(parse("--help", false, &s, &err), 0);
	assert_true(s.help);
	assert_int_equal(parse("--gpus 3 -h --nonsense", false, &s, &err), 0);
	assert_true(s.help);
}

static void errors_name_the_option_and_the_fix(void **state)
{
	static const struct {
		const char *line, *says;
	} bad[] = {
		{"", "--namespace NS is missing"},
		{"-n a b c", "\"c\" is one word too many: it takes "},
		{"-n a --nodes 3", "there is no option --nodes"},
		{"-n a --name b", "there is no option --name"},
		{"-n a -x", "there is no option -x"},
		{"-n a --purg", "there is no option --purg (do you mean --purge?)"},
		{"-n a --pugre", "there is no option --pugre (do you mean --purge?)"},
		{"-n a --gpsu=3", "there is no option --gpsu=3 (do you mean --gpus?)"},
		{"-n a --p", "there is no option --p (do you mean --purge?)"},
		{"-n a --purge=yes", "--purge takes no value"},
		{"-n a -pq", "there is no option -pq"},
		{"-n", "--namespace needs a value: NS"},
		{"-n a --gpus 65", "--gpus is \"65\": give a number from 0 to 64"},
		{"-n a --gpus 3s", "--gpus is \"3s\": give a number from 0 to 64"},
		{"-n a --gpus 99999999999999999999", "give a number from 0 to 64"},
		{"-n a --renew-deadline 0s", "--renew-deadline is \"0s\": give whole seconds from 1 to 3600"},
		{"-n a --renew-deadline 1.5", "give whole seconds from 1 to 3600"},
		{"-n a --wait 5", "--wait: \"5\" is not a time such as 30s, 5m or 2h"},
		{"-n a --wait -5s", "is not a time"},
		{"-n a --wait nans", "is not a time"},
		{"-n a -o xml", "--output is \"xml\": give one of json|yaml"},
		{"-n a -o json|yaml", "give one of json|yaml"},
		{"-n a --log-level loud", "--log-level is \"loud\": give debug, info, warn or error"},
	};

	for (size_t i = 0; i < TD_LEN(bad); i++) {
		struct seen s = {0};
		struct td_error err = TD_ERROR_INIT;
		assert_int_equal(parse(bad[i].line, false, &s, &err), TD_INVALID);
		if (!strstr(err.msg, bad[i].says))
			fail_msg("\"%s\" says \"%s\", not \"%s\"", bad[i].line, err.msg, bad[i].says);
		td_strv_done(&s.listen);
	}
}

static void help_is_made_from_the_table(void **state)
{
	bool flag;
	const char *text;
	const struct td_option options[] = {
		{.name = "namespace",
		 .letter = 'n',
		 .value = "NS",
		 .help = "where it runs",
		 TD_OPT_TEXT(&text),
		 .required = true},
		{.name = "a-name-that-is-long",
		 .value = "VALUE",
		 .help = "first line\nsecond line",
		 TD_OPT_TEXT(&text)},
		{.name = "purge", .help = "removes the state too", TD_OPT_SWITCH(&flag)},
		{.name = "wide",
		 .help = "words that are more than what fits into the columns which a terminal has",
		 TD_OPT_SWITCH(&flag)},
	};
	const struct td_command c = {.name = "down",
				     .about = "Stops\neverything.\n  an example\n\nMore.",
				     .options = options,
				     .n = TD_LEN(options)};

	td_auto_buf struct td_buf b = {0};
	td_options_help(&c, &b);
	assert_string_equal(td_buf_str(&b),
			    "usage: tandem down --namespace NS [OPTION…]\n"
			    "\n"
			    "Stops everything.\n"
			    "  an example\n"
			    "\n"
			    "More.\n"
			    "\n"
			    "  -n, --namespace NS    where it runs\n"
			    "  --a-name-that-is-long VALUE\n"
			    "                        first line second line\n"
			    "  --purge               removes the state too\n"
			    "  --wide                words that are more than what fits into the columns\n"
			    "                        which a terminal has\n"
			    "\n"
			    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_words),
		cmocka_unit_test(a_command_of_the_users_own_keeps_its_options),
		cmocka_unit_test(help_wins_over_what_is_missing),
		cmocka_unit_test(errors_name_the_option_and_the_fix),
		cmocka_unit_test(help_is_made_from_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
