// Unit tests of people who come by the issuer of a SlurmCluster: whom a token makes somebody, and each
// way in which it does not.
// rows: A15.2 A15.5
#include "api/kinds.h"
#include "apiserver/test/harness.h"
#include "http/pki.h"
#include "http/server.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define CLUSTERS "/apis/tandem.dev/v1alpha1/namespaces/default/slurmclusters"
#define WHOAMI "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// An issuer on the loopback with a key of its own.
struct fake {
	struct td_http_server *server;
	struct td_cancel *cancel;
	pthread_t thread;
	gnutls_privkey_t key;
	char *url;
	struct td_buf jwks;
};

static struct harness h;
static struct fake one, two;

static void answer(struct td_http_x *x, void *ctx)
{
	struct fake *f = ctx;
	td_auto_buf struct td_buf b = {0};
	if (!strcmp(td_http_path(x), "/keys"))
		td_buf_add(&b, f->jwks.s, f->jwks.len);
	else
		td_buf_printf(&b, "{\"issuer\":\"%s\",\"jwks_uri\":\"%s/keys\"}", f->url, f->url);
	td_http_send(x, 200, "application/json", b.s, b.len);
}

static void *serve(void *p)
{
	struct fake *f = p;
	td_http_server_run(f->server, f->cancel, NULL);
	return NULL;
}

static void fake_start(struct fake *f)
{
	const char *const listen[] = {"127.0.0.1:0", NULL};
	const struct td_http_server_opts so = {.listen = listen, .handler = answer, .ctx = f};
	gnutls_ecc_curve_t curve;
	gnutls_datum_t v[2];
	assert_int_equal(gnutls_privkey_init(&f->key), 0);
	assert_int_equal(
		gnutls_privkey_generate(f->key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
		0);
	gnutls_privkey_export_ecc_raw2(f->key, &curve, &v[0], &v[1], NULL, GNUTLS_EXPORT_FLAG_NO_LZ);
	td_buf_puts(&f->jwks, "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"");
	for (int i = 0; i < 2; i++) {
		unsigned char raw[32] = {0};
		assert_true(v[i].size <= sizeof(raw));
		memcpy(raw + sizeof(raw) - v[i].size, v[i].data, v[i].size);
		td_buf_printf(&f->jwks, ",\"%s\":\"", i ? "y" : "x");
		td_base64url(&f->jwks, raw, sizeof(raw));
		td_buf_puts(&f->jwks, "\"");
		gnutls_free(v[i].data);
	}
	td_buf_puts(&f->jwks, "}]}");
	f->cancel = td_cancel_new();
	assert_int_equal(td_http_server_new(&so, &f->server, NULL), 0);
	f->url = td_asprintf("http://127.0.0.1:%d", td_http_server_port(f->server));
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void fake_stop(struct fake *f)
{
	td_cancel_fire(f->cancel);
	pthread_join(f->thread, NULL);
	td_http_server_free(f->server);
	td_cancel_unref(f->cancel);
	gnutls_privkey_deinit(f->key);
	td_buf_done(&f->jwks);
	free(f->url);
}

// What a token says; NULL: as it should be.
struct says {
	const char *alg, *iss, *aud, *name, *groups;
	int64_t exp_s; // from now on; 0: an hour
};

static char *token(struct fake *f, const struct says *s)
{
	struct td_buf b = {0};
	td_auto_free char *head = td_asprintf("{\"alg\":\"%s\",\"kid\":\"k\"}", s->alg ? s->alg : "ES256"),
			  *claims = td_asprintf(
				  "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"1\",\"iat\":%lld,\"exp\":%lld,"
				  "\"preferred_username\":\"%s\",\"groups\":%s}",
				  s->iss ? s->iss : f->url, s->aud ? s->aud : "tandem", (long long)time(NULL) - 7200,
				  (long long)(time(NULL) + (s->exp_s ? s->exp_s : 3600)), s->name ? s->name : "ann",
				  s->groups ? s->groups : "[\"lab\"]");
	td_base64url(&b, head, strlen(head));
	td_buf_putc(&b, '.');
	td_base64url(&b, claims, strlen(claims));
	if (td_streq(s->alg, "none")) {
		td_buf_putc(&b, '.');
	} else if (td_streq(s->alg, "HS256")) { // by what everybody knows: the public key
		unsigned char mac[32];
		gnutls_hmac_fast(GNUTLS_MAC_SHA256, f->jwks.s, f->jwks.len, b.s, b.len, mac);
		td_buf_putc(&b, '.');
		td_base64url(&b, mac, sizeof(mac));
	} else {
		gnutls_datum_t d = {.data = (unsigned char *)b.s, .size = (unsigned)b.len}, sig, v[2];
		unsigned char raw[64] = {0};
		assert_int_equal(gnutls_privkey_sign_data2(f->key, GNUTLS_SIGN_ECDSA_SHA256, 0, &d, &sig), 0);
		assert_int_equal(gnutls_decode_rs_value(&sig, &v[0], &v[1]), 0);
		for (int i = 0; i < 2; i++) {
			size_t skip = v[i].size > 32 ? v[i].size - 32 : 0, n = v[i].size - skip;
			memcpy(raw + 32 * (i + 1) - n, v[i].data + skip, n);
			gnutls_free(v[i].data);
		}
		td_buf_putc(&b, '.');
		td_base64url(&b, raw, sizeof(raw));
		gnutls_free(sig.data);
	}
	return td_buf_take(&b);
}

// Who the API says that this is: "name groups", or "401".
static char *who(struct fake *f, const struct says *s)
{
	td_auto_free char *t = token(f, s);
	td_auto(td_json_unref) struct td_json *j = NULL;
	h.as = t;
	int status = ask(&h, "POST", WHOAMI, JSON, "{}", &j);
	h.as = h.admin;
	yyjson_val *u = td_jget(td_json_root(j), "status.userInfo"), *groups = td_jkey(u, "groups");
	td_auto_free char *list = groups ? td_json_text(groups, NULL) : td_strdup("");
	return status / 100 == 2 ? td_asprintf("%s %s", td_jstr_or(u, "username", "?"), list)
				 : td_asprintf("%d", status);
}

static void is(struct fake *f, const struct says s, const char *want)
{
	td_auto_free char *got = who(f, &s);
	if (strcmp(got, want) != 0)
		fail_msg("%s/%s/%s/%s: %s instead of %s", s.alg ? s.alg : "-", s.iss ? s.iss : "-", s.aud ? s.aud : "-",
			 s.name ? s.name : "-", got, want);
}

static void cluster(const char *verb, const char *name, const char *issuer, const char *users)
{
	td_auto_free char *body = td_asprintf(
		"{\"apiVersion\":\"tandem.dev/v1alpha1\",\"kind\":\"SlurmCluster\",\"metadata\":{\"name\":\"%s\"},"
		"\"spec\":{\"users\":%s,\"identity\":{\"oidc\":{\"issuer\":\"%s\",\"clientID\":\"tandem\","
		"\"groupsClaim\":\"groups\",\"gatewayURL\":\"http://127.0.0.1:1\"}}}}",
		name, users, issuer);
	td_auto_free char *path = !strcmp(verb, "POST") ? td_strdup(CLUSTERS) : td_asprintf(CLUSTERS "/%s", name);
	expect(&h, verb, path, !strcmp(verb, "POST") ? JSON : MERGE, body, !strcmp(verb, "POST") ? 201 : 200, NULL,
	       NULL);
}

// The claim that the issuer's tokens have the name in.
static void claim(const char *name, const char *username_claim)
{
	td_auto_free char *body = td_asprintf("{\"spec\":{\"identity\":{\"oidc\":{\"usernameClaim\":\"%s\"}}}}",
					      username_claim),
			  *path = td_asprintf(CLUSTERS "/%s", name);
	expect(&h, "PATCH", path, MERGE, body, 200, NULL, NULL);
}

static int setup(void **state)
{
	harness_start(&h, 100);
	h.srv.people = td_srv_people_new(h.srv.store, &td_clock_system);
	fake_start(&one);
	fake_start(&two);
	td_auto(td_json_unref) struct td_json *crd = td_kind_crd("SlurmCluster");
	td_auto_free char *text = td_json_text(td_json_root(crd), NULL);
	expect(&h, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, text, 201, NULL, NULL);
	return 0;
}

static int teardown(void **state)
{
	fake_stop(&one);
	fake_stop(&two);
	h.srv.people = td_srv_people_free(h.srv.people);
	harness_stop(&h);
	return 0;
}

#define ANN "ann [\"oidc:lab\",\"system:authenticated\"]"
#define USERS "[{\"name\":\"ann\",\"uid\":1001},{\"name\":\"ben\",\"uid\":1002}]"

static void test_people(void **state)
{
	is(&one, (struct says){0}, "401"); // nobody has named this issuer
	cluster("POST", "main", one.url, USERS);
	is(&one, (struct says){0}, ANN);
	is(&one, (struct says){.groups = "\"lab\""}, ANN);
	is(&one, (struct says){.groups = "[7,\"\",\"system:masters\"]"},
	   "ann [\"oidc:system:masters\",\"system:authenticated\"]");
	is(&one, (struct says){.name = "ben", .groups = "{}"}, "ben [\"system:authenticated\"]");

	// Of somebody else's making.
	is(&one, (struct says){.alg = "none"}, "401");
	is(&one, (struct says){.alg = "HS256"}, "401");
	is(&two, (struct says){.iss = one.url}, "401");
	is(&two, (struct says){0}, "401");
	// For somebody else, and of another time.
	is(&one, (struct says){.aud = "another"}, "401");
	is(&one, (struct says){.exp_s = -3600}, "401");
	// Of nobody here.
	static const char *const nobody[] = {"eve",
					     "root",
					     "admin",
					     "system:admin",
					     "system:tandem:operator",
					     "system:serviceaccount:default:default",
					     "Ann",
					     "ann\\u0000",
					     "ann ",
					     ""};
	for (size_t i = 0; i < TD_LEN(nobody); i++)
		is(&one, (struct says){.name = nobody[i]}, "401");
}

static void test_what_a_cluster_says_counts_at_once(void **state)
{
	cluster("PATCH", "main", one.url, "[{\"name\":\"ben\",\"uid\":1002}]");
	is(&one, (struct says){0}, "401");
	cluster("PATCH", "main", one.url, USERS);
	is(&one, (struct says){0}, ANN);
	cluster("PATCH", "main", two.url, USERS);
	is(&one, (struct says){0}, "401");
	is(&two, (struct says){0}, ANN);
	cluster("PATCH", "main", one.url, USERS);
}

static void test_a_name_that_two_issuers_give_is_nobodys(void **state)
{
	cluster("POST", "other", two.url, "[{\"name\":\"ann\",\"uid\":1001},{\"name\":\"zoe\",\"uid\":1003}]");
	is(&one, (struct says){0}, "401");
	is(&two, (struct says){0}, "401");
	is(&one, (struct says){.name = "ben", .groups = "[]"}, "ben [\"system:authenticated\"]");
	is(&two, (struct says){.name = "zoe", .groups = "[]"}, "zoe [\"system:authenticated\"]");
	is(&two, (struct says){.name = "ben"}, "401"); // not among its cluster's own
	cluster("PATCH", "other", one.url, "[{\"name\":\"ann\",\"uid\":1001}]");
	is(&one, (struct says){0}, ANN); // by one issuer she is one person
	claim("other", "nickname");
	is(&one, (struct says){0}, "401"); // which somebody else may choose to be ann
}

// Beside a directory service a name need not be in spec.users; but it is a person's, and one person's.
static void test_people_of_a_directory(void **state)
{
	static const char ldap[] =
		"{\"spec\":{\"identity\":{\"ldap\":{\"uris\":[\"ldaps://l.example\"],\"baseDN\":\"dc=x\"}}}}";
	static const char *const nobody[] = {"root", "admin",      "system:admin", "system:tandem:operator",
					     "Lea",  "7lea",       "-lea",         "le.a",
					     "lea ", "lea\\u0000", "lea@example",  "a234567890123456789012345678901234",
					     ""};
	cluster("PATCH", "main", one.url, USERS);
	cluster("PATCH", "other", two.url, "[{\"name\":\"zoe\",\"uid\":1003}]");
	claim("other", "preferred_username");
	is(&one, (struct says){.name = "lea"}, "401");
	expect(&h, "PATCH", CLUSTERS "/main", MERGE, ldap, 200, NULL, NULL);
	is(&one, (struct says){.name = "lea"}, "lea [\"oidc:lab\",\"system:authenticated\"]");
	is(&one, (struct says){0}, ANN);
	for (size_t i = 0; i < TD_LEN(nobody); i++)
		is(&one, (struct says){.name = nobody[i]}, "401");
	is(&two, (struct says){.name = "lea"}, "401"); // beside that issuer there is no directory
	is(&one, (struct says){.name = "zoe"}, "401"); // who is another one's
	is(&two, (struct says){.name = "zoe", .groups = "[]"}, "zoe [\"system:authenticated\"]");
	expect(&h, "PATCH", CLUSTERS "/other", MERGE, ldap, 200, NULL, NULL);
	is(&one, (struct says){.name = "lea"}, "401"); // now two may be called so
	is(&two, (struct says){.name = "lea"}, "401");
	is(&two, (struct says){.name = "ann"}, "401");
	is(&one, (struct says){0}, ANN);
}

// Who comes with a token of an issuer that cannot be asked may be somebody: he is told to come again.
static void test_an_issuer_that_is_away(void **state)
{
	static const char away[] = "http://127.0.0.1:1";
	cluster("PATCH", "main", away, USERS);
	is(&one, (struct says){.iss = away}, "503");
	is(&two, (struct says){0}, "401"); // nobody has named this one
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_people),
		cmocka_unit_test(test_what_a_cluster_says_counts_at_once),
		cmocka_unit_test(test_a_name_that_two_issuers_give_is_nobodys),
		cmocka_unit_test(test_people_of_a_directory),
		cmocka_unit_test(test_an_issuer_that_is_away),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
