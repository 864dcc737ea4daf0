"""Writers, watchers and a model of what was acknowledged, for an API server that is killed while
they work.

Every version of every object carries a word of its own (annotation `word`), so that versions can be
told apart. A writer owns its objects and knows what each of them must look like. The objects in
SHARED belong to nobody and are changed by compare-and-swap. A request whose reply was lost is
settled by a read as soon as the server answers: what is seen then counts like an acknowledged
write, and what is not seen must never appear. check() compares all of this with the whole history
that the watchers saw."""
import collections
import http.client
import json
import random
import ssl
import threading
import time

from harness import wait_for

NS = "/api/v1/namespaces/default"
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
SHARED = ("shared-0", "shared-1", "shared-2")


class Lost(Exception):
    """The request may have been carried out; no reply will say."""


class Client:
    """One connection, opened again when it breaks. A request that surely did not arrive is sent
    again."""

    def __init__(self, target):
        self.target, self.c = target, None

    def ask(self, method, path, body=None, content="application/json", deadline=60):
        end = time.monotonic() + deadline
        while True:
            try:
                if not self.c:
                    # The long timeout makes sure that only a server that is gone loses a request: a
                    # slow one may still carry it out.
                    self.c = self.target.connection(timeout=300)
                    self.c.connect()
                break
            except (OSError, ssl.SSLError) as e:
                self.c = None
                assert time.monotonic() < end, f"nobody answers: {e}"
                time.sleep(0.01)  # the server is being started again
        try:
            self.c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": content})
            r = self.c.getresponse()
            return r.status, json.loads(r.read())
        except (OSError, ValueError, http.client.HTTPException) as e:
            self.c.close()
            self.c = None
            raise Lost(str(e))

    def sure(self, method, path):
        """Repeats a read until there is an answer."""
        while True:
            try:
                return self.ask(method, path)
            except Lost:
                pass


class Ledger:
    """What was requested and what came of it. fates: {word: acked (with its version) | seen |
    absent | refused | open}."""

    def __init__(self):
        self.lock, self.fates, self.rvs, self.gone, self.order = threading.Lock(), {}, {}, {}, []
        self.counts, self.max_rv, self.errors = collections.Counter(), 0, []

    def acked(self, what, word, obj, began):
        rv = int(obj["metadata"]["resourceVersion"])
        with self.lock:
            assert rv not in self.rvs, f"version {rv} was given out twice: {self.rvs[rv]} and {word}"
            self.rvs[rv] = (word, obj["metadata"]["name"], obj["metadata"]["uid"])
            self.fates[word] = "acked"
            self.order.append((began, time.monotonic(), rv))
            self.max_rv = max(self.max_rv, rv)
            self.counts[what] += 1

    def fate(self, word, fate):
        with self.lock:
            self.fates[word] = fate
            self.counts[fate] += 1

    def deleted(self, uid, how):
        with self.lock:
            assert uid not in self.gone, f"{uid} was deleted twice"
            self.gone[uid] = how
            self.counts["delete" if how == "acked" else f"delete {how}"] += 1


def word_of(obj):
    a = obj["metadata"].get("annotations", {})
    assert a["word"] == a["echo"] and a["pad"] == "x" * int(a["size"]), f"half a version: {obj['metadata']}"
    return a["word"]


class Writer(threading.Thread):
    def __init__(self, k, target, ledger, seed):
        super().__init__(daemon=True)
        self.k, self.client, self.ledger, self.rng, self.stop = k, Client(target), ledger, random.Random(seed), threading.Event()
        self.plural = list(KINDS)[k % len(KINDS)]
        self.base, self.mine, self.n = f"{NS}/{self.plural}", {}, 0  # mine: {name: (uid, rv, word)}

    # ---- making requests ----
    def body(self, name=None, generate=None, rv=None):
        self.n += 1
        word, size = f"w{self.k}-{self.n}", self.rng.choice((0, 20, 600))
        meta = {"annotations": {"word": word, "echo": word, "size": str(size), "pad": "x" * size}, "labels": {"side": self.rng.choice("ab"), "owner": f"w{self.k}"}}
        meta.update({"name": name} if name else {"generateName": generate})
        if rv:
            meta["resourceVersion"] = rv
        self.ledger.fates[word] = "open"
        return word, {"apiVersion": "v1", "kind": KINDS[self.plural], "metadata": meta}

    def write(self, what, method, path, name, word, body, content="application/json"):
        began = time.monotonic()
        try:
            status, o = self.client.ask(method, path, body, content)
        except Lost:
            self.settle(name, word)
            return
        assert status in (200, 201), (what, name, status, o)
        assert word_of(o) == word
        self.ledger.acked(what, word, o, began)
        self.mine[o["metadata"]["name"]] = (o["metadata"]["uid"], o["metadata"]["resourceVersion"], word)

    def settle(self, name, word):
        """Finds out what became of a write whose reply was lost."""
        if name is None:
            status, l = self.client.sure("GET", f"{self.base}?labelSelector=owner%3Dw{self.k}")
            found = [o for o in l["items"] if word_of(o) == word]
            assert status == 200 and len(found) <= 1, f"{word} was carried out twice: {[o['metadata']['name'] for o in found]}"
            o = found[0] if found else None
        else:
            status, o = self.client.sure("GET", f"{self.base}/{name}")
            assert status in (200, 404), (status, o)
            o = o if status == 200 else None
        if o and word_of(o) == word:
            self.ledger.fate(word, "seen")
            self.mine[o["metadata"]["name"]] = (o["metadata"]["uid"], o["metadata"]["resourceVersion"], word)
            return
        self.ledger.fate(word, "absent")
        before = self.mine.get(name)
        assert (o and (o["metadata"]["uid"], o["metadata"]["resourceVersion"], word_of(o))) == before, f"{name} is neither as before nor as {word}: {before} {o}"

    # ---- what a writer does ----
    def create(self):
        name = f"w{self.k}-{self.rng.randrange(40)}"  # names are used again, objects must not be
        if name in self.mine:
            status, o = self.client.sure("GET", f"{self.base}/{name}")
            assert status == 200 and (o["metadata"]["uid"], o["metadata"]["resourceVersion"], word_of(o)) == self.mine[name], (name, self.mine[name], status, o)
            return
        word, body = self.body(name)
        self.write("create", "POST", self.base, name, word, body)

    def generate(self):
        word, body = self.body(generate=f"g{self.k}-")
        self.write("generateName", "POST", self.base, None, word, body)

    def update(self):
        name = self.rng.choice(list(self.mine))
        word, body = self.body(name, rv=self.mine[name][1])
        self.write("update", "PUT", f"{self.base}/{name}", name, word, body)

    def patch(self):
        name = self.rng.choice(list(self.mine))
        word, body = self.body(name)
        meta = body["metadata"]
        kind = self.rng.choice(("merge", "strategic-merge", "json", "apply"))
        if kind == "json":
            send, content = [{"op": "replace", "path": f"/metadata/{p}", "value": meta[p]} for p in ("annotations", "labels")], "application/json-patch+json"
        elif kind == "apply":
            send, content = body, "application/apply-patch+yaml"
        else:
            send, content = {"metadata": {"annotations": meta["annotations"], "labels": meta["labels"]}}, f"application/{kind}-patch+json"
        self.write(f"patch {kind}", "PATCH", f"{self.base}/{name}" + ("?fieldManager=t&force=true" if kind == "apply" else ""), name, word, send, content)

    def delete(self):
        name = self.rng.choice(list(self.mine))
        uid = self.mine[name][0]
        body = {"preconditions": {"uid": uid}} if self.rng.random() < 0.5 else None
        try:
            status, o = self.client.ask("DELETE", f"{self.base}/{name}", body)
            assert status == 200, (name, status, o)
            how = "acked"
        except Lost:
            status, o = self.client.sure("GET", f"{self.base}/{name}")
            if status == 200:
                assert o["metadata"]["uid"] == uid and word_of(o) == self.mine[name][2]
                self.ledger.counts["delete absent"] += 1
                return
            how = "seen"
        del self.mine[name]
        self.ledger.deleted(uid, how)

    def wipe(self):
        """Deletes the whole collection of this writer. Each object is deleted for itself, so some
        may be left when the reply is lost."""
        path = f"{self.base}?labelSelector=owner%3Dw{self.k}"
        try:
            status, o = self.client.ask("DELETE", path)
            assert status == 200, (status, o)
            left, how = {}, "acked"
        except Lost:
            left, how = {o["metadata"]["name"]: o["metadata"]["uid"] for o in self.client.sure("GET", path)[1]["items"]}, "seen"
        for name, (uid, _, _) in list(self.mine.items()):
            if name in left:
                assert left[name] == uid
                continue
            del self.mine[name]
            self.ledger.deleted(uid, how)
        assert set(left) <= set(self.mine)

    def swap(self):
        name = self.rng.choice(SHARED)
        status, o = self.client.sure("GET", f"{self.base}/{name}")
        assert status == 200
        word, body = self.body(name, rv=o["metadata"]["resourceVersion"])
        body["metadata"]["labels"] = {"side": "s", "count": str(int(o["metadata"]["labels"]["count"]) + 1)}
        began = time.monotonic()
        try:
            status, o = self.client.ask("PUT", f"{self.base}/{name}", body)
        except Lost:
            self.ledger.fate(word, "open")  # others may have written since: the history tells
            return
        if status == 409:
            self.ledger.fate(word, "refused")
            return
        assert status == 200 and word_of(o) == word, (status, o)
        self.ledger.acked("compare-and-swap", word, o, began)

    def gone(self):
        """What was deleted stays deleted, and what is in `mine` is there."""
        status, l = self.client.sure("GET", f"{self.base}?labelSelector=owner%3Dw{self.k}")
        now = {o["metadata"]["name"]: (o["metadata"]["uid"], o["metadata"]["resourceVersion"], word_of(o)) for o in l["items"]}
        assert status == 200 and now == self.mine, (now, self.mine)

    def run(self):
        try:
            while not self.stop.is_set():
                if len(self.mine) < 3:
                    self.rng.choice((self.create, self.generate))()
                    continue
                roll = self.rng.random()
                do = (self.wipe if roll < 0.01 else self.gone if roll < 0.04 else self.delete if roll < (0.35 if len(self.mine) > 12 else 0.12)
                      else self.create if roll < 0.5 else self.generate if roll < 0.6 else self.swap if roll < 0.7 else self.patch if roll < 0.85 else self.update)
                do()
        except Exception as e:
            self.ledger.errors.append(f"writer {self.k}: {type(e).__name__}: {e}")


def kind_of(word):
    """The kind of a word's object. Words of writers are w<k>-<n>, those of the shared objects
    <plural>-<name>."""
    return list(KINDS)[int(word[1:].split("-")[0]) % len(KINDS)] if word[0] == "w" else word.split("-")[0]


Event = collections.namedtuple("Event", "type name uid rv word side count")


class Follower(threading.Thread):
    """Watches, and after every cut goes on from the last version that it saw. nap: it looks again
    only after that many kills."""

    def __init__(self, target, ledger, plural, rv, query="", nap=0, initial=False):
        super().__init__(daemon=True)
        self.target, self.ledger, self.plural, self.rv, self.query, self.nap, self.initial = target, ledger, plural, int(rv), query, nap, initial
        self.events, self.cuts, self.kills, self.stop, self.last = [], 0, lambda: 0, threading.Event(), -nap

    def see(self, ev):
        assert ev["type"] in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), f"events were lost: {ev}"
        meta = ev["object"]["metadata"]
        rv = int(meta["resourceVersion"])
        if ev["type"] == "BOOKMARK":
            assert rv >= self.rv
        else:
            assert rv > self.rv or self.initial, f"version {rv} after {self.rv}"
            labels = meta.get("labels", {})
            if "side" in labels:
                self.events.append(Event(ev["type"], meta["name"], meta["uid"], rv, word_of(ev["object"]), labels["side"], labels.get("count")))
        self.rv = max(rv, self.rv)

    def watch(self):
        first = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" if self.initial else f"&resourceVersion={self.rv}"
        c = self.target.connection(timeout=60)
        try:
            c.request("GET", f"{NS}/{self.plural}?watch=1&allowWatchBookmarks=true&timeoutSeconds=60{first}{self.query}")
            r = c.getresponse()
            assert r.status == 200, (r.status, r.read())
            while not self.stop.is_set():
                line = r.readline()
                if not line.endswith(b"\n"):
                    return  # cut; half a line does not count
                self.see(json.loads(line))
                if self.initial and self.rv:
                    self.initial = False
                if self.nap and self.rv >= self.until:
                    self.last = self.kills()
                    return
        finally:
            c.close()

    def newest(self):
        """The last acknowledged version of this kind. A napping follower that has reached it has
        seen enough for now."""
        return max((rv for rv, (word, _, _) in list(self.ledger.rvs.items())[-50:] if kind_of(word) == self.plural), default=0)

    def run(self):
        try:
            while not self.stop.is_set():
                self.until = max(self.newest(), self.rv)
                try:
                    self.watch()
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)  # the server is being started again
                self.cuts += 1
                while self.nap and self.kills() < self.last + self.nap and not self.stop.is_set():
                    time.sleep(0.02)  # the nap itself; synchronises nothing
        except Exception as e:
            self.ledger.errors.append(f"watch of {self.plural}{self.query}: {type(e).__name__}: {e}")


def selected(events, side):
    """What a watch with labelSelector side=… must have reported."""
    out, inside = [], {}
    for e in events:
        now = e.side == side and e.type != "DELETED"
        was = e.name in inside
        if now or was:
            out.append(("DELETED" if not now else "MODIFIED" if was else "ADDED", e.name, e.uid, e.rv))
        if now:
            inside[e.name] = True
        else:
            inside.pop(e.name, None)
    return out


class Model:
    def __init__(self, target, seed, writers=6):
        self.target, self.ledger, self.rng, self.kills = target, Ledger(), random.Random(seed), 0
        c = Client(target)
        self.followers = {}
        for plural in KINDS:
            status, l = c.ask("GET", f"{NS}/{plural}")
            rv = l["metadata"]["resourceVersion"]
            for name in SHARED:
                self.create(c, plural, name)
            self.followers[plural] = [Follower(target, self.ledger, plural, rv), Follower(target, self.ledger, plural, rv), Follower(target, self.ledger, plural, rv, nap=3)]
            self.followers[plural] += [Follower(target, self.ledger, plural, rv, f"&labelSelector=side%3D{side}", nap=nap) for side, nap in (("a", 0), ("b", 2))]
        self.writers = [Writer(k, target, self.ledger, f"{seed}.{k}") for k in range(writers)]
        for f in self.all_followers():
            f.kills = lambda: self.kills
            f.start()
        for w in self.writers:
            w.start()

    def create(self, client, plural, name):
        """Creates an object that no writer owns and returns its version."""
        word = f"{plural}-{name}"
        meta = {"name": name, "labels": {"side": "s", "count": "0"}, "annotations": {"word": word, "echo": word, "size": "0", "pad": ""}}
        began = time.monotonic()
        status, o = client.ask("POST", f"{NS}/{plural}", {"apiVersion": "v1", "kind": KINDS[plural], "metadata": meta})
        assert status == 201, o
        self.ledger.acked("create", word, o, began)
        return int(o["metadata"]["resourceVersion"])

    def all_followers(self):
        return [f for l in self.followers.values() for f in l]

    def sound(self):
        assert not self.ledger.errors, "\n".join(self.ledger.errors[:5])
        return True

    def kill(self):
        """Kills the server with -9 at some moment under writes, and sometimes once more while it
        comes up."""
        before = len(self.ledger.rvs)
        n = self.rng.choice((1, 5, 20, 60))
        wait_for("some writes", lambda: self.sound() and len(self.ledger.rvs) >= before + n, 60)
        # A random moment between two answers; synchronises nothing.
        time.sleep(self.rng.random() * 0.02)
        acked = self.ledger.max_rv
        self.target.kill()
        self.kills += 1
        if self.rng.random() < 0.2:
            self.target.spawn()
            time.sleep(self.rng.random() * 0.06)  # a random moment of its start
            self.target.kill()
            self.kills += 1
        self.target.start()
        status, l = Client(self.target).ask("GET", f"{NS}/{self.rng.choice(list(KINDS))}")
        assert status == 200 and int(l["metadata"]["resourceVersion"]) >= acked, f"version {acked} was acknowledged, the server is at {l['metadata']['resourceVersion']}"

    def end(self):
        for w in self.writers:
            w.stop.set()
        for w in self.writers:
            w.join(60)
            assert not w.is_alive()
        self.sound()
        for f in self.all_followers():
            f.nap = 0
        # A deletion may be newer than all that is left. These objects are newer than everything.
        last = {p: self.create(Client(self.target), p, "last") for p in KINDS}
        states = {p: Client(self.target).ask("GET", f"{NS}/{p}")[1] for p in KINDS}
        for plural, rv in last.items():
            self.caught_up(plural, rv)
        for f in self.all_followers():
            f.stop.set()
        self.sound()
        return {p: self.check(p, l) for p, l in states.items()}

    def caught_up(self, plural, newest):
        whole = self.followers[plural][0]
        wait_for("the first watch has caught up", lambda: self.sound() and whole.events and whole.events[-1].rv >= newest)
        for f in self.followers[plural]:
            want = len(selected(whole.events, f.query[-1])) if f.query else len(whole.events)
            end = time.monotonic() + 60
            while len(f.events) < want and time.monotonic() < end and self.sound():
                time.sleep(0.02)  # check() says what is missing

    def check(self, plural, final):
        whole = self.followers[plural][0].events
        for f in self.followers[plural][1:]:
            got, want = ([tuple(e[:4]) for e in f.events], selected(whole, f.query[-1])) if f.query else (f.events, whole)
            extra, missing = [e for e in got if e not in set(want)], [e for e in want if e not in set(got)]
            assert got == want, f"{plural}{f.query}: missing {missing[:3]}, not expected {extra[:3]}, {len(got)} for {len(want)}"
        live, uids, words, counts = {}, set(), {}, collections.Counter()
        for a, b in zip(whole, whole[1:]):
            assert b.rv > a.rv
        for e in whole:
            if e.type == "ADDED":
                assert e.name not in live and e.uid not in uids, f"{e} is there already, or its uid was used before"
                uids.add(e.uid)
                live[e.name] = e
            else:
                assert live[e.name].uid == e.uid, f"{e} is not {live[e.name]}"
                live[e.name] = e
            if e.type == "DELETED":
                del live[e.name]
                continue  # its last version was reported before
            assert e.word not in words, f"{e.word} was carried out twice: {words[e.word]} and {e}"
            words[e.word] = e
            assert self.ledger.fates.get(e.word) in ("acked", "seen", "open"), f"{e} appeared, but it was {self.ledger.fates.get(e.word)}"
            if e.count is not None:
                assert counts[e.name] == int(e.count) or int(e.count) == 0, f"a step of {e.name} is missing or came twice: {e} after {counts[e.name]}"
                counts[e.name] = int(e.count) + 1
        for word, fate in self.ledger.fates.items():
            assert kind_of(word) != plural or fate not in ("acked", "seen") or word in words, f"{word} was {fate} and nobody was told of it"
        for rv, (word, name, uid) in self.ledger.rvs.items():
            assert word not in words or words[word][1:4] == (name, uid, rv), f"{words[word]} was acknowledged as {name} {uid} {rv}"
        told = {e.uid for e in whole if e.type == "DELETED"}
        assert told <= set(self.ledger.gone), "somebody deleted what nobody asked to be deleted"
        assert not (set(self.ledger.gone) & uids) - told, "a deletion was acknowledged and not told"
        state = {o["metadata"]["name"]: (o["metadata"]["uid"], int(o["metadata"]["resourceVersion"]), word_of(o)) for o in final["items"] if "side" in o["metadata"].get("labels", {})}
        assert state == {n: (e.uid, e.rv, e.word) for n, e in live.items()}
        # Order in time: what was requested after an answer has a later version than that answer.
        newest, answered = 0, sorted(self.ledger.order, key=lambda o: o[1])
        k = 0
        for began, _, rv in sorted(self.ledger.order):
            while k < len(answered) and answered[k][1] < began:
                newest = max(newest, answered[k][2])
                k += 1
            assert rv > newest, f"version {rv} was asked for after {newest} had been given"
        return {"events": len(whole), "objects": len(uids), "resumed": sum(f.cuts for f in self.followers[plural])}
