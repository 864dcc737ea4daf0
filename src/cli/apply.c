// The objects of an installation: read from the binary, applied one by one, compared.
#include "cli/apply.h"

#include "api/kinds.h"
#include "base/embedded.h"
#include "cmd/roles.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

extern const struct td_embedded td_cli_files[];

static const char image_default[] = "tandem.dev/tandem:" TD_VERSION;

void td_cli_manifests_done(struct td_cli_manifests *m)
{
	td_json_list_done(&m->docs);
}

static const struct td_gvr roles = {"rbac.authorization.k8s.io", "v1", "roles", "Role", true},
			   rolebindings = {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true},
			   clusterroles = {"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false},
			   clusterrolebindings = {"rbac.authorization.k8s.io", "v1", "clusterrolebindings",
						  "ClusterRoleBinding", false},
			   daemonsets = {"apps", "v1", "daemonsets", "DaemonSet", true},
			   admission = {"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
					"ValidatingAdmissionPolicy", false},
			   admissionbindings = {"admissionregistration.k8s.io", "v1",
						"validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
						false};

const struct td_gvr *const td_cli_kinds[] = {&td_priorityclasses,
					     &td_namespaces,
					     &td_crds,
					     &td_serviceaccounts,
					     &clusterroles,
					     &clusterrolebindings,
					     &roles,
					     &rolebindings,
					     &td_configmaps,
					     &td_services,
					     &td_deployments,
					     &daemonsets,
					     &td_pdbs,
					     &td_slurmclusters,
					     &td_nodesets,
					     &td_networkpolicies,
					     &admission,
					     &admissionbindings,
					     NULL};

const struct td_gvr *td_cli_gvr(const yyjson_val *obj)
{
	for (size_t i = 0; td_cli_kinds[i]; i++)
		if (td_streq(td_jstr(obj, "kind"), td_cli_kinds[i]->kind))
			return td_cli_kinds[i];
	return NULL;
}

char *td_cli_path(const struct td_gvr *g, const char *ns, const char *name)
{
	struct td_buf b = {0};
	td_buf_printf(&b, "%s%s/%s", *g->group ? "/apis/" : "/api", g->group, g->version);
	if (g->namespaced)
		td_buf_printf(&b, "/namespaces/%s", ns);
	td_buf_printf(&b, "/%s/%s", g->resource, name);
	return td_buf_take(&b);
}

// Replaces every `from` in `text` by `to`. Takes over `text`; the caller frees the result.
static char *replaced(char *text, const char *from, const char *to)
{
	struct td_buf b = {0};
	const char *at = text;
	for (const char *hit; (hit = strstr(at, from)); at = hit + strlen(from)) {
		td_buf_add(&b, at, (size_t)(hit - at));
		td_buf_puts(&b, to);
	}
	td_buf_puts(&b, at);
	free(text);
	return td_buf_take(&b);
}

static bool only(const char *s, const char *more, size_t max)
{
	if (!*s || strlen(s) > max || !isalnum((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr(more, *s))
			return false;
	return true;
}

static int parse(char *text, struct td_cli_manifests *ret, struct td_error *err)
{
	td_auto_free char *own = text;
	struct td_json_list all = {0};
	int r = td_yaml_parse(own, strlen(own), &all, err);
	if (!r)
		ret->docs = all;
	return r;
}

int td_cli_tandem(const char *ns, const char *image, struct td_cli_manifests *ret, struct td_error *err)
{
	// The values become part of YAML text, so only safe characters are allowed.
	if (image && !only(image, "._-/:@", 255))
		return td_fail_detail(err, TD_INVALID, TD_CLI_USAGE,
				      "--image \"%s\": write NAME:TAG, as in registry.example.com/tandem:1", image);
	if (ns && (!only(ns, "-", 40) || strpbrk(ns, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")))
		return td_fail_detail(err, TD_INVALID, TD_CLI_USAGE,
				      "--namespace \"%s\": at most 40 small letters, digits and '-'", ns);

	char *text = td_strdup(td_embedded(td_cli_files, "tandem.yaml")->text);
	if (image)
		text = replaced(text, image_default, image);
	if (ns)
		text = replaced(text, TD_CLI_NAMESPACE, ns);

	return parse(text, ret, err);
}

static bool good_url(const char *s)
{
	static const char more[] = ".:-$()_[]";
	if (!strcmp(s, "none"))
		return true;
	if (!td_starts(s, "https://") || !s[8] || strlen(s) > 255)
		return false;
	for (s += 8; *s && (isalnum((unsigned char)*s) || strchr(more, *s)); s++)
		;
	return !*s;
}

// A volume of the agents' pod, mounted at `at`. Gives the volume, for what it is made of.
static yyjson_mut_val *mounted(yyjson_mut_doc *d, yyjson_mut_val *spec, const char *name, const char *at,
			       bool read_only)
{
	yyjson_mut_val *mount = yyjson_mut_arr_add_obj(d, td_jm_get(spec, "containers.[0].volumeMounts"));
	td_jm_str(d, mount, "name", name);
	td_jm_str(d, mount, "mountPath", at);
	if (read_only)
		td_jm_bool(d, mount, "readOnly", true);
	yyjson_mut_val *volume = yyjson_mut_arr_add_obj(d, td_jm_get(spec, "volumes"));
	td_jm_str(d, volume, "name", name);
	return volume;
}

// Writes into the agents' DaemonSet what the chart writes for its agent.kubelet, .kubeletCA and .seccompProfiles.
static void write_agents(yyjson_mut_doc *d, const struct td_cli_agents *o)
{
	yyjson_mut_val *spec = td_jm_get(yyjson_mut_doc_get_root(d), "spec.template.spec"),
		       *args = td_jm_get(spec, "containers.[0].args");

	td_auto_free char *arg = td_asprintf("--kubelet=%s", o->kubelet ? o->kubelet : "");
	if (o->kubelet)
		yyjson_mut_arr_add_strcpy(d, args, arg);
	if (o->kubelet_ca) {
		yyjson_mut_arr_add_strcpy(d, args, "--kubelet-ca=/host/kubelet-ca.crt");
		yyjson_mut_val *ca = mounted(d, spec, "kubelet-ca", "/host/kubelet-ca.crt", true);
		td_jm_str(d, ca, "hostPath.path", o->kubelet_ca);
		td_jm_str(d, ca, "hostPath.type", "File");
	}
	if (o->seccomp_profiles) {
		yyjson_mut_arr_add_strcpy(d, args, "--profiles=/etc/tandem/profiles");
		yyjson_mut_arr_add_strcpy(d, args, "--profiles-to=/host/seccomp");
		yyjson_mut_val *from = mounted(d, spec, "profiles", "/etc/tandem/profiles", true);
		td_jm_str(d, from, "configMap.name", o->seccomp_profiles);
		td_jm_bool(d, from, "configMap.optional", true);
		yyjson_mut_val *to = mounted(d, spec, "seccomp", "/host/seccomp", false);
		td_jm_str(d, to, "hostPath.path", "/var/lib/kubelet/seccomp");
		td_jm_str(d, to, "hostPath.type", "DirectoryOrCreate");
	}
}

int td_cli_agents(struct td_cli_manifests *m, const struct td_cli_agents *o, struct td_error *err)
{
	if (o->kubelet && !good_url(o->kubelet))
		return td_fail_detail(err, TD_INVALID, TD_CLI_USAGE,
				      "--kubelet \"%s\": write none, or a URL as https://$(NODE_NAME):10250",
				      o->kubelet);
	if (o->kubelet_ca && (*o->kubelet_ca != '/' || !only(o->kubelet_ca + 1, "._/-", 255)))
		return td_fail_detail(err, TD_INVALID, TD_CLI_USAGE,
				      "--kubelet-ca \"%s\": the whole path of a file on every node, as "
				      "/var/lib/kubelet/pki/kubelet.crt",
				      o->kubelet_ca);
	if (o->seccomp_profiles && !td_is_dns_subdomain(o->seccomp_profiles))
		return td_fail_detail(err, TD_INVALID, TD_CLI_USAGE,
				      "--seccomp-profiles \"%s\": the name of a ConfigMap in tandem-node, as "
				      "tandem-profiles",
				      o->seccomp_profiles);

	for (size_t i = 0; i < m->docs.n && (o->kubelet || o->kubelet_ca || o->seccomp_profiles); i++) {
		if (!td_streq(td_jstr(td_json_root(m->docs.v[i]), "kind"), daemonsets.kind))
			continue;
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(td_json_root(m->docs.v[i]));
		write_agents(d, o);
		td_json_unref(m->docs.v[i]);
		m->docs.v[i] = td_json_from_mut(yyjson_mut_doc_get_root(d));
	}
	return 0;
}

int td_cli_example(const char *node, struct td_cli_manifests *ret, struct td_error *err)
{
	td_auto_free char *line = td_asprintf("node: '%s'", node);
	return parse(replaced(td_strdup(td_embedded(td_cli_files, "cluster.yaml")->text), "node: NODE", line), ret,
		     err);
}

const char *td_applied_text(enum td_applied a)
{
	return a == TD_CREATED ? "created" : a == TD_CHANGED ? "changed" : a == TD_REMOVED ? "removed" : "unchanged";
}

// The object as a person sees it, without what the server records about it.
static struct td_json *content(const yyjson_val *v)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_copy(v);
	static const char *const skip[] = {"status", "metadata.managedFields", "metadata.resourceVersion",
					   "metadata.generation"};
	for (size_t i = 0; i < TD_LEN(skip); i++)
		td_jm_del(yyjson_mut_doc_get_root(d), skip[i]);
	return td_json_from_mut(yyjson_mut_doc_get_root(d));
}

int td_cli_apply(struct td_kube *k, const yyjson_val *obj, bool dry_run, struct td_cancel *c, enum td_applied *ret,
		 struct td_error *err)
{
	const struct td_gvr *g = td_cli_gvr(obj);
	const char *ns = td_jstr(obj, "metadata.namespace"), *name = td_jstr_or(obj, "metadata.name", "");

	if (!g)
		return td_fail(err, TD_INTERNAL, "%s %s: a kind that is not expected there",
			       td_jstr_or(obj, "kind", "?"), name);

	td_auto(td_object_unref) struct td_object *old = NULL;
	int r = td_kube_get(k, g, ns, name, c, &old, err);
	if (r == TD_NOT_FOUND) {
		old = NULL;
		if (dry_run) { // its namespace or kind may not exist yet either
			*ret = TD_CREATED;
			return 0;
		}
	} else if (r) {
		return td_wrap(err, "%s %s", g->kind, name);
	}

	td_auto_free char *at = td_cli_path(g, ns, name);
	td_auto_free char *path =
		td_asprintf("%s?fieldManager=" TD_CLI_MANAGER "&force=true%s", at, dry_run ? "&dryRun=All" : "");
	size_t len;
	td_auto_free char *body = td_json_text(obj, &len);
	td_auto(td_json_unref) struct td_json *now = NULL;

	// A namespace or a kind that was created a moment ago may not be served yet.
	for (int tries = 0;; tries++) {
		r = td_kube_raw(k, "PATCH", path, &(struct td_kube_body){"application/apply-patch+yaml", body, len}, c,
				&now, err);
		if ((r != TD_NOT_FOUND && r != TD_UNCERTAIN && r != TD_TRANSIENT) || tries == 100)
			break;
		if (td_cancel_wait(c, 100))
			return td_fail(err, TD_CANCELLED, "cancelled");
	}

	if (r)
		return td_wrap(err, "applying %s %s", g->kind, name);

	if (!old) {
		*ret = TD_CREATED;
		return 0;
	}

	td_auto(td_json_unref) struct td_json *before = content(old->root), *after = content(td_json_root(now));
	*ret = td_jequal(td_json_root(before), td_json_root(after)) ? TD_UNCHANGED : TD_CHANGED;
	return 0;
}
