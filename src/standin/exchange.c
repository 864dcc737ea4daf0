// The test of several nodes, led by the Prolog of a job's first node (peer.h, docs/health.md): one all-reduce over
// exactly the granted nodes, and a file on shared storage from each. If it fails, pairs of nodes say which one is to
// blame; that node's agent takes it out of service, and the job is queued again.
#include "standin/peer.h"
#include "standin/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAIR_KIB = 256,
	LIMIT_MORE_MS = 10, // to begin with
	COMMAND_MS = 5000,
	OPEN_MS = 4000,
	RING_MS = 6000,
	PAIR_MS = 3000,
	PAIRS_MS = 12000,
	STORE_MS = 8000,
	DROP_MS = 3000,
	SUSPECT_MS = 13000
};

struct test {
	struct standin_peer v[STANDIN_NODES + 1]; // one more than granted: a witness
	int n;
	struct standin_key key;
	size_t kib;
	const char *storage; // a directory; "": none
	char first[256];     // this node, which leads
	// When there is no more time than to tell the node that is to blame. A call whose whole share is not left before
	// that does not begin: who got less than others is not to blame for it.
	int64_t end;
	char why[160];
	int guilty, partner;             // guilty -1: nobody
	const struct standin_idle *idle; // NULL: it is before a job
	bool busy, over;                 // somebody has work on one of the nodes; it is not to go on
	int limit_ms;                    // of a pair that is too slow: how long it may take; 0: it failed
	int64_t took_ms;                 // the last exchange of a pair
};

// The deadline of a call that may take ms; 0: it does not begin.
static int64_t share(struct test *t, int64_t ms)
{
	t->over = t->over || (t->idle && !t->idle->go_on(t->idle->ctx));
	int64_t deadline = td_standin_now_ms() + ms; // an agent that answers late takes nothing of it
	return deadline <= t->end && !t->over ? deadline : 0;
}

// The word after "KEY=" in a line of scontrol.
static bool word_of(const char *line, const char *key, char *out, size_t n)
{
	size_t k = strlen(key);
	for (const char *p = line; (p = strstr(p, key)) != NULL; p += k) {
		if ((p != line && p[-1] != ' ') || p[k] != '=')
			continue;
		size_t len = strcspn(p + k + 1, " \n");
		if (!len || len >= n)
			return false;
		snprintf(out, n, "%.*s", (int)len, p + k + 1);
		return true;
	}
	return false;
}

// Has nobody work there, and does nobody wait for it?
static bool is_idle(const char *state)
{
	static const char *const not[] = {"DRAIN",  "COMPLETING", "PLANNED", "RESERVED", "MAINT",
					  "REBOOT", "POWER",      "FAIL",    "INVALID",  "*"};
	bool idle = !strncmp(state, "IDLE", 4);
	for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++)
		idle = idle && !strstr(state, not[i]);
	return idle;
}

// Reads nodes and addresses. list NULL: one that is up and none of ours, as a witness.
static bool nodes_read(struct test *t, const char *list)
{
	char why[128] = "", *text = NULL, state[128];
	char *argv[] = {"scontrol", "-o", "show", "node", (char *)list, NULL};
	if (td_standin_command(argv, false, td_standin_until(COMMAND_MS, t->end), &text, why, sizeof(why)))
		return free(text), false;
	bool well = true;
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct standin_peer p = {.fd = -1};
		if (!word_of(line, "NodeName", p.node, sizeof(p.node)) ||
		    !word_of(line, "NodeAddr", p.address, sizeof(p.address))) {
			well = well && !list;
			continue;
		}
		if (list) {
			if (t->n == STANDIN_NODES) {
				well = false;
				break;
			}
			t->v[t->n++] = p;
			t->busy |= t->idle && (!word_of(line, "State", state, sizeof(state)) || !is_idle(state));
			continue;
		}
		bool ours = false;
		for (int i = 0; i < t->n; i++)
			ours |= !strcmp(t->v[i].node, p.node);
		if (ours || !word_of(line, "State", state, sizeof(state)) || strstr(state, "DOWN") ||
		    strstr(state, "DRAIN") || strchr(state, '*') || (t->idle && !is_idle(state)))
			continue;
		t->v[t->n] = p;
		break;
	}
	free(text);
	return well;
}

// As td_standin_peer_open(); where no time is left, nobody is known to serve.
static int open_one(struct test *t, struct standin_peer *p, char *why, size_t n_why)
{
	int64_t deadline = share(t, OPEN_MS);
	if (deadline)
		return td_standin_peer_open(p, &t->key, deadline, why, n_why);
	snprintf(why, n_why, "no time was left to ask %.100s", p->node);
	return 1;
}

// For a job of two nodes: opens a third one, v[2], that can say which of them is to blame.
static bool open_witness(struct test *t)
{
	char none[160];
	if (t->n != 2)
		return false;
	t->v[2] = (struct standin_peer){.fd = -1};
	return nodes_read(t, NULL) && *t->v[2].node && !open_one(t, &t->v[2], none, sizeof(none));
}

// True when all connections are there. Who cannot be reached is to blame where this node does reach another one: else
// it may be this node that is cut off. Where nobody serves, no test takes place.
static bool open_all(struct test *t)
{
	int away = -1, reached = -1;
	bool all = true;
	char why[160];
	for (int i = 0; i < t->n; i++) {
		int r = open_one(t, &t->v[i], why, sizeof(why));
		if (!r && strcmp(t->v[i].node, t->first) != 0)
			reached = i;
		if (r < 0 && away < 0)
			away = i;
		if (r && (all || away == i))
			snprintf(t->why, sizeof(t->why), "%s", why);
		all = all && !r;
	}
	if (away >= 0 && reached < 0 && open_witness(t)) {
		td_standin_peer_close(&t->v[2]);
		reached = 2;
	}
	if (away >= 0 && reached >= 0) {
		t->guilty = away;
		t->partner = reached;
	}
	return all;
}

// 1: they did well together; -1: they did not; 0: that is not known.
static signed char pair(struct test *t, struct standin_peer **both)
{
	char why[160], bad[2][160];
	const struct standin_round r = {
		.v = both, .n = 2, .kib = t->idle ? t->kib : PAIR_KIB, .ms = PAIR_MS, .bad = bad};
	// A server that has ended a connection is asked anew.
	for (int k = 0; k < 2; k++) {
		int opened = both[k]->fd >= 0 ? 0 : open_one(t, both[k], why, sizeof(why));
		if (opened)
			return opened < 0 ? -1 : 0;
	}
	if (!share(t, PAIR_MS + STANDIN_SLACK_MS))
		return 0;
	int64_t begun = td_standin_now_ms();
	if (td_standin_peers_ring(&r)) {
		t->took_ms = td_standin_now_ms() - begun;
		return 1;
	}
	if (both[0]->ended || both[1]->ended)
		return 0;
	if (!*t->why)
		snprintf(t->why, sizeof(t->why), "%.60s", *bad[0] ? bad[0] : bad[1]);
	return -1;
}

static void blame(struct test *t)
{
	static struct standin_pairs pairs;
	int a, b, n = t->n, all = open_witness(t) ? 3 : n;
	pairs = (struct standin_pairs){.n = all};
	// What is left out then is not known, and nobody is blamed for it.
	int64_t end = td_standin_until(PAIRS_MS, t->end);
	for (int i = 0; i < (all == 2 ? 1 : all) && td_standin_now_ms() < end; i++) {
		int j = (i + 1) % all;
		pairs.v[i][j] = pairs.v[j][i] = pair(t, (struct standin_peer *[]){&t->v[i], &t->v[j]});
	}
	if (all > n)
		td_standin_peer_close(&t->v[n]);
	t->guilty = td_standin_blame(&pairs, &a, &b);
	if (t->guilty >= n)
		t->guilty = -1; // the witness itself: it is nobody's who is tested
	if (t->guilty >= 0) {
		for (int j = 0; j < n; j++)
			if (j != t->guilty)
				t->partner = j;
		char said[64];
		snprintf(said, sizeof(said), "%.60s", t->why);
		snprintf(t->why, sizeof(t->why), "it exchanges no data with others: %s", said);
	} else if (a >= 0 && a < n && b < n) {
		// One end of a link is enough: no job has both then.
		t->guilty = b;
		t->partner = a;
		snprintf(t->why, sizeof(t->why), "it exchanges no data with %.60s", t->v[a].node);
	}
}

static bool exchange(struct test *t)
{
	static struct standin_peer *all[STANDIN_NODES];
	static char bad[STANDIN_NODES][160];
	for (int i = 0; i < t->n; i++)
		all[i] = &t->v[i];
	const struct standin_round r = {.v = all, .n = t->n, .kib = t->kib, .ms = RING_MS, .bad = bad};
	if (!share(t, RING_MS + STANDIN_SLACK_MS)) {
		snprintf(t->why, sizeof(t->why), "no time was left for the exchange");
		return false;
	}
	if (td_standin_peers_ring(&r))
		return true;
	for (int i = 0; i < t->n && !*t->why; i++)
		snprintf(t->why, sizeof(t->why), "%.60s", bad[i]);
	blame(t);
	return false;
}

static bool storage(struct test *t)
{
	char token[33];
	if (!*t->storage || !td_standin_random(token))
		return true;
	bool well = true;
	for (int round = 0; round < 2 && well; round++)
		for (int i = 0; i < t->n && well; i++) {
			// The next node reads what this one wrote.
			struct standin_peer *p = &t->v[round ? (i + 1) % t->n : i];
			int64_t deadline = share(t, STORE_MS);
			if (!deadline) {
				snprintf(t->why, sizeof(t->why), "no time was left for shared storage");
				well = false;
				break;
			}
			const char *said = round ? td_standin_peer_tell(p, deadline, "fetch %s %s %s", t->storage,
									token, t->v[i].node)
						 : td_standin_peer_tell(p, deadline, "store %s %s", t->storage, token);
			if (!said)
				continue;
			well = false;
			t->guilty = p->ended ? -1 : (int)(p - t->v);
			snprintf(t->why, sizeof(t->why), "shared storage: %.120s", said);
		}
	int64_t dropped = td_standin_now_ms() + DROP_MS;
	for (int i = 0; i < t->n; i++)
		td_standin_peer_tell(&t->v[i], dropped, "drop %s %s", t->storage, token);
	return well;
}

// Tells the agent of the node that is to blame. It answers when the node is out of service.
static void accuse(struct test *t, const char *job, bool by_storage)
{
	char limit[48] = "-"; // it is to do better than that before it is well again
	if (t->limit_ms)
		snprintf(limit, sizeof(limit), "=%zu:%d", t->kib, t->limit_ms);
	struct standin_peer *p = &t->v[t->guilty];
	char none[160];
	int64_t deadline = td_standin_now_ms() + SUSPECT_MS;
	if (p->fd < 0)
		td_standin_peer_open(p, &t->key, deadline, none, sizeof(none));
	const char *said = td_standin_peer_tell(p, deadline, "suspect %s %s %s %s", job,
						by_storage ? "-" : t->v[t->partner].address,
						by_storage ? t->storage : limit, t->why);
	if (said)
		fprintf(stderr, "tandem gate: %s: %s\n", p->node, said);
}

int td_standin_exchange(const struct standin_exchange *x, char *ret_node, size_t n_node, char *why, size_t n_why)
{
	static struct test t;
	bool by_storage = false;
	t = (struct test){.kib = (size_t)x->kib,
			  .storage = x->storage,
			  .end = x->deadline_ms - SUSPECT_MS - DROP_MS,
			  .guilty = -1};
	td_standin_first_host(x->nodes, t.first, sizeof(t.first));
	if (!td_standin_key_read(x->key ? x->key : TD_WIRE_KEY, &t.key) || !nodes_read(&t, x->nodes) || t.n < 2) {
		snprintf(why, n_why, "the nodes %.100s or Slurm's key cannot be read, or they are more than %d",
			 x->nodes, STANDIN_NODES);
		return -1;
	}
	int64_t begun = td_standin_now_ms();
	bool well = open_all(&t);
	if (well && (well = exchange(&t)) && !(well = storage(&t)))
		by_storage = true;
	if (!well && t.guilty >= 0)
		accuse(&t, x->job, by_storage);
	for (int i = 0; i < t.n; i++)
		td_standin_peer_close(&t.v[i]);
	if (well) {
		snprintf(why, n_why, "%d nodes in %lld ms", t.n, (long long)(td_standin_now_ms() - begun));
		return 0;
	}
	snprintf(why, n_why, "%s", *t.why ? t.why : "it failed");
	if (t.guilty < 0)
		return -1;
	snprintf(ret_node, n_node, "%s", t.v[t.guilty].node);
	return 1;
}

// ---- idle nodes ----

// MB in a second of one pair; 0: they did not do well together; below 0: that is not known.
static double rate(struct test *t, int i)
{
	signed char well = pair(t, (struct standin_peer *[]){&t->v[i], &t->v[(i + 1) % t->n]});
	return well > 0 ? (double)t->kib * 1.024 / (double)(t->took_ms > 0 ? t->took_ms : 1) : well < 0 ? 0 : -1;
}

// Measures each pair of neighbours, those that are slow three times, and says who is to blame for it.
static void measure(struct test *t, struct standin_idle_said *ret)
{
	static struct standin_pairs pairs;
	double mbps[STANDIN_NODES] = {0};
	int n = t->n == 2 ? 1 : t->n, slowest = -1, a, b;
	for (int i = 0; i < n; i++)
		mbps[i] = rate(t, i);
	double least = td_standin_slow_below(mbps, n, t->idle->percent, t->idle->least);
	pairs = (struct standin_pairs){.n = t->n};
	for (int i = 0; i < n; i++) {
		int j = (i + 1) % t->n;
		for (int k = 0; k < 2 && mbps[i] > 0 && mbps[i] < least; k++) {
			double again = rate(t, i);
			mbps[i] = again > mbps[i] ? again : mbps[i];
		}
		pairs.v[i][j] = pairs.v[j][i] = mbps[i] < 0 ? 0 : mbps[i] > 0 && mbps[i] >= least ? 1 : -1;
		if (mbps[i] >= 0 && (slowest < 0 || mbps[i] < mbps[slowest]))
			slowest = i;
	}
	if (t->over || slowest < 0)
		return;
	ret->mbps = mbps[slowest];
	snprintf(ret->a, sizeof(ret->a), "%s", t->v[slowest].node);
	snprintf(ret->b, sizeof(ret->b), "%s", t->v[(slowest + 1) % t->n].node);
	t->guilty = td_standin_blame(&pairs, &a, &b);
	bool link = t->guilty < 0 && a >= 0;
	if (link) {
		t->guilty = b;
		t->partner = a;
	} else if (t->guilty >= 0) {
		t->partner = (t->guilty + 1) % t->n;
	}
	if (t->guilty < 0)
		return;
	const char *with = link ? t->v[t->partner].node : "others";
	if (link) // which need not be the slowest one
		slowest = b == a + 1 ? a : b;
	if (mbps[slowest] > 0) {
		t->limit_ms = (int)((double)t->kib * 1.024 / least) + LIMIT_MORE_MS;
		snprintf(t->why, sizeof(t->why), "%.1f MB/s with %.60s are less than %.1f", mbps[slowest], with, least);
	} else {
		snprintf(t->why, sizeof(t->why), "it exchanges no data with %.60s", with);
	}
}

enum standin_idle_end td_standin_idle(const struct standin_idle *x, struct standin_idle_said *ret)
{
	static struct test t;
	t = (struct test){.kib = (size_t)x->kib,
			  .storage = "",
			  .end = x->deadline_ms - SUSPECT_MS - COMMAND_MS,
			  .guilty = -1,
			  .idle = x};
	*ret = (struct standin_idle_said){0};
	snprintf(t.first, sizeof(t.first), "%s", x->first);
	if (!td_standin_key_read(x->key ? x->key : TD_WIRE_KEY, &t.key) || !nodes_read(&t, x->nodes) || t.n < 2) {
		snprintf(ret->why, sizeof(ret->why), "the nodes or Slurm's key cannot be read");
		return STANDIN_IDLE_ERROR;
	}
	bool well = !t.busy && open_all(&t) && exchange(&t);
	if (well)
		measure(&t, ret);
	// Who has got work meanwhile, or whose partner has, is not to blame for what it was slow in.
	static struct test now;
	now = (struct test){.idle = x, .end = td_standin_now_ms() + COMMAND_MS};
	bool ended = t.busy || t.over || !x->go_on(x->ctx) || !nodes_read(&now, x->nodes) || now.busy;
	if (!ended && t.guilty >= 0) {
		snprintf(ret->node, sizeof(ret->node), "%s", t.v[t.guilty].node);
		snprintf(ret->partner, sizeof(ret->partner), "%s", t.v[t.partner].node);
		accuse(&t, "0", false);
	}
	for (int i = 0; i < t.n; i++)
		td_standin_peer_close(&t.v[i]);
	snprintf(ret->why, sizeof(ret->why), "%s", t.why);
	return ended             ? STANDIN_IDLE_ENDED
	       : t.guilty >= 0   ? STANDIN_IDLE_FAILED
	       : well && !*t.why ? STANDIN_IDLE_PASSED
				 : STANDIN_IDLE_ERROR;
}
