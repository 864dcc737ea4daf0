// tandem user: passwords and API keys of people, made by an administrator.
#include "cli/common.h"
#include "cli/remote.h"
#include "cmd/roles.h"
#include "kube/people.h"
#include "slurm/conf.h"

#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400, LEAST = 8 };

struct user_asked {
	struct td_remote remote;
	const char *name, *output;
	int days;
};

struct place {
	struct td_kube *kube;
	char *ns, *cluster;
};

static void place_done(struct place *p)
{
	td_kube_free(p->kube);
	free(p->ns);
	free(p->cluster);
}

// The SlurmCluster that is meant, and that it has such a user.
static int find(const struct td_remote *remote, const char *user, struct place *ret, struct td_error *err)
{
	td_auto_instance struct td_instance i = {0};
	int r = remote->kubeconfig ? 0 : td_instance_load(&i, err);
	if (r)
		return r;
	td_auto_free char *conf =
		remote->kubeconfig ? td_strdup(remote->kubeconfig) : td_instance_kubeconfig(&i, "admin");
	if ((r = td_kube_new(conf, &ret->kube, err)))
		return r;
	td_auto(td_object_unref) struct td_object *sc = td_remote_cluster(ret->kube, remote, NULL, err);
	if (!sc)
		return err->code;
	ret->ns = td_strdup(sc->ns);
	ret->cluster = td_strdup(sc->name);
	// Whom a directory service knows is asked when the key is used.
	bool may_be =
		td_jget(sc->root, "spec.identity.ldap") && td_slurm_is_user(user) && !td_slurm_is_system_name(user);
	if (!user || may_be || td_jfind(td_jget(sc->root, "spec.users"), "name", user))
		return 0;
	return td_fail(err, TD_NOT_FOUND, "SlurmCluster %s/%s has no user \"%.40s\": add it to spec.users first",
		       sc->ns, sc->name, user);
}

static int new_key(const struct place *p, const char *user, const struct user_asked *a, struct td_error *err)
{
	char id[TD_PEOPLE_ID + 1];
	td_auto_free char *key = NULL;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d =
		td_people_new_key(&(const struct td_people_key){.user = user,
								.name = a->name ? a->name : "by an administrator",
								.life_s = (int64_t)a->days * DAY_S},
				  &key, id);
	int r = td_people_write(p->kube, p->ns, p->cluster, d, NULL, err);
	if (!r)
		puts(key);
	explicit_bzero(key, strlen(key));
	return r;
}

static int new_password(const struct place *p, const char *user, struct td_error *err)
{
	td_auto_free char *password = td_people_password_made();
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_people_new_password(user, password);
	int r = td_people_write(p->kube, p->ns, p->cluster, d, NULL, err);
	if (!r)
		puts(password);
	explicit_bzero(password, strlen(password));
	return r;
}

static int secret(const struct place *p, struct td_object **ret, struct td_error *err)
{
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, p->cluster);
	return td_kube_get(p->kube, &td_secrets, p->ns, name, NULL, ret, err);
}

static int list(const struct place *p, const char *user, bool json, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	int r = secret(p, &o, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *keys = td_jm_arr(d, yyjson_mut_doc_get_root(d), "keys");
	if (o)
		td_people_keys(o->root, user, d, keys);
	td_auto(td_json_unref) struct td_json *j = td_json_from_mut(yyjson_mut_doc_get_root(d));
	td_cli_keys(td_json_root(j), true, json);
	return 0;
}

static int revoke(const struct place *p, const char *id, struct td_error *err)
{
	td_auto(td_object_unref) struct td_object *o = NULL;
	td_auto_free char *entry = td_asprintf("key.%s", id);
	int r = secret(p, &o, err);
	if (r && r != TD_NOT_FOUND)
		return r;
	if (r || !td_jkey(td_jget(o->root, "data"), entry))
		return td_fail(err, TD_NOT_FOUND, "there is no key %s: `tandem user keys` lists them", id);
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_people_no_key(id);
	return td_people_write(p->kube, p->ns, p->cluster, d, NULL, err);
}

int td_user_main(int argc, char **argv)
{
	struct user_asked a = {0};
	struct td_error err = TD_ERROR_INIT;
	char **words;
	int code;
	const struct td_option options[] = {
		{.name = "for", .value = "WHAT", TD_OPT_TEXT(&a.name), .help = "what a new key is for"},
		{.name = "days",
		 .value = "N",
		 TD_OPT_INT(&a.days, 1, 3650),
		 .help = "a new key ends after so many days (default: never)"},
		{.name = "output",
		 .letter = 'o',
		 .value = "FORMAT",
		 .help = "json: keys, for machines",
		 TD_OPT_TEXT(&a.output),
		 .choices = "json"},
		TD_REMOTE_OPTIONS(&a.remote),
	};
	const struct td_command line = {
		.name = "user",
		.about = "Makes and takes away what people (of spec.users, or of the directory service of\n"
			 "spec.identity.ldap) prove themselves with at the gateway:\n"
			 "  tandem user password ann    sets and prints a new password; logs her out\n"
			 "  tandem user key ann         makes an API key and prints it, this once\n"
			 "  tandem user keys [ann]      lists keys\n"
			 "  tandem user revoke KEY      ends a key, by its id; within a second",
		.options = options,
		.n = TD_LEN(options),
		.min_args = 1,
		.max_args = 2,
		.args = "password|key|keys|revoke [NAME]",
		.choices = "password|key|keys|revoke"};
	if (!td_command_line(&line, argc, argv, &words, &code))
		return code;
	const char *verb = words[0], *who = words[1];
	bool key = !strcmp(verb, "key"), password = !strcmp(verb, "password"), keys = !strcmp(verb, "keys"),
	     end = !strcmp(verb, "revoke");
	if (!key && !password && !keys && !end)
		return td_command_wrong("user", "\"%s\": give password, key, keys or revoke", verb);
	if (!keys && !who)
		return td_command_wrong("user", "%s: whose?", verb);
	if (td_remote_check(&a.remote, &err))
		return td_command_wrong("user", "%s", err.msg);

	__attribute__((cleanup(place_done))) struct place p = {0};
	int r = find(&a.remote, end ? NULL : who, &p, &err);
	if (!r)
		r = key        ? new_key(&p, who, &a, &err)
		    : password ? new_password(&p, who, &err)
		    : keys     ? list(&p, who, a.output != NULL, &err)
			       : revoke(&p, who, &err);
	if (r)
		fprintf(stderr, "tandem user: %s\n", err.msg);
	return r ? 1 : 0;
}
