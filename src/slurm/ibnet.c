#include "slurm/ibnet.h"

#include "base/hash.h"
#include "slurm/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_ = 40, FAR = 1 << 20 };

struct vertex {
	uint64_t guid;
	bool host;
	char *said;  // its description
	char *name;  // of a switch, as Slurm has it
	int rank;    // of a switch: how far from the nearest leaf
	size_t up;   // of a switch: union-find
	size_t node; // of a host: whose it is, plus 1; 0: nobody's
};
struct edge {
	size_t from, to;
};
struct td_slurm_ibnet {
	struct vertex *v;
	struct edge *e;
	size_t n, cap, n_edges, cap_edges, switches;
};

void td_slurm_ibnet_free(struct td_slurm_ibnet *net)
{
	for (size_t i = 0; net && i < net->n; i++) {
		free(net->v[i].said);
		free(net->v[i].name);
	}
	if (net) {
		free(net->v);
		free(net->e);
	}
	free(net);
}

size_t td_slurm_ibnet_switches(const struct td_slurm_ibnet *net)
{
	return net->switches;
}

// ---- reading ----

// Digits of a GUID, with or without colons; false: it is none.
static bool guid_of(const char *s, size_t n, uint64_t *ret)
{
	int digits = 0;
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] == ':')
			continue;
		if (!isxdigit((unsigned char)s[i]) || ++digits > 16)
			return false;
		v = v << 4 | (uint64_t)(isdigit((unsigned char)s[i]) ? s[i] - '0' : (s[i] | 32) - 'a' + 10);
	}
	*ret = v;
	return digits > 0;
}

// The next text in quotes of the line from p to end; NULL: there is none.
static const char *quoted(const char *p, const char *end, size_t *ret_len)
{
	const char *a = memchr(p, '"', (size_t)(end - p)), *b = a ? memchr(a + 1, '"', (size_t)(end - a - 1)) : NULL;
	*ret_len = b ? (size_t)(b - a - 1) : 0;
	return b ? a + 1 : NULL;
}

static size_t add(struct td_slurm_ibnet *net, const struct vertex *x)
{
	if (net->n == net->cap) {
		net->cap = net->cap ? net->cap * 2 : 256;
		net->v = td_realloc(net->v, net->cap * sizeof(*net->v));
	}
	net->v[net->n] = *x;
	return net->n++;
}

// Reads "S-0002c903" or "H-0002c903" and what is said of it behind the #. *ret: its vertex, a new one each time.
static bool vertex(struct td_slurm_ibnet *net, const char *p, const char *end, size_t *ret)
{
	size_t len, said_len;
	const char *id = quoted(p, end, &len);
	struct vertex x = {0};
	if (!id || len < 3 || id[1] != '-' || !strchr("SHR", id[0]) || !guid_of(id + 2, len - 2, &x.guid))
		return false;
	x.host = id[0] != 'S';
	const char *behind = memchr(id + len + 1, '#', (size_t)(end - id - (long)len - 1));
	const char *said = behind ? quoted(behind, end, &said_len) : NULL;
	x.said = said ? td_strndup(said, said_len) : NULL;
	*ret = add(net, &x);
	return true;
}

static void edge(struct td_slurm_ibnet *net, size_t from, size_t to)
{
	if (net->n_edges == net->cap_edges) {
		net->cap_edges = net->cap_edges ? net->cap_edges * 2 : 256;
		net->e = td_realloc(net->e, net->cap_edges * sizeof(*net->e));
	}
	net->e[net->n_edges++] = (struct edge){from, to};
}

struct mark {
	uint64_t guid;
	bool host;
	size_t at;
};
static int by_guid(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	return x->host != y->host  ? x->host - y->host
	       : x->guid < y->guid ? -1
	       : x->guid > y->guid ? 1
	       : x->at < y->at     ? -1
				   : x->at > y->at;
}

// Makes one vertex of all that are the same one; edges follow.
static void unite(struct td_slurm_ibnet *net)
{
	struct mark *m = td_calloc(net->n + 1, sizeof(*m));
	size_t *to = td_calloc(net->n + 1, sizeof(*to)), n = 0;
	for (size_t i = 0; i < net->n; i++)
		m[i] = (struct mark){net->v[i].guid, net->v[i].host, i};
	qsort(m, net->n, sizeof(*m), by_guid);
	struct vertex *v = td_calloc(net->n + 1, sizeof(*v));
	for (size_t i = 0; i < net->n; i++) {
		struct vertex *x = &net->v[m[i].at];
		if (!i || m[i].guid != m[i - 1].guid || m[i].host != m[i - 1].host) {
			v[n] = *x;
			v[n].said = NULL;
			net->switches += !x->host;
			n++;
		}
		if (!v[n - 1].said)
			v[n - 1].said = td_steal(x->said);
		free(x->said);
		to[m[i].at] = n - 1;
	}
	for (size_t i = 0; i < net->n_edges; i++)
		net->e[i] = (struct edge){to[net->e[i].from], to[net->e[i].to]};
	free(net->v);
	free(m);
	free(to);
	net->v = v;
	net->n = n;
}

// A name that Slurm takes: of "MF0;leaf-1:MQM9700/U1" it is leaf-1.
static char *clean(const char *said)
{
	const char *from = said ? strchr(said, ';') : NULL;
	from = from ? from + 1 : said ? said : "";
	size_t n = strcspn(from, ":/");
	char *s = td_strndup(from, n < NAME_MAX_ ? n : NAME_MAX_);
	for (char *p = s; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			*p = '-';
	if (td_slurm_is_name(s) && !td_streq(s, "top") && !td_streq(s, "elsewhere"))
		return s;
	free(s);
	return td_strdup("");
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct vertex *const *)a)->name, (*(struct vertex *const *)b)->name);
}

// Switches that are not told apart by what is said of them are called by their GUIDs.
static void name_all(struct td_slurm_ibnet *net)
{
	struct vertex **s = td_calloc(net->n + 1, sizeof(struct vertex *));
	bool *same = td_calloc(net->n + 1, sizeof(*same));
	size_t n = 0;
	for (size_t i = 0; i < net->n; i++)
		if (!net->v[i].host) {
			net->v[i].name = clean(net->v[i].said);
			s[n++] = &net->v[i];
		}
	qsort(s, n, sizeof(struct vertex *), by_name);
	for (size_t i = 0; i < n; i++)
		same[i] = !*s[i]->name || (i && td_streq(s[i]->name, s[i - 1]->name)) ||
			  (i + 1 < n && td_streq(s[i]->name, s[i + 1]->name));
	for (size_t i = 0; i < n; i++)
		if (same[i]) {
			free(s[i]->name);
			s[i]->name = td_asprintf("s%016llx", (unsigned long long)s[i]->guid);
		}
	free(s);
	free(same);
}

struct td_slurm_ibnet *td_slurm_ibnet_new(void)
{
	return td_calloc(1, sizeof(struct td_slurm_ibnet));
}

// In the place of a GUID.
static uint64_t guid_by(const char *name)
{
	return td_hash_str(TD_HASH, name);
}

void td_slurm_ibnet_cable(struct td_slurm_ibnet *net, const struct td_slurm_ibnet_end *a,
			  const struct td_slurm_ibnet_end *b)
{
	const struct vertex x = {.guid = guid_by(a->name), .host = a->host, .said = td_strdup(a->name)},
			    y = {.guid = guid_by(b->name), .host = b->host, .said = td_strdup(b->name)};
	const size_t from = add(net, &x), to = add(net, &y);
	edge(net, from, to);
}

void td_slurm_ibnet_done(struct td_slurm_ibnet *net)
{
	unite(net);
	name_all(net);
}

int td_slurm_ibnet_read(const char *text, struct td_slurm_ibnet **ret, struct td_error *err)
{
	if (strlen(text) > TD_IBNET_MAX)
		return td_fail(err, TD_INVALID, "it is longer than %d KiB; leave out the lines of hosts (Ca …)",
			       TD_IBNET_MAX >> 10);
	td_auto(td_slurm_ibnet_free) struct td_slurm_ibnet *net = td_calloc(1, sizeof(*net));
	size_t now = 0, peer;
	bool in = false;
	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (td_starts(line, "Switch") || td_starts(line, "Ca") || td_starts(line, "Rt"))
			in = vertex(net, line, end, &now);
		else if (*line == '[' && in && vertex(net, line, end, &peer))
			edge(net, now, peer);
	}
	unite(net);
	if (!net->switches)
		return td_fail(err, TD_INVALID,
			       "it names no switch: it must be what ibnetdiscover prints, with lines such as Switch 40 "
			       "\"S-0002c903\" # \"leaf-1\"");
	name_all(net);
	*ret = td_steal(net);
	return 0;
}

// ---- places ----

static size_t root(struct td_slurm_ibnet *net, size_t i)
{
	while (net->v[i].up != i)
		i = net->v[i].up = net->v[net->v[i].up].up;
	return i;
}

static void join(struct td_slurm_ibnet *net, size_t a, size_t b)
{
	a = root(net, a);
	b = root(net, b);
	net->v[a > b ? a : b].up = a > b ? b : a;
}

struct called {
	const char *name;
	size_t node;
};
static int by_called(const void *a, const void *b)
{
	return strcmp(((const struct called *)a)->name, ((const struct called *)b)->name);
}

// Says whose each host is.
static size_t whose(struct td_slurm_ibnet *net, const struct td_slurm_place *places, const struct td_strv *ids,
		    size_t n)
{
	bool *found = td_calloc(n + 1, sizeof(*found));
	size_t n_ids = 0, n_found = 0;
	for (size_t i = 0; i < n; i++)
		n_ids += ids[i].n;
	struct mark *m = td_calloc(n_ids + 1, sizeof(*m));
	struct called *k = td_calloc(n + 1, sizeof(*k));
	n_ids = 0;
	for (size_t i = 0; i < n; i++) {
		k[i] = (struct called){places[i].node, i};
		for (size_t j = 0; j < ids[i].n; j++)
			if (guid_of(ids[i].v[j], strlen(ids[i].v[j]), &m[n_ids].guid))
				m[n_ids++].at = i;
	}
	qsort(m, n_ids, sizeof(*m), by_guid);
	qsort(k, n, sizeof(*k), by_called);
	for (size_t i = 0; i < net->n; i++) {
		struct vertex *x = &net->v[i];
		x->node = 0;
		for (size_t lo = 0, hi = n_ids; x->host && lo < hi;) {
			size_t mid = (lo + hi) / 2;
			if (m[mid].guid == x->guid)
				x->node = m[mid].at + 1;
			if (x->node)
				break;
			*(m[mid].guid < x->guid ? &lo : &hi) = m[mid].guid < x->guid ? mid + 1 : mid;
		}
		if (x->node)
			found[x->node - 1] = true;
	}
	for (size_t i = 0; i < net->n; i++) {
		struct vertex *x = &net->v[i];
		if (!x->host || x->node || !x->said)
			continue;
		td_auto_free char *word = td_strndup(x->said, strcspn(x->said, " '"));
		const struct called key = {word, 0}, *at = bsearch(&key, k, n, sizeof(*k), by_called);
		// Who is known by a GUID has no other adapters in this fabric.
		if (at && !found[at->node])
			x->node = at->node + 1;
	}
	for (size_t i = 0; i < net->n; i++)
		if (net->v[i].node)
			found[net->v[i].node - 1] = true;
	for (size_t i = 0; i < n; i++)
		n_found += found[i];
	free(found);
	free(m);
	free(k);
	return n_found;
}

// The two ends of an edge of a host and a switch; false: it is another one.
static bool at_leaf(const struct td_slurm_ibnet *net, const struct edge *e, size_t *host, size_t *leaf)
{
	bool a = net->v[e->from].host, b = net->v[e->to].host;
	*host = a ? e->from : e->to;
	*leaf = a ? e->to : e->from;
	return a != b && net->v[*host].node;
}

// Returns the highest rank.
static int ranks(struct td_slurm_ibnet *net)
{
	size_t host, leaf;
	for (size_t i = 0; i < net->n; i++) {
		net->v[i].rank = FAR;
		net->v[i].up = i;
	}
	for (size_t i = 0; i < net->n_edges; i++)
		if (at_leaf(net, &net->e[i], &host, &leaf))
			net->v[leaf].rank = 0;
	int most = 0;
	for (int k = 0; k <= most && k < TD_SLURM_LEVELS * 2; k++)
		for (size_t i = 0; i < net->n_edges; i++)
			for (int way = 0; way < 2; way++) {
				struct vertex *a = &net->v[way ? net->e[i].to : net->e[i].from],
					      *b = &net->v[way ? net->e[i].from : net->e[i].to];
				if (!a->host && !b->host && a->rank == k && b->rank > k + 1) {
					b->rank = k + 1;
					most = k + 1;
				}
			}
	return most;
}

// The name of each place of a level: the first of its switches of that rank.
static void titles(struct td_slurm_ibnet *net, int rank, const char **title)
{
	for (size_t i = 0; i < net->n; i++)
		title[i] = NULL;
	for (size_t i = 0; i < net->n; i++) {
		size_t r = root(net, i);
		if (!net->v[i].host && net->v[i].rank == rank &&
		    (!title[r] || strverscmp(net->v[i].name, title[r]) < 0))
			title[r] = net->v[i].name;
	}
}

// Puts a level before those that are there, unless it says nothing new. leaf: of each node, plus 1.
static size_t put(struct td_slurm_ibnet *net, struct td_slurm_place *places, const size_t *leaf, size_t n,
		  size_t levels, int rank)
{
	const char **title = td_calloc(net->n + 1, sizeof(const char *));
	size_t *with = td_calloc(net->n + 1, sizeof(*with)); // the first node of a place, plus 1
	size_t some = SIZE_MAX;
	bool differ = false, news = false;
	titles(net, rank, title);
	for (size_t i = 0; i < n; i++) {
		if (!leaf[i])
			continue;
		size_t r = root(net, leaf[i] - 1);
		differ |= some != SIZE_MAX && r != some;
		some = r;
		// Two places of the level below that became one are what a level is for.
		news |= with[r] && !td_streq(places[with[r] - 1].at[0], places[i].at[0]);
		with[r] = with[r] ? with[r] : i + 1;
	}
	if (!rank || (differ && news && levels < TD_SLURM_LEVELS)) {
		for (size_t i = 0; i < n; i++) {
			const char *mine = leaf[i] ? title[root(net, leaf[i] - 1)] : NULL;
			memmove(&places[i].at[1], &places[i].at[0], levels * sizeof(places[i].at[0]));
			// Where no switch is above it, a place is wide as it is.
			places[i].at[0] = td_strdup(mine || !levels ? mine : places[i].at[1]);
		}
		levels++;
	}
	free(with);
	free((void *)title);
	return levels;
}

size_t td_slurm_ibnet_places(struct td_slurm_ibnet *net, struct td_slurm_place *places, const struct td_strv *ids,
			     size_t n, size_t *ret_found)
{
	*ret_found = whose(net, places, ids, n);
	const int most = ranks(net);
	size_t *at = td_calloc(n + 1, sizeof(*at)), host, leaf;
	for (size_t i = 0; i < net->n_edges; i++) {
		if (!at_leaf(net, &net->e[i], &host, &leaf))
			continue;
		size_t *mine = &at[net->v[host].node - 1];
		if (*mine)
			join(net, *mine - 1, leaf); // its rails
		else
			*mine = leaf + 1;
	}
	size_t levels = put(net, places, at, n, 0, 0);
	for (int k = 1; k <= most; k++) {
		for (size_t i = 0; i < net->n_edges; i++) {
			const struct vertex *a = &net->v[net->e[i].from], *b = &net->v[net->e[i].to];
			int low = a->rank < b->rank ? a->rank : b->rank, high = a->rank < b->rank ? b->rank : a->rank;
			if (!a->host && !b->host && low == k - 1 && high == k)
				join(net, net->e[i].from, net->e[i].to);
		}
		levels = put(net, places, at, n, levels, k);
	}
	free(at);
	return levels;
}
