// What another slurmdbd's books lack.
// rows: C6.5
#include "slurm/books.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char old[] =
	"# To edit this file start with a cluster line for the new cluster\n"
	"Cluster - 'old':Fairshare=1:GrpTRES=cpu=100:QOS='normal,high'\n"
	"Parent - 'root'\n"
	"User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1\n"
	"Account - 'science':Description='all of: science`s':Organization='uni':DefaultQOS='normal':Fairshare=10:"
	"GrpTRES=cpu=4,mem=2000M:QOS='high,normal'\n"
	"Parent - 'physics'\n"
	"User - "
	"'ann':DefaultAccount='physics':Coordinator='physics':DefaultQOS='high':Fairshare=5:MaxJobs=2:QOS='+high'\n"
	"User - 'bob':Partition='fast':DefaultAccount='science':AdminLevel='Operator':WCKeys='x':Fairshare=1\n"
	"Parent - 'science'\n"
	"User - 'bob':DefaultAccount='science':AdminLevel='Operator':Fairshare=1\n"
	"Account - "
	"'physics':Description='physics':Organization='tandem':Fairshare=2147483647:MaxWallDurationPerJob=60\n";
static const char qos[] = "Name|Descr|Priority|GraceTime|Preempt|PreemptMode|MaxWall|MaxTRESPU|UsageFactor\n"
			  "normal|Normal QOS default|0|00:00:00||cluster||cpu=8|1.000000\n"
			  "high|urgent|10|1-00:00:30|normal,low|requeue|02:00:00||2.000000\n"
			  "low|low|0|00:00:00||cluster|||1.000000\n";
static const char fresh[] = "Cluster - 'main':Fairshare=1:QOS='normal'\n"
			    "Parent - 'root'\n"
			    "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1\n";
static const char fresh_qos[] = "Name|Descr|Priority|GraceTime\nnormal|Normal QOS default|0|00:00:00\n";

static void read_both(const char *dump, const char *q, struct td_books *ret)
{
	assert_int_equal(td_books_read("dump", dump, ret, NULL), 0);
	assert_int_equal(td_books_read_qos("qos", q, ret, NULL), 0);
}

static bool has(const struct td_strv *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strstr(l->v[i], text))
			return true;
	return false;
}

static void test_into_a_fresh_pool(void **state)
{
	td_auto_books struct td_books a = {0}, b = {0};
	td_auto_books_plan struct td_books_plan p = {0};
	read_both(old, qos, &a);
	read_both(fresh, fresh_qos, &b);
	td_books_merge(&a, &b, "main", "tandem", &p);
	assert_string_equal(
		td_buf_str(&p.commands),
		"add qos name=high Description=\"urgent\" Priority=10 GraceTime=86430 PreemptMode=requeue "
		"MaxWallDurationPerJob=02:00:00 UsageFactor=2.000000\n"
		"add qos name=low Description=\"low\"\n"
		"modify qos where name=normal set MaxTRESPerUser=cpu=8\n"
		"modify qos where name=high set Preempt=normal,low\n"
		"modify account where name=root cluster=main set GrpTRES=cpu=100 QOS=normal,high\n"
		"add account name=science cluster=main Parent=root Description=\"all of: science`s\" Organization=uni "
		"Fairshare=10 GrpTRES=cpu=4,mem=2000M QOS=high,normal DefaultQOS=normal\n"
		"add account name=physics cluster=main Parent=science Description=\"physics\" Fairshare=parent "
		"MaxWallDurationPerJob=60\n"
		"add user name=ann account=physics cluster=main Fairshare=5 MaxJobs=2 QOS=+high DefaultQOS=high\n"
		"add user name=bob account=science cluster=main Fairshare=1\n"
		"add user name=bob account=physics cluster=main partition=fast Fairshare=1\n"
		"add coordinator account=physics names=ann\n"
		"modify user where name=bob set AdminLevel=Operator\n");
	assert_int_equal(p.n, 12);
	assert_int_equal(p.differs.n, 0);
	assert_int_equal(p.left.n, 0);
	// Who gets rights over others is told.
	assert_int_equal(p.rights.n, 2);
	assert_string_equal(p.rights.v[0], "user ann: coordinator of account physics");
	assert_string_equal(p.rights.v[1], "user bob: AdminLevel Operator");
	assert_true(has(&a.left, "dump:8: WCKeys=x of bob"));
	assert_true(has(&a.left, "qos: it has no columns GrpTRESMins, GrpTRESRunMins"));
}

static void test_nothing_is_overwritten(void **state)
{
	static const char there[] =
		"Cluster - 'main':Fairshare=1:GrpTRES=cpu=50:QOS='normal'\n"
		"Parent - 'root'\n"
		"Account - 'physics':Description='Tenant physics':Organization='tandem':Fairshare=3\n"
		"Account - 'science':Description='all of: science`s':Organization='uni':Fairshare=1:"
		"GrpTRES=mem=2000M,cpu=4:QOS='normal,high'\n"
		"Parent - 'physics'\n"
		"User - 'ann':DefaultAccount='physics':Comment='tandem':Fairshare=1\n";
	td_auto_books struct td_books a = {0}, b = {0};
	td_auto_books_plan struct td_books_plan p = {0};
	read_both(old, qos, &a);
	read_both(there, qos, &b);
	td_books_merge(&a, &b, "main", "tandem", &p);
	assert_string_equal(td_buf_str(&p.commands),
			    "modify account where name=root cluster=main set QOS=normal,high\n"
			    "modify account where name=science cluster=main set DefaultQOS=normal\n"
			    "add user name=bob account=science cluster=main Fairshare=1\n"
			    "modify user where name=bob set AdminLevel=Operator\n");
	static const char *const said[] = {
		"account root: GrpTRES is cpu=50 here and was cpu=100",
		"account science: Fairshare is 1 here and was 10",
		"account physics: MaxWallDurationPerJob is not said here and was 60; it is a Tenant's: change the "
		"Tenant",
		"account physics: Parent is root here and was science; it is a Tenant's: change the Tenant",
		"user ann in account physics: MaxJobs is not said here and was 2; it is a Tenant's: change the Tenant",
		"user bob in account physics, partition fast: he is not there; it is a Tenant's: name him in its "
		"spec.members",
		"user ann: he is not coordinator of account physics; it is a Tenant's: who leads it, its spec.members "
		"say",
	};
	for (size_t i = 0; i < TD_LEN(said); i++)
		assert_true(has(&p.differs, said[i]));
	// And what has been done leaves nothing to do.
	td_auto_books_plan struct td_books_plan again = {0};
	td_books_merge(&a, &a, "main", "tandem", &again);
	assert_int_equal(again.n, 0);
	assert_int_equal(again.differs.n, 0);
}

// Tandem knows its QOS by their description: none is changed, and none becomes its own.
static void test_tandems_own_qos(void **state)
{
	static const char was[] = "Name|Descr|Priority|Preempt\n"
				  "a.quota|mine|5|normal\n"
				  "b.quota|tandem/slurm/main Tenants|5|\n";
	static const char is[] = "Name|Descr|Priority|Preempt\n"
				 "a.quota|tandem/slurm/main Tenants|0|\n";
	static const char dump[] = "Cluster - 'x':Fairshare=1\n";
	td_auto_books struct td_books a = {0}, b = {0};
	td_auto_books_plan struct td_books_plan p = {0};
	read_both(dump, was, &a);
	read_both(dump, is, &b);
	td_books_merge(&a, &b, "main", "tandem", &p);
	assert_string_equal(td_buf_str(&p.commands), "add qos name=b.quota Priority=5\n");
	assert_true(has(&p.differs, "QOS a.quota: it is Tandem's own here"));
}

static void test_from_strangers(void **state)
{
	static const char text[] = "Cluster - 'old'\n"
				   "Parent - 'root'\n"
				   "Account - 'a b':Fairshare=1\n"
				   "Account - 'ok':Description='x\"y':GrpTRES=cpu=1 set AdminLevel=Operator:Odd=1\n"
				   "Parent - 'round'\n"
				   "Account - 'about'\n"
				   "Parent - 'about'\n"
				   "Account - 'round'\n"
				   "Parent - 'nowhere'\n"
				   "Account - 'lost'\n"
				   "User - 'eve,root':AdminLevel='Administrator'\n"
				   "User - 'eve':Coordinator='ok;lost'\n"
				   "delete cluster main\033[2J\n";
	td_auto_books struct td_books a = {0}, b = {0}, none = {0};
	td_auto_books_plan struct td_books_plan p = {0};
	struct td_error err = TD_ERROR_INIT;
	assert_int_equal(td_books_read("dump", text, &a, NULL), 0);
	assert_int_equal(td_books_read("dump", fresh, &b, NULL), 0);
	td_books_merge(&a, &b, "main", "tandem", &p);
	assert_string_equal(td_buf_str(&p.commands), "add account name=ok cluster=main Parent=root\n");
	assert_true(has(&a.left, "dump:3: \"a b\": not a name"));
	assert_true(has(&a.left, "dump:4: Description of ok: it has signs"));
	assert_true(has(&a.left, "dump:4: GrpTRES of ok: it has signs"));
	assert_true(has(&a.left, "dump:4: Odd=1 of ok"));
	assert_true(has(&a.left, "dump:11: \"eve,root\": not a name"));
	assert_true(has(&a.left, "dump:13: \"delete cluster main?[2J\": no line of a dump"));
	assert_true(has(&p.left, "the accounts above it lead nowhere"));
	assert_true(has(&p.left, "account lost: its parent nowhere is not in the dump"));
	assert_true(has(&p.left, "user eve: account nowhere is not taken over"));
	assert_true(has(&a.left, "dump:12: Coordinator of eve: it has signs"));
	assert_int_equal(td_books_read("x", "ClusterName=old\n", &none, &err), TD_INVALID);
	assert_non_null(strstr(err.msg, "sacctmgr dump CLUSTER"));
	assert_int_equal(td_books_read_qos("x", "", &none, &err), TD_INVALID);
	assert_int_equal(td_books_read_qos("x", "Priority|Descr\n1|x\n", &none, &err), TD_INVALID);
}

static void test_people(void **state)
{
	static const char passwd[] = "root:x:0:0::/root:/bin/bash\n"
				     "ann:x:3000:100:Ann:/home/ann:/bin/zsh\n"
				     "bob:x:3001:3001:Bob:/data/bob:/bin/bash\n"
				     "else:x:3002:3002::/home/else:/bin/bash\n";
	td_auto_books struct td_books a = {0};
	td_auto(td_json_unref) struct td_json *has_users = NULL, *out = NULL;
	static const char is[] = "[{\"name\":\"carl\",\"uid\":3001}]";
	read_both(old, qos, &a);
	assert_int_equal(td_json_parse(is, strlen(is), &has_users, NULL), 0);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *root = yyjson_mut_doc_get_root(d);
	td_auto_strv struct td_strv left = {0};
	td_books_people(&a, passwd, td_json_root(has_users), d, td_jm_arr(d, root, "users"), &left);
	out = td_json_from_mut(root);
	td_auto_free char *text = td_json_text(td_json_root(out), NULL);
	assert_string_equal(text, "{\"users\":[{\"name\":\"ann\",\"uid\":3000,\"gid\":100,\"shell\":\"/bin/zsh\"}]}");
	assert_int_equal(left.n, 1);
	assert_string_equal(left.v[0], "user bob: uid 3001 is carl's in spec.users; give one of them another uid");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_into_a_fresh_pool),
					   cmocka_unit_test(test_nothing_is_overwritten),
					   cmocka_unit_test(test_tandems_own_qos),
					   cmocka_unit_test(test_from_strangers), cmocka_unit_test(test_people)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
