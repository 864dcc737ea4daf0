// What the pod of a session uses of CPUs and GPUs. A figure that is not there is never taken for idle; why it is not
// is what the session says (useUnknown).
#include "gateway/sessions.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

static void read_from(const char *text, const struct td_object *pod, bool counted, struct td_session_figures *f)
{
	const char *node = td_jstr_or(pod->root, "spec.nodeName", "?");
	f->cpu = td_session_cpu_read(text, pod->ns, pod->name);
	f->gpu = !f->gpus  ? -1
		 : counted ? td_session_gpu_counted(text, pod->ns, pod->name)
			   : td_session_gpu_read(text, pod->ns, pod->name);
	if (f->cpu < 0)
		snprintf(f->why, sizeof(f->why),
			 "the use of its CPUs: the agent of node %s says nothing of it; it is older than this gateway, "
			 "or cannot read the node's cgroups",
			 node);
	else if (f->gpus && f->gpu < 0)
		snprintf(
			f->why, sizeof(f->why),
			counted ? "the use of its GPUs: they are counted (spec.devices: Allocatable), and the agent of "
				  "node %s cannot ask its kubelet which it has (agent.podResources of the chart), does "
				  "not measure them, or they are parts of GPUs"
				: "the use of its GPUs: the agent of node %s does not measure them; it sees no driver, "
				  "or they are parts of GPUs",
			node);
}

void td_session_figures_of(const struct td_session_source *from, const struct td_object *pod,
			   struct td_session_figures *ret)
{
	const char *devices = td_object_annotation(pod, TD_ANN_DEVICES), *text = from->text, *why = from->why;
	td_auto_said struct td_session_said said = {0};
	if (from->g && td_session_host(pod)) {
		td_session_measured(from->g, pod, ret);
		return;
	}
	struct td_session_figures f = {
		.cpu = -1, .gpu = -1, .gpus = devices && strcmp(devices, "{}") != 0, .at_ms = from->at_ms};
	// A device plug-in chose other devices than those that Slurm names: the kubelet says which.
	bool counted = from->agents && !td_jget(pod->root, "spec.resourceClaims.[0]");
	if (from->agents) {
		td_session_agents_said(from->agents, td_jstr_or(pod->root, "spec.nodeName", ""), &said);
		text = *said.why || !said.at_ms ? NULL : td_buf_str(&said.text);
		why = said.at_ms ? said.why : "the agent of its node was not asked yet";
		f.at_ms = said.at_ms;
	}
	if (text)
		read_from(text, pod, counted, &f);
	else
		snprintf(f.why, sizeof(f.why), "what it uses: %s", why ? why : "");
	*ret = f;
}
