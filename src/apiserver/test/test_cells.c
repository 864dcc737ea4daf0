// What `kubectl get` prints of each kind: an object, and the cells of its row.
// rows: F1.2 F1.10
#include "apiserver/cells.h"
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define NOW "2026-01-01T01:00:00Z"
#define META "metadata: {name: a, creationTimestamp: '2026-01-01T00:00:00Z'"
#define RUNNING "state: {running: {}}, ready: true"

static void rows(void **state)
{
	static const struct {
		const char *group, *plural, *object, *cells;
	} t[] = {
		// ---- pods ----
		{"", "pods",
		 "{" META "}, spec: {nodeName: n0, containers: [{}, {}]}, status: {phase: Running, podIP: 10.0.0.1, "
		 "containerStatuses: [{" RUNNING
		 ", restartCount: 2, lastState: {terminated: {finishedAt: '2026-01-01T00:58:00Z'}}}, {state: {waiting: "
		 "{reason: CrashLoopBackOff}}}]}}",
		 "'a','1/2','CrashLoopBackOff','2 (2m ago)','60m','10.0.0.1','n0','<none>','<none>'"},
		{"", "pods", "{" META "}, spec: {containers: [{}]}, status: {phase: Pending}}",
		 "'a','0/1','Pending','0','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META "}, spec: {containers: [{}]}, status: {phase: Pending, conditions: [{type: PodScheduled, "
		 "reason: SchedulingGated}]}}",
		 "'a','0/1','SchedulingGated','0','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META "}, spec: {containers: [{}], initContainers: [{name: x}, {name: y}]}, status: {phase: "
		 "Pending, initContainerStatuses: [{name: x, state: {terminated: {exitCode: 0}}, "
		 "restartCount: 1}, {name: y, state: {waiting: {reason: PodInitializing}}}]}}",
		 "'a','0/1','Init:1/2','1','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META "}, spec: {containers: [{}], initContainers: [{name: x}]}, status: {phase: Pending, "
		 "initContainerStatuses: [{name: x, state: {terminated: {exitCode: 3}}}]}}",
		 "'a','0/1','Init:ExitCode:3','0','60m','<none>','<none>','<none>','<none>'"},
		// A sidecar counts as one of the containers; once the others run, only the restarts
		// of sidecars count of the init containers.
		{"", "pods",
		 "{" META "}, spec: {containers: [{}], initContainers: [{name: s, restartPolicy: Always}, {name: x}]}, "
		 "status: {phase: Running, initContainerStatuses: [{name: s, started: true, ready: true, "
		 "restartCount: 3, state: {running: {}}}, {name: x, restartCount: 7, state: {terminated: "
		 "{exitCode: 0}}}], containerStatuses: [{" RUNNING "}]}}",
		 "'a','2/2','Running','3','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META "}, spec: {containers: [{}, {}]}, status: {phase: Running, containerStatuses: [{state: "
		 "{terminated: {reason: Completed}}}, {" RUNNING "}], conditions: [{type: Ready, status: 'False'}]}}",
		 "'a','1/2','NotReady','0','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META ", deletionTimestamp: '" NOW
		 "'}, spec: {containers: [{}]}, status: {phase: Running, containerStatuses: [{" RUNNING "}]}}",
		 "'a','1/1','Terminating','0','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods", "{" META "}, spec: {containers: [{}]}, status: {phase: Failed, reason: Evicted}}",
		 "'a','0/1','Evicted','0','60m','<none>','<none>','<none>','<none>'"},
		{"", "pods",
		 "{" META "}, spec: {containers: [{}]}, status: {phase: Failed, containerStatuses: [{state: "
		 "{terminated: {signal: 9}}}]}}",
		 "'a','0/1','Signal:9','0','60m','<none>','<none>','<none>','<none>'"},
		// ---- the others ----
		{"", "nodes",
		 "{" META ", labels: {node-role.kubernetes.io/x: ''}}, spec: {unschedulable: true}, status: "
		 "{conditions: [{type: Ready, status: 'True'}], addresses: [{type: InternalIP, address: "
		 "10.0.0.1}], nodeInfo: {kubeletVersion: v1, osImage: Debian}}}",
		 "'a','Ready,SchedulingDisabled','x','60m','v1','10.0.0.1','<none>','Debian','<unknown>','<unknown>'"},
		{"", "nodes", "{" META "}}",
		 "'a','Unknown','<none>','60m','','<none>','<none>','<unknown>','<unknown>','<unknown>'"},
		{"apps", "deployments",
		 "{" META "}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {spec: {containers: "
		 "[{name: c, image: i}, {name: d, image: j}]}}}, status: {readyReplicas: 1, updatedReplicas: "
		 "2, availableReplicas: 1}}",
		 "'a','1/3',2,1,'60m','c,d','i,j','a=b'"},
		{"apps", "replicasets", "{" META "}, spec: {replicas: 3}, status: {replicas: 2}}",
		 "'a',3,2,0,'60m','','','<none>'"},
		{"apps", "statefulsets", "{" META "}, spec: {replicas: 3}}", "'a','0/3','60m','',''"},
		{"batch", "jobs",
		 "{" META "}, spec: {completions: 4}, status: {succeeded: 1, startTime: '2026-01-01T00:30:00Z', "
		 "conditions: [{type: Suspended, status: 'True'}]}}",
		 "'a','Suspended','1/4','30m','60m','','','<none>'"},
		{"batch", "jobs",
		 "{" META ", deletionTimestamp: x}, spec: {parallelism: 2}, status: {conditions: [{type: Complete, "
		 "status: 'True'}]}}",
		 "'a','Complete','0/1 of 2','','60m','','','<none>'"},
		{"", "services",
		 "{" META
		 "}, spec: {clusterIP: None, ports: [{port: 80}, {port: 53, protocol: UDP}], selector: {a: b, c: d}}}",
		 "'a','ClusterIP','None','<none>','80/TCP,53/UDP','60m','a=b,c=d'"},
		{"", "configmaps", "{" META "}, data: {a: b, c: d}, binaryData: {e: f}}", "'a',3,'60m'"},
		{"", "secrets", "{" META "}, data: {a: b}}", "'a','Opaque',1,'60m'"},
		{"", "serviceaccounts", "{" META "}}", "'a',0,'60m'"},
		{"", "namespaces", "{" META "}}", "'a','Active','60m'"},
		{"coordination.k8s.io", "leases", "{" META "}, spec: {holderIdentity: me}}", "'a','me','60m'"},
		{"scheduling.k8s.io", "priorityclasses", "{" META "}, value: 7, globalDefault: true}",
		 "'a',7,true,'60m','PreemptLowerPriority'"},
		{"policy", "poddisruptionbudgets",
		 "{" META "}, spec: {minAvailable: 2}, status: {disruptionsAllowed: 1}}", "'a','2','N/A',1,'60m'"},
		{"policy", "poddisruptionbudgets", "{" META "}, spec: {maxUnavailable: 30%}}",
		 "'a','N/A','30%',0,'60m'"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "{" META "}}", "'a','2026-01-01T00:00:00Z'"},
		{"", "events",
		 "{" META "}, type: Warning, reason: R, message: 'm \"q\"', count: 3, involvedObject: {kind: Pod, "
		 "name: P}, source: {component: c, host: h}, firstTimestamp: '2026-01-01T00:10:00Z', "
		 "lastTimestamp: '2026-01-01T00:59:00Z'}",
		 "'60s','Warning','R','pod/P','','c, h','m \\\"q\\\"','50m','3','a'"},
		{"", "events",
		 "{" META "}, series: {count: 9, lastObservedTime: '2026-01-01T00:59:30Z'}, eventTime: "
		 "'2026-01-01T00:30:00Z', reportingComponent: rc}",
		 "'30s','','','/','','rc','','30m','9','a'"},
	};
	int64_t now;

	assert_int_equal(td_time_parse(NOW, &now), 0);
	for (size_t i = 0; i < TD_LEN(t); i++) {
		td_auto_json_list struct td_json_list l = {0};
		struct td_error err = TD_ERROR_INIT;
		if (td_yaml_parse(t[i].object, strlen(t[i].object), &l, &err) < 0)
			fail_msg("%s: %s", t[i].object, err.msg);
		td_auto_buf struct td_buf got = {0};
		const struct td_celltable *c = td_cells_find(t[i].group, t[i].plural);
		for (const struct td_cellspec *s = c->columns; s->name; s++) {
			if (s != c->columns)
				td_buf_putc(&got, ',');
			s->cell(s, td_json_root(l.v[0]), now, &got);
		}
		td_auto_free char *want = td_strdup(t[i].cells);
		for (char *p = want; *p; p++)
			if (*p == '\'')
				*p = '"';
		if (strcmp(td_buf_str(&got), want) != 0)
			fail_msg("%s\n got: %s\nwant: %s", t[i].object, td_buf_str(&got), want);
	}

	assert_null(td_cells_find("x", "pods"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
