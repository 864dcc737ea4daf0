// The writer of slurm.conf and the other files: golden text, refusals, and that no string from
// outside can add a line or a key.
// rows: A1.6 A2.2 A2.3 A2.4 A2.5 A2.6 A2.7
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/pki.h"
#include "slurm/conf.h"
#include "slurm/keys.h"
#include "slurm/preempt.h"

#include <stdio.h>
#include <string.h>

static struct td_json *yaml(const char *s)
{
	td_auto_json_list struct td_json_list l = {0};
	struct td_error err = TD_ERROR_INIT;
	if (td_yaml_parse(s, strlen(s), &l, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(l.n, 1);
	return td_json_ref(l.v[0]);
}

#define HEAD "metadata: {name: main, namespace: slurm}\n"

static void test_golden(void **state)
{
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec:\n"
			  "  config: {slurmConf: {KillWait: '5', schedulerparameters: 'bf_interval=3,bf_continue', "
			  "DebugFlags: 'Gres'}}\n"
			  "  partitions: [{name: all, default: true}, {name: big, nodeSets: [pool], maxTime: "
			  "1-00:00:00, state: DRAIN, priorityTier: 5}]\n"
			  "  users: [{name: ann, uid: 1000}, {name: bob, uid: 1001, gid: 1000, shell: /bin/sh, home: "
			  "/srv/bob}]\n");

	const struct td_slurm_gres gres[] = {{NULL, "gpu", "/dev/tandem-gpu[0-7]", NULL},
					     {"x[0-1]", "gpu", "/dev/nvidia[0-3]", "h100"},
					     {"x[0-1]", "gpu", "/dev/nvidia[4-5]", "a100"}};
	const char *const sets[] = {"pool"}, *const cuts[] = {"1g.10gb", "3g.40gb"};
	const struct td_slurm_facts f = {.cuts = cuts,
					 .n_cuts = 2,
					 .gres = gres,
					 .n_gres = 3,
					 .mem_per_cpu_mb = 1024,
					 .node_sets = sets,
					 .n_node_sets = 1};

	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	bool ok = td_slurm_files_make(td_json_root(o), &f, &r, &p);
	if (!ok)
		fail_msg("%s", p.v[0]);

	const char *conf = r.v[TD_SLURM_CONF].text;
	assert_string_equal(r.v[TD_SLURM_CONF].name, "slurm.conf");
	static const char *const lines[] = {
		"\nClusterName=main\n",
		"\nSlurmctldHost=main-slurmctld-0(main-slurmctld-0.main-slurmctld.slurm.svc.cluster.local)\n",
		"\nKillWait=5\n",
		"\nDebugFlags=Gres,NO_CONF_HASH\n",
		"\nDefMemPerCPU=1024\n",
		"\nInactiveLimit=0\n",
		"\nSchedulerParameters=bf_interval=3,bf_continue,batch_sched_delay=0,sched_min_interval=0,default_"
		"queue_depth=1000,nohold_on_prolog_fail\n",
		"\nNodeSet=set_pool Feature=set.pool\n",
		"\nPartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
		"\nPartitionName=big Nodes=set_pool Default=NO MaxTime=1-00:00:00 State=DRAIN PriorityTier=5\n",
	};

	for (size_t i = 0; i < TD_LEN(lines); i++)
		if (!strstr(conf, lines[i]))
			fail_msg("missing:%sin\n%s", lines[i], conf);

	assert_null(strstr(conf, "KillWait=10"));
	assert_null(strstr(conf, "bf_interval=1,"));

	assert_string_equal(r.v[TD_GRES_CONF].text,
			    "AutoDetect=off\nName=gpu File=/dev/tandem-gpu[0-7]\nNodeName=x[0-1] Name=gpu Type=h100 "
			    "File=/dev/nvidia[0-3]\n"
			    "NodeName=x[0-1] Name=gpu Type=a100 File=/dev/nvidia[4-5]\n");
	assert_non_null(strstr(r.v[TD_JOB_SUBMIT_LUA].text, "\ntandem_gpu_types = {\"a100\", \"h100\"}\n"));
	assert_non_null(strstr(r.v[TD_JOB_SUBMIT_LUA].text,
			       "\ntandem_gpu_cuts = {[\"1g.10gb\"] = true, [\"3g.40gb\"] = true}\n"));
	assert_non_null(strstr(r.v[TD_PASSWD].text,
			       "\nann:x:1000:1000::/home/ann:/bin/bash\nbob:x:1001:1000::/srv/bob:/bin/sh\n"));
	assert_non_null(strstr(r.v[TD_GROUP].text, "\nann:x:1000:\n"));
	assert_null(strstr(r.v[TD_GROUP].text, "bob"));

	assert_string_equal(r.v[TD_CGROUP_CONF].text,
			    "CgroupPlugin=autodetect\nIgnoreSystemd=yes\nConstrainDevices=yes\n"
			    "ConstrainCores=yes\nConstrainRAMSpace=yes\n");

	td_auto_slurm_files struct td_slurm_files again = {0};
	assert_true(td_slurm_files_make(td_json_root(o), &f, &again, &p));
	assert_string_equal(conf, again.v[TD_SLURM_CONF].text);
}

static void test_groups(void **state)
{
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec: {groups: [{name: physics, gid: 5000}, {name: empty, gid: 5001}], users: ["
			  "{name: ann, uid: 1000, groups: [physics, sudo]}, {name: bob, uid: 1001, gid: 5000, groups: "
			  "[physics]}], "
			  "partitions: [{name: p, allowGroups: [physics, empty]}]}\n");
	const struct td_slurm_facts f = {0};
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
		fail_msg("%s", p.v[0]);
	const char *group = r.v[TD_GROUP].text;
	assert_non_null(strstr(group, "\nsudo:x:27:ann\nphysics:x:5000:ann,bob\nempty:x:5001:\nann:x:1000:\n"));
	assert_null(strstr(group, "bob:x")); // his own group has a name
	assert_non_null(strstr(r.v[TD_SLURM_CONF].text, " AllowGroups=physics,empty\n"));
}

// Nodes that never come fill the blocks of a network (topology.h). They take no place of those that register.
static void test_blocks(void **state)
{
	static const struct {
		const char *config, *line;
		size_t nodes, room;
	} t[] = {{"", "\nMaxNodeCount=5120\n", 0},
		 {"", "\nMaxNodeCount=5120\n", 819},
		 {"", "\nMaxNodeCount=6144\n", 820}, // the nodes that there are, and a quarter more
		 {"", "\nMaxNodeCount=20480\n", 10000},
		 {"", "\nMaxNodeCount=20480\n", 3, 20480}, // nodes have left: their records may be there yet
		 {"", "\nMaxNodeCount=20480\n", 10000, 6144},
		 {"", "\nMaxNodeCount=65536\n", 60000}, // Slurm takes no more
		 {"config: {slurmConf: {MaxNodeCount: '9000'}}, ", "\nMaxNodeCount=9000\n", 10000}};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *text =
			td_asprintf(HEAD "spec: {%stopology: {type: block, blockSizes: [4096]}}\n", t[i].config);
		td_auto(td_json_unref) struct td_json *o = yaml(text);
		const struct td_slurm_facts f = {.n_nodes = t[i].nodes, .room = t[i].room};
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
			fail_msg("%s", p.v[0]);
		const char *conf = r.v[TD_SLURM_CONF].text;
		assert_non_null(strstr(conf, t[i].line));
		assert_int_equal(td_slurm_conf_room(conf), atoi(strchr(t[i].line, '=') + 1));
		assert_non_null(strstr(conf, "\nNodeName=tandem-none-[1-4096] State=FUTURE\n"));
	}
}

// munge's plug-in knows no identities but those of the nodes.
static void test_munge(void **state)
{
	td_auto(td_json_unref) struct td_json *o = yaml(HEAD "spec: {auth: {type: munge}}\n");
	const struct td_slurm_facts f = {0};
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
		fail_msg("%s", p.v[0]);
	const char *conf = r.v[TD_SLURM_CONF].text;
	assert_non_null(strstr(conf, "\nAuthType=auth/munge\n"));
	assert_non_null(strstr(conf, "\nCredType=cred/munge\n"));
	assert_non_null(strstr(conf, "\nAuthAltTypes=auth/jwt\n"));
	assert_null(strstr(conf, "AuthInfo"));
	assert_null(strstr(conf, "/slurm\nAuth"));
	td_auto_free char *dbd = td_slurm_dbd_conf(td_json_root(o), &p);
	assert_non_null(strstr(dbd, "\nAuthType=auth/munge\n"));
}

// Prolog runs at the allocation where foreign kubelets start pods, and at the first launch where the
// kubelet acquires a pod's devices itself.
static void test_when_prolog_runs(void **state)
{
	td_auto(td_json_unref) struct td_json *o = yaml(HEAD "spec: {}\n");
	for (int own = 0; own < 2; own++) {
		const struct td_slurm_facts f = {.own_kubelet = own};
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		assert_true(td_slurm_files_make(td_json_root(o), &f, &r, &p));
		const char *conf = r.v[TD_SLURM_CONF].text, *gate = r.v[TD_GATE_SH].text;
		assert_non_null(strstr(conf, "\nProlog=gate.sh\n"));
		assert_int_equal(!strstr(conf, "PrologFlags"), own);
		assert_int_equal(strstr(conf, "\nPrologFlags=Alloc\n") != NULL, !own);
		assert_int_equal(strstr(gate, "gate --launch\n") != NULL, own);
	}
}

// Nodes on demand are in the partitions that name them and nowhere else, and Slurm's own idle time is never reached.
static void test_on_demand(void **state)
{
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec:\n"
			  "  config: {slurmConf: {resumetimeout: '77'}}\n"
			  "  partitions: [{name: all, default: true}, {name: burst, nodeSets: [burst, pool]}]\n");
	static const char *const sets[] = {"burst", "pool"}, *const demand[] = {"burst"};
	for (int on = 0; on < 2; on++) {
		const struct td_slurm_facts f = {.node_sets = sets,
						 .n_node_sets = 2,
						 .on_demand = demand,
						 .n_on_demand = (size_t)on,
						 .start_s = 30};
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
			fail_msg("%s", p.v[0]);
		const char *conf = r.v[TD_SLURM_CONF].text;
		assert_int_equal(strstr(conf, "\nResumeProgram=/bin/true\nSuspendProgram=/bin/true\n"
					      "SuspendTime=1000000000\nSuspendTimeout=5\n") != NULL,
				 on);
		assert_int_equal(strstr(conf, "\nPartitionName=all Nodes=set_pool ") != NULL, on);
		assert_int_equal(strstr(conf, "\nPartitionName=all Nodes=ALL ") != NULL, !on);
		assert_non_null(strstr(conf, "\nPartitionName=burst Nodes=set_burst,set_pool "));
		assert_non_null(strstr(conf, "\nresumetimeout=77\n"));
		assert_null(strstr(conf, "\nResumeTimeout="));
	}
}

// Nodes of another cluster: only partitions that name them have them, and only the bridge submits there.
static void test_others(void **state)
{
	static const char *const sets[] = {"east", "pool"}, *const others[] = {"east"};
	const struct td_slurm_facts f = {.node_sets = sets, .n_node_sets = 2, .others = others, .n_others = 1};
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec: {partitions: [{name: all, default: true}, {name: far, nodeSets: [east]}]}\n");
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
		fail_msg("%s", p.v[0]);
	const char *conf = r.v[TD_SLURM_CONF].text;
	assert_non_null(strstr(conf, "\nPartitionName=all Nodes=set_pool "));
	assert_non_null(strstr(conf, "\nPartitionName=far Nodes=set_east "));
	assert_null(strstr(conf, "ResumeProgram")); // they are always there
	assert_non_null(strstr(r.v[TD_JOB_SUBMIT_LUA].text, "\ntandem_pods_only = { [\"far\"] = true, }\n"));

	static const char *const bad[][2] = {
		{"partitions: [{name: far, nodeSets: [east, pool]}]", "spec.partitions[0].nodeSets: nodes of another"},
		{"partitions: [{name: far, default: true, nodeSets: [east]}]", "spec.partitions[0].default: only pods"},
		{"config: {slurmConf: {jobsubmitplugins: throttle}}, partitions: [{name: far, nodeSets: [east]}]",
		 "spec.partitions[0].nodeSets: native jobs"},
	};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_free char *text = td_asprintf(HEAD "spec: {%s}\n", bad[i][0]);
		td_auto(td_json_unref) struct td_json *x = yaml(text);
		td_auto_slurm_files struct td_slurm_files none = {0};
		td_auto_strv struct td_strv why = {0};
		assert_false(td_slurm_files_make(td_json_root(x), &f, &none, &why));
		assert_true(td_starts(why.v[0], bad[i][1]));
	}
}

// What a site's programs add: their lines, and their files in the ConfigMap of the site.
static void test_scripts(void **state)
{
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec:\n"
			  "  config: {slurmConf: {jobsubmitplugins: 'all_partitions', CliFilterPlugins: lua}}\n"
			  "  scripts:\n"
			  "    prolog: {configMap: ours, key: p}\n"
			  "    epilog: {configMap: ours, key: e}\n"
			  "    taskProlog: {configMap: ours, key: p}\n"
			  "    mail: {configMap: ours, key: e}\n"
			  "    healthCheck: {configMap: ours, key: p}\n"
			  "    jobSubmitLua: {configMap: ours, key: l}\n"
			  "    cliFilterLua: {configMap: ours, key: l}\n");
	const struct td_slurm_text texts[] = {
		{"ours", "p", "#!/bin/sh\n"}, {"ours", "e", "#!/bin/bash\n"}, {"ours", "l", "-- Lua"}};
	const struct td_slurm_facts f = {.texts = texts, .n_texts = 3};
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
		fail_msg("%s", p.v[0]);
	static const char *const lines[] = {
		"\nProlog=gate.sh\n",
		"\nTaskProlog=/etc/tandem/site/task-prolog.sh\n",
		"\nEpilog=/etc/tandem/site/epilog\n",
		"\nMailProg=/etc/tandem/site/mail\n",
		"\nHealthCheckProgram=/etc/tandem/site/health-check\n",
		"\nHealthCheckInterval=60\n",
		"\njobsubmitplugins=all_partitions,lua\n",
		"\nCliFilterPlugins=lua\n",
	};
	for (size_t i = 0; i < TD_LEN(lines); i++)
		if (!strstr(r.v[TD_SLURM_CONF].text, lines[i]))
			fail_msg("missing:%sin\n%s", lines[i], r.v[TD_SLURM_CONF].text);
	assert_null(strstr(r.v[TD_SLURM_CONF].text, "/bin/false"));

	static const struct {
		const char *name, *text;
		bool site;
	} files[] = {{"prolog", "#!/bin/sh\n", true},      {"epilog", "#!/bin/bash\n", true},
		     {"task-prolog", "#!/bin/sh\n", true}, {"mail", "#!/bin/bash\n", true},
		     {"job-submit.lua", "-- Lua", true},   {"cli_filter.lua", "-- Lua", false}};
	for (size_t i = 0; i < TD_LEN(files); i++) {
		size_t k = 0;
		while (k < r.n && strcmp(r.v[k].name, files[i].name) != 0)
			k++;
		if (k == r.n)
			fail_msg("no file %s", files[i].name);
		assert_string_equal(r.v[k].text, files[i].text);
		assert_int_equal(r.v[k].site, files[i].site);
	}
}

static void test_job_network(void **state)
{
	(void)state;
	static const struct {
		const char *spec;
		bool good;
	} t[] = {{"{separate: none}", true},
		 {"{separate: users, from: [10.0.0.0/8, 10.1.2.3, 'fd00::/8', '::1', 0.0.0.0/0]}", true},
		 {"{from: [10.0.0.0/33]}", false},
		 {"{from: ['fd00::/129']}", false},
		 {"{from: [10.0.0/8]}", false},
		 {"{from: [10.0.0.0/]}", false},
		 {"{from: [n1]}", false}};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *text = td_asprintf(HEAD "spec: {jobNetwork: %s}\n", t[i].spec);
		td_auto(td_json_unref) struct td_json *o = yaml(text);
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		bool ok = td_slurm_files_make(td_json_root(o), &(struct td_slurm_facts){0}, &r, &p);
		if (ok != t[i].good || (!ok && !td_starts(p.v[0], "spec.jobNetwork.from[0]: ")))
			fail_msg("%s: %s", t[i].spec, ok ? "taken" : p.v[0]);
	}
}

static void test_scratch(void **state)
{
	(void)state;
	// The line of plugstack.conf, before the site's own. "": none. NULL: refused.
	static const char *const t[][2] = {
		{"{}", ""},
		{"accounting: {enabled: true, database: {embedded: {storage: {claim: c}}}}",
		 "optional /opt/tandem/tandem-filter.so\n"},
		{"scratch: {}", "optional /opt/tandem/tandem-scratch.so shm=50% tmp=50%\n"},
		{"scratch: {tmp: shared}", ""},
		{"scratch: {tmp: private, shmSize: 100%}", "optional /opt/tandem/tandem-scratch.so shm=100% tmp=50%\n"},
		{"scratch: {shmSize: 1.5Gi}", "optional /opt/tandem/tandem-scratch.so shm=1610612736 tmp=50%\n"},
		{"scratch: {shmSize: 16G}", "optional /opt/tandem/tandem-scratch.so shm=16000000000 tmp=50%\n"},
		{"scratch: {tmpSize: 200G, tmpMax: 80%}",
		 "optional /opt/tandem/tandem-scratch.so shm=50% tmp=200000000000\n"},
		{"scratch: {tmpSize: lots}", NULL},
		{"scratch: {tmpMax: 0%}", NULL},
		{"scratch: {path: /tmp/../proc}", NULL},
		{"scratch: {shmSize: 0%}", NULL},
		{"scratch: {shmSize: 101%}", NULL},
		{"scratch: {shmSize: 50%%}", NULL},
		{"scratch: {shmSize: '5,uid=1000'}", NULL},
		{"scratch: {shmSize: '5 '}", NULL},
		{"scratch: {shmSize: '0'}", NULL},
		{"scratch: {shmSize: much}", NULL},
	};
	const struct td_slurm_text texts[] = {{"ours", "p", "optional site.so\n"}};
	const struct td_slurm_facts f = {.texts = texts, .n_texts = 1};
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_free char *text =
			td_asprintf(HEAD "spec: {scripts: {plugstack: {configMap: ours, key: p}}, %s}\n",
				    td_streq(t[i][0], "{}") ? "users: []" : t[i][0]);
		td_auto(td_json_unref) struct td_json *o = yaml(text);
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		bool ok = td_slurm_files_make(td_json_root(o), &f, &r, &p);
		if (ok != (t[i][1] != NULL) || (!ok && !td_starts(p.v[0], "spec.scratch.")))
			fail_msg("%s: %s", t[i][0], ok ? "taken" : p.v[0]);
		for (size_t k = 0; k < r.n; k++) {
			td_auto_free char *want = td_asprintf("%soptional site.so\n", t[i][1]);
			if (td_streq(r.v[k].name, "plugstack.conf"))
				assert_string_equal(r.v[k].text, want);
		}
	}
}

static void test_scripts_refused(void **state)
{
	static const char *const bad[][2] = {
		{"scripts: {epilog: {configMap: ours, key: x}}, config: {slurmConf: {epilog: /e}}",
		 "spec.config.slurmConf.epilog: spec.scripts.epilog is there too"},
		{"scripts: {prolog: {configMap: ours, key: x}}", "spec.scripts.prolog: key x of ConfigMap ours"},
		{"scripts: {plugstack: {configMap: ours, key: i}}", "spec.scripts.plugstack: include"},
		{"services: [{name: a}]", "spec.services[0]: must say what to run"},
		{"services: [{name: a, command: [x], key: k}]", "spec.services[0]: must say what to run"},
		{"services: [{name: a, configMap: ours, key: x}]", "spec.services[0]: key x of ConfigMap ours"},
		{"services: [{name: a, command: [x], after: [b]}]", "spec.services[0].after[0]: there is no service"},
		{"services: [{name: a, command: [x], after: [b]}, {name: b, command: [x], where: login}]",
		 "spec.services[0].after[0]: \"b\" does not run everywhere"},
		{"services: [{name: a, command: [x], after: [b]}, {name: b, command: [x], after: [a]}]",
		 "spec.services[0].after: \"a\" comes after itself"},
	};
	const struct td_slurm_text texts[] = {{"ours", "x", "echo"}, {"ours", "i", "a\n include /etc/shadow"}};
	const struct td_slurm_facts f = {.texts = texts, .n_texts = 2};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_free char *text = td_asprintf(HEAD "spec: {%s}\n", bad[i][0]);
		td_auto(td_json_unref) struct td_json *o = yaml(text);
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};
		assert_false(td_slurm_files_make(td_json_root(o), &f, &r, &p));
		if (!td_starts(p.v[0], bad[i][1]))
			fail_msg("%s: %s", bad[i][0], p.v[0]);
	}
}

#define DBD "accounting: {enabled: true, database: {embedded: {storage: {claim: c}}}}, "

static void test_preemption(void **state)
{
	const struct td_slurm_facts f = {0};
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec: {" DBD "preemption: {mode: Cancel, qos: [{name: urgent, preempts: [normal], users: "
			  "[alice]}, {name: low}]}, scheduler: {defaultUser: pods, namespaces: [{namespace: a, user: "
			  "bob}], priorityClassMap: [{priorityClass: c, qos: urgent}, {priorityClass: d, qos: low, "
			  "namespaces: [z]}]}}\n");
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	assert_true(td_slurm_files_make(td_json_root(o), &f, &r, &p));
	assert_non_null(strstr(r.v[TD_SLURM_CONF].text, "\nPreemptType=preempt/qos\nPreemptMode=CANCEL\n"
							"PriorityWeightQOS=1000000\n"));
	const char *lua = r.v[TD_JOB_SUBMIT_LUA].text;
	assert_non_null(strstr(lua, "\t[\"urgent\"] = { [\"pods\"] = true, [\"bob\"] = true, [\"alice\"] = true, },"));
	assert_non_null(strstr(lua, "\t[\"low\"] = { [\"pods\"] = true, },")); // bob's namespace may not have it

	assert_int_equal(td_slurm_preempt_s("30s"), 30);
	assert_int_equal(td_slurm_preempt_s("2m"), 120);
	assert_int_equal(td_slurm_preempt_s("1h"), 3600);
	assert_int_equal(td_slurm_preempt_s("s"), 0);
	assert_int_equal(td_slurm_preempt_s("1d"), 0);
	assert_int_equal(td_slurm_preempt_s(NULL), 0);
}

// The table of services is in the order of their dependencies, and a command is quoted for a shell.
static void test_services(void **state)
{
	td_auto(td_json_unref) struct td_json *o =
		yaml(HEAD "spec:\n"
			  "  services:\n"
			  "  - {name: c, configMap: ours, key: p, after: [b, a], where: login, timeout: 5m, onFailure: "
			  "ignore}\n"
			  "  - {name: b, type: service, command: [echo, \"it's\", \"a $b\"], after: [a]}\n"
			  "  - {name: a, configMap: ours, key: p}\n");
	const struct td_slurm_text texts[] = {{"ours", "p", "#!/bin/sh\n"}};
	const struct td_slurm_facts f = {.texts = texts, .n_texts = 1};
	td_auto_slurm_files struct td_slurm_files r = {0};
	td_auto_strv struct td_strv p = {0};
	if (!td_slurm_files_make(td_json_root(o), &f, &r, &p))
		fail_msg("%s", p.v[0]);
	assert_string_equal(r.v[r.n - 1].name, "services");
	assert_string_equal(r.v[r.n - 1].text,
			    "a oneshot all 60s block -\nb service all 60s block a\nc oneshot login 5m ignore b,a\n");
	size_t i = 0;
	while (i < r.n && strcmp(r.v[i].name, "service-b") != 0)
		i++;
	assert_true(i < r.n);
	assert_string_equal(r.v[i].text, "#!/bin/sh\nexec 'echo' 'it'\\''s' 'a $b'\n");
}

// Each spec here is refused, and the refusal names the field.
static void test_refused(void **state)
{
	static const char *const bad[][2] = {
		{"config: {slurmConf: {SlurmUser: root}}", "spec.config.slurmConf.SlurmUser"},
		{"config: {slurmConf: {slurmuser: root}}", "spec.config.slurmConf.slurmuser"},
		{"config: {slurmConf: {KillWait: '5 SlurmUser=root'}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: \"5\\nSlurmUser=root\"}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: '5#'}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: '5\\'}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: '\"5'}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: ''}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {KillWait: 5}}", "spec.config.slurmConf.KillWait"},
		{"config: {slurmConf: {'KillWait=1 X': '5'}}", "spec.config.slurmConf"},
		{"config: {slurmConf: {KillWait: '1', killwait: '2'}}", "spec.config.slurmConf.killwait"},
		{"config: {slurmConf: {Include: /etc/shadow}}", "spec.config.slurmConf.Include"},
		{"config: {files: {gres.conf: x}}", "spec.config.files"},
		{"config: {files: {cgroup.conf: \"AllowedRAMSpace=90\\n constraindevices = no\"}}",
		 "spec.config.files.cgroup.conf"},
		{"config: {files: {mpi.conf: \"a=1\\n  include /etc/shadow\"}}", "spec.config.files.mpi.conf"},
		{"partitions: [{name: 'a b'}]", "spec.partitions[0].name"},
		{"partitions: [{name: DEFAULT}]", "spec.partitions[0].name"},
		{"partitions: [{name: \"a\\nSlurmUser=root\"}]", "spec.partitions[0].name"},
		{"partitions: [{name: a, maxTime: '5 Nodes=x'}]", "spec.partitions[0].maxTime"},
		{"partitions: [{name: a, state: 'UP Hidden=YES'}]", "spec.partitions[0].state"},
		{"partitions: [{name: a, qos: 'x y'}]", "spec.partitions[0].qos"},
		{"partitions: [{name: a, nodeSets: [nope]}]", "spec.partitions[0].nodeSets[0]"},
		{"partitions: [{name: a}, {name: a}]", "spec.partitions[1].name"},
		{"partitions: [{name: a, default: true}, {name: b, default: true}]", "spec.partitions[1].default"},
		{"users: [{name: 'x:0:0', uid: 1000}]", "spec.users[0].name"},
		{"users: [{name: root, uid: 1000}]", "spec.users[0].name"},
		{"users: [{name: _apt, uid: 1000}]", "spec.users[0].name"},
		{"users: [{name: a, uid: 1000, groups: [physics]}]", "spec.users[0].groups[0]: there is no group"},
		{"groups: [{name: a, gid: 5000}], users: [{name: a, uid: 1000}]", "spec.groups[0].name"},
		{"groups: [{name: sudo, gid: 5000}]", "spec.groups[0].name"},
		{"groups: [{name: \"x\\nroot\", gid: 5000}]", "spec.groups[0].name"},
		{"groups: [{name: a, gid: 27}]", "spec.groups[0].gid"},
		{"groups: [{name: a, gid: 5000}, {name: b, gid: 5000}]", "spec.groups[1].gid"},
		{"partitions: [{name: p, allowGroups: ['a b']}]", "spec.partitions[0].allowGroups[0]"},
		{"users: [{name: a, uid: 0}]", "spec.users[0].uid"},
		{"users: [{name: a, uid: 64030}]", "spec.users[0].uid"},
		{"users: [{name: a, uid: 1000}, {name: b, uid: 1000}]", "spec.users[1].uid: 1000 is a's already"},
		{"users: [{name: a, uid: 1000, gid: 0}]", "spec.users[0].gid"},
		{"users: [{name: a, uid: 1000, home: '/x:y'}]", "spec.users[0].home"},
		{"users: [{name: a, uid: 1000, shell: \"/x\\nroot::0\"}]", "spec.users[0].shell"},
		{"auth: {type: none}", "spec.auth.type"},
		{"preemption: {qos: [{name: a}]}", "spec.preemption: QOS are kept by slurmdbd"},
		{DBD "preemption: {qos: [{name: a, preempts: [b]}]}", "spec.preemption.qos[0].preempts[0]"},
		{DBD "preemption: {qos: [{name: a, preempts: [normal, a]}]}", "spec.preemption.qos[0].preempts[1]"},
		{DBD "preemption: {qos: [{name: a, preempts: [b]}, {name: b, preempts: [a]}]}",
		 "spec.preemption.qos[1].preempts[0]"},
		{DBD "preemption: {qos: [{name: a}]}, config: {slurmConf: {preemptmode: CANCEL}}",
		 "spec.config.slurmConf.preemptmode"},
		{"scheduler: {priorityClassMap: [{priorityClass: c, qos: a}]}",
		 "spec.scheduler.priorityClassMap[0].qos"},
	};

	const struct td_slurm_facts f = {0};
	for (size_t i = 0; i < TD_LEN(bad); i++) {
		td_auto_free char *text = td_asprintf(HEAD "spec: {%s}\n", bad[i][0]);
		td_auto(td_json_unref) struct td_json *o = yaml(text);
		td_auto_slurm_files struct td_slurm_files r = {0};
		td_auto_strv struct td_strv p = {0};

		if (td_slurm_files_make(td_json_root(o), &f, &r, &p))
			fail_msg("accepted: %s", bad[i][0]);
		assert_int_equal(r.n, 0);

		bool named = false;
		for (size_t k = 0; k < p.n; k++) {
			named |= td_starts(p.v[k], bad[i][1]);
			assert_null(strchr(p.v[k], '\n'));
		}
		if (!named)
			fail_msg("%s: no line starts with %s but: %s", bad[i][0], bad[i][1], p.v[0]);
	}
}

static void test_grammar(void **state)
{
	assert_true(td_slurm_is_time("90") && td_slurm_is_time("1:30") && td_slurm_is_time("1-2:3:4") &&
		    td_slurm_is_time("infinite"));
	assert_false(td_slurm_is_time("") || td_slurm_is_time("1-") || td_slurm_is_time("1:2:3:4") ||
		     td_slurm_is_time("1 ") || td_slurm_is_time(NULL));
	assert_true(td_slurm_is_value("a=b,c[1-2]:x/*"));
	assert_false(td_slurm_is_value("a\tb") || td_slurm_is_value("\xc3\xa4") || td_slurm_is_value(NULL));
	assert_true(td_slurm_is_path("/home/x.y"));
	assert_false(td_slurm_is_path("x") || td_slurm_is_path("/a/../b") || td_slurm_is_path("/a b"));
	assert_false(td_slurm_is_name(".a") || td_slurm_is_name("") || td_slurm_is_name("a,b") ||
		     td_slurm_is_user("Ann") || td_slurm_is_user("1a"));
}

static void test_base64(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};

	for (size_t i = 0; i < TD_LEN(pairs); i++) {
		td_auto_buf struct td_buf e = {0}, d = {0};
		td_base64(&e, pairs[i][0], strlen(pairs[i][0]));
		assert_string_equal(td_buf_str(&e), pairs[i][1]);
		assert_int_equal(td_base64_decode(pairs[i][1], &d, NULL), 0);
		assert_string_equal(td_buf_str(&d), pairs[i][0]);
	}

	td_auto_buf struct td_buf d = {0};
	assert_int_equal(td_base64_decode("Zg=", &d, NULL), -8);
	assert_int_equal(td_base64_decode("Z===", &d, NULL), -8);
	assert_int_equal(td_base64_decode("Zg==Zg==", &d, NULL), -8);
	assert_int_equal(td_base64_decode("Zm\n9", &d, NULL), -8);

	td_auto_free char *a = td_slurm_key_new(32), *b = td_slurm_key_new(32);
	assert_string_not_equal(a, b);
	assert_int_equal(td_base64_decode(a, &d, NULL), 0);
	assert_int_equal(d.len, 32);
}

static void refusal_says(const char *spec, const char *log, const char *want)
{
	td_auto(td_json_unref) struct td_json *sc = yaml(spec);
	td_auto_free char *got = td_slurm_refusal(td_json_root(sc), log);
	if (strcmp(got, want) != 0)
		fail_msg("%s\n  got:  %s\n  want: %s", log, got, want);
}

// What slurmctld 24.11 writes, to the field that it is about.
static void test_refusal(void **state)
{
#define CONF(c) "spec: {config: {slurmConf: {" c "}}}"
	refusal_says(CONF("Bogus: '1'"),
		     "slurmctld: error: _parse_next_key: Parsing error at unrecognized key: Bogus\n"
		     "slurmctld: fatal: Unable to process configuration file\n",
		     "spec.config.slurmConf.Bogus: slurmctld does not start with it: error: _parse_next_key: "
		     "Parsing error "
		     "at unrecognized key: Bogus; correct it, or remove it");
	// By its value, and the key of another one is no part of a longer word.
	refusal_says(CONF("Scheduler: '1', SchedulerType: sched/nope"),
		     "slurmctld: error: Configured MailProg is invalid\n"
		     "slurmctld: error: cannot find sched-x plugin for sched/nope\n"
		     "slurmctld: fatal: Failed to initialize the various schedulers",
		     "spec.config.slurmConf.SchedulerType: slurmctld does not start with it: error: cannot "
		     "find sched-x "
		     "plugin for sched/nope; fatal: Failed to initialize the various schedulers; correct it, "
		     "or remove it");
	refusal_says("spec: {config: {files: {topology.conf: x}}}",
		     "slurmctld: error: s_p_parse_file: cannot read /etc/topology.conf",
		     "spec.config.files.topology.conf: slurmctld does not start with it: error: "
		     "s_p_parse_file: cannot read "
		     "/etc/topology.conf; correct it, or remove it");
	refusal_says("spec: {partitions: [{name: a}, {name: gpu}]}", "fatal: Partition gpu has invalid qos x",
		     "spec.partitions[1]: slurmctld does not start with it: fatal: Partition gpu has invalid "
		     "qos x; correct "
		     "it, or remove it");
	refusal_says("spec: {}", "slurmctld: fatal: open: Permission denied\x01",
		     "spec.config: slurmctld does not start with it: fatal: open: Permission denied?; correct "
		     "what this "
		     "names");
	refusal_says("spec: {}", "",
		     "spec.config: slurmctld does not start with it: it gave no reason; correct what this names");
#undef CONF
}

int main(void)
{
	const struct CMUnitTest t[] = {
		cmocka_unit_test(test_blocks),           cmocka_unit_test(test_golden),
		cmocka_unit_test(test_others),           cmocka_unit_test(test_on_demand),
		cmocka_unit_test(test_groups),           cmocka_unit_test(test_munge),
		cmocka_unit_test(test_when_prolog_runs), cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_scripts_refused),  cmocka_unit_test(test_job_network),
		cmocka_unit_test(test_scratch),          cmocka_unit_test(test_refused),
		cmocka_unit_test(test_preemption),       cmocka_unit_test(test_grammar),
		cmocka_unit_test(test_base64),           cmocka_unit_test(test_refusal),
		cmocka_unit_test(test_services),
	};
	return cmocka_run_group_tests(t, NULL, NULL);
}
