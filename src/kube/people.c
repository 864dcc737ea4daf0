#include "kube/people.h"

#include "base/rand.h"
#include "http/password.h"
#include "http/pki.h"

#include <string.h>

enum { SECRET_BYTES = 32, SECRET_CHARS = 43 };

static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789"; // none that look alike

static void random_letters(struct td_buf *b, size_t n)
{
	while (n--)
		td_buf_putc(b, letters[td_random_below(sizeof(letters) - 1)]);
}

bool td_people_key_id(const char *key, char ret_id[TD_PEOPLE_ID + 1])
{
	static const char secret[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	if (!key || strncmp(key, "tdk_", 4) != 0 || strlen(key) != 4 + TD_PEOPLE_ID + 1 + SECRET_CHARS ||
	    strspn(key + 4, letters) < TD_PEOPLE_ID || key[4 + TD_PEOPLE_ID] != '_' ||
	    strspn(key + 4 + TD_PEOPLE_ID + 1, secret) != SECRET_CHARS)
		return false;
	memcpy(ret_id, key + 4, TD_PEOPLE_ID);
	ret_id[TD_PEOPLE_ID] = '\0';
	return true;
}

static void put(yyjson_mut_doc *d, const char *key, const void *p, size_t n)
{
	td_auto_buf struct td_buf b = {0};
	td_base64(&b, p, n);
	td_jm_key_str(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "data"), key, td_buf_str(&b));
}

// The key that signs what browsers keep.
static void put_cookie(yyjson_mut_doc *d)
{
	unsigned char cookie[SECRET_BYTES];
	td_random(cookie, sizeof(cookie));
	put(d, "cookie", cookie, sizeof(cookie));
	explicit_bzero(cookie, sizeof(cookie));
}

yyjson_mut_doc *td_people_new_key(const struct td_people_key *k, char **ret_key, char ret_id[TD_PEOPLE_ID + 1])
{
	unsigned char raw[SECRET_BYTES];
	char hash[65];
	td_auto_buf struct td_buf id = {0}, b64 = {0};
	random_letters(&id, TD_PEOPLE_ID);
	td_random(raw, sizeof(raw));
	td_base64(&b64, raw, sizeof(raw));
	explicit_bzero(raw, sizeof(raw));
	for (size_t i = 0; i < b64.len; i++)
		b64.s[i] = b64.s[i] == '+' ? '-' : b64.s[i] == '/' ? '_' : b64.s[i];

	char *key = td_asprintf("tdk_%s_%.*s", td_buf_str(&id), SECRET_CHARS, b64.s);
	explicit_bzero(b64.s, b64.len);
	td_sha256_hex(key, strlen(key), hash);

	int64_t now = td_real_ms(&td_clock_system) / 1000;
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *entry = td_jm_new();
	yyjson_mut_val *e = yyjson_mut_doc_get_root(entry);
	td_jm_str(entry, e, "user", k->user);
	td_jm_str(entry, e, "name", k->name);
	td_jm_str(entry, e, "project", k->project);
	td_jm_str(entry, e, "hash", hash);
	td_jm_int(entry, e, "created", now);
	td_jm_int(entry, e, "expires", k->life_s ? now + k->life_s : 0);
	size_t n;
	td_auto_free char *text = td_json_mut_text(e, &n), *at = td_asprintf("key.%s", td_buf_str(&id));

	yyjson_mut_doc *d = td_jm_new();
	put(d, at, text, n);
	memcpy(ret_id, td_buf_str(&id), TD_PEOPLE_ID + 1);
	*ret_key = key;
	return d;
}

yyjson_mut_doc *td_people_new_password(const char *user, const char *password)
{
	td_auto_free char *hash = td_password_hash(password), *at = td_asprintf("password.%s", user);
	yyjson_mut_doc *d = td_jm_new();
	put(d, at, hash, strlen(hash));
	return d;
}

yyjson_mut_doc *td_people_no_key(const char *id)
{
	td_auto_free char *at = td_asprintf("key.%s", id);
	yyjson_mut_doc *d = td_jm_new();
	td_jm_key_set(d, td_jm_obj(d, yyjson_mut_doc_get_root(d), "data"), at, yyjson_mut_null(d));
	return d;
}

char *td_people_password_made(void)
{
	struct td_buf b = {0};
	for (int i = 0; i < 4; i++) {
		if (i)
			td_buf_putc(&b, '-');
		random_letters(&b, 4);
	}
	return td_buf_take(&b);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void td_people_keys(const yyjson_val *secret, const char *user, yyjson_mut_doc *d, yyjson_mut_val *list)
{
	yyjson_val *data = td_jget(secret, "data"), *k, *v;
	td_auto_free const char **ids = td_calloc(yyjson_obj_size(data) + 1, sizeof(*ids));
	size_t i, max, n = 0;
	yyjson_obj_foreach (data, i, max, k, v)
		if (td_starts(yyjson_get_str(k), "key."))
			ids[n++] = yyjson_get_str(k);
	if (n)
		qsort(ids, n, sizeof(*ids), by_id);

	for (i = 0; i < n; i++) {
		size_t len = 0;
		td_auto_free char *text = td_people_value(secret, ids[i], &len);
		td_auto(td_json_unref) struct td_json *j = NULL;
		if (!text || td_json_parse(text, len, &j, NULL))
			continue;
		yyjson_val *e = td_json_root(j);
		if (user && !td_streq(td_jstr(e, "user"), user))
			continue;
		yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
		td_jm_str(d, o, "id", ids[i] + strlen("key."));
		td_jm_str(d, o, "user", td_jstr(e, "user"));
		td_jm_str(d, o, "name", td_jstr(e, "name"));
		td_jm_int(d, o, "created", td_jint(e, "created", 0));
		td_jm_int(d, o, "expires", td_jint(e, "expires", 0));
		td_jm_str(d, o, "project", td_jstr(e, "project"));
	}
}

char *td_people_value(const yyjson_val *secret, const char *key, size_t *ret_len)
{
	struct td_buf b = {0};
	const char *text = td_jkey_str(td_jget(secret, "data"), key);
	if (!text || td_base64_decode(text, &b, NULL)) {
		td_buf_done(&b);
		return NULL;
	}
	if (ret_len)
		*ret_len = b.len;
	return td_buf_take(&b);
}

// Makes the Secret, with nothing but a cookie. TD_EXISTS: somebody was faster.
static int make(struct td_kube *k, const char *ns, const char *cluster, const char *name, struct td_cancel *c,
		struct td_error *err)
{
	td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
	yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
	td_jm_str(d, o, "apiVersion", "v1");
	td_jm_str(d, o, "kind", "Secret");
	td_jm_str(d, o, "metadata.name", name);
	td_jm_str(d, o, "metadata.namespace", ns);
	td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_CLUSTER, cluster);
	td_jm_str(d, o, "type", "Opaque");
	put_cookie(d);
	return td_kube_create(k, &td_secrets, ns, o, c, NULL, err);
}

char *td_people_signing(const yyjson_val *secret, size_t *ret_len)
{
	td_auto_free char *key = td_people_value(secret, "cookie", ret_len);
	return key && *ret_len >= SECRET_BYTES ? td_steal(key) : NULL;
}

bool td_people_can_sign(const yyjson_val *secret)
{
	size_t n = 0;
	td_auto_free char *key = td_people_signing(secret, &n);
	if (key)
		explicit_bzero(key, n);
	return key;
}

int td_people_ensure(struct td_kube *k, const char *ns, const char *cluster, const struct td_object *live,
		     struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, cluster);
	td_auto(td_object_unref) struct td_object *asked = NULL;
	int r = live ? 0 : td_kube_get(k, &td_secrets, ns, name, c, &asked, err);
	live = live ? live : asked;
	if (r == TD_NOT_FOUND) {
		r = make(k, ns, cluster, name, c, err);
		r = r == TD_EXISTS ? 0 : r;
	} else if (!r &&
		   (!td_people_can_sign(live->root) || !td_streq(td_object_label(live, TD_LABEL_CLUSTER), cluster))) {
		// The version makes sure that of two who do this at once one only writes.
		td_auto(yyjson_mut_doc_free) yyjson_mut_doc *d = td_jm_new();
		yyjson_mut_val *o = yyjson_mut_doc_get_root(d);
		td_jm_str(d, o, "metadata.uid", live->uid);
		td_jm_str(d, o, "metadata.resourceVersion", live->rv);
		td_jm_key_str(d, td_jm_obj(d, o, "metadata.labels"), TD_LABEL_CLUSTER, cluster);
		if (!td_people_can_sign(live->root))
			put_cookie(d);
		r = td_kube_patch(k, TD_AT(&td_secrets, ns, name), TD_PATCH_MERGE, o, c, NULL, err);
		r = r == TD_CONFLICT ? 0 : r; // whoever changed it comes by here again
	}
	return r ? td_wrap(err, "Secret %s/%s", ns, name) : 0;
}

int td_people_write(struct td_kube *k, const char *ns, const char *cluster, const yyjson_mut_doc *patch,
		    struct td_cancel *c, struct td_error *err)
{
	td_auto_free char *name = td_asprintf(TD_PEOPLE_SECRET, cluster);
	const struct td_kube_place at = {&td_secrets, ns, name, NULL};
	yyjson_mut_val *root = yyjson_mut_doc_get_root((yyjson_mut_doc *)(uintptr_t)patch);
	int r = td_kube_patch(k, &at, TD_PATCH_MERGE, root, c, NULL, err);
	if (r == TD_NOT_FOUND) {
		r = make(k, ns, cluster, name, c, err);
		if (!r || r == TD_EXISTS)
			r = td_kube_patch(k, &at, TD_PATCH_MERGE, root, c, NULL, err);
	}
	return r ? td_wrap(err, "Secret %s/%s", ns, name) : 0;
}
