"""Plays a topic to one plane and compares what two planes answered.

What must differ between any two servers is named alike first: an object's uids and versions by how many of them were seen, times, generated
names, continue tokens, ages. The words of a refusal or a warning are each server's own. Everything else is compared: status code, Content-Type, Retry-After, how many
warnings there are, the whole body, and of a refusal its code, its reason and which fields it blames for what."""
import http.client
import json
import re
import time

from steps import obj, post

HEADERS = ("content-type", "warning", "retry-after", "allow")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"^(\d+[smhdy])+$")


class Plane:
    """One API server: (host, port, TLS context). Remembers what it saw, so that its answers can be named."""

    def __init__(self, name, host, port, tls):
        self.name, self.host, self.port, self.tls = name, host, port, tls
        self.forget()
        self.conn = None

    def forget(self):
        self.dry, self.named = False, {}
        self.uids, self.rvs, self.seen, self.generated, self.saved = {}, {}, {}, {}, {}

    # ---- asking ----
    def fresh(self, timeout=120):
        return http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=timeout)

    def fill(self, text, ns):
        text = text.replace("{ns}", ns)
        return re.sub(r"<<(\w+)>>", lambda m: str(self.saved.get(m[1], "")), text)

    def send(self, c, step, ns):
        body = step.body
        if body is not None and not isinstance(body, bytes):
            body = self.fill(body if step.raw else json.dumps(body), ns).encode()
        headers = {"User-Agent": "parity/1", "Accept": step.accept, **({"Content-Type": step.type} if body is not None and step.type else {}), **step.headers}
        c.request(step.method, self.fill(step.path, ns).replace(" ", "%20").replace('"', "%22"), body, {k: v for k, v in headers.items() if v is not None})
        return c.getresponse()

    def ask(self, step, ns):
        for attempt in (0, 1):
            try:
                self.conn = self.conn or self.fresh()
                r = self.send(self.conn, step, ns)
                data = r.read()
                if r.will_close:
                    self.conn.close()
                    self.conn = None
                return r, data
            except (http.client.HTTPException, OSError):
                self.conn = None  # a connection that the other side closed meanwhile
                if attempt:
                    raise

    def play(self, step, ns):
        """[(step, answer)] of a step: one, or for a watch those of what happened during it and its own."""
        if step.during is None:
            r, data = self.ask(step, ns)
            end = time.monotonic() + 60
            while step.wait and r.status != 200 and time.monotonic() < end:
                time.sleep(0.05)  # poll interval, nothing is synchronised by it
                r, data = self.ask(step, ns)
            return [(step, self.answer(step, r, data))]
        c, out = self.fresh(), []
        try:
            r = self.send(c, step, ns)
            for s in step.during:
                out += self.play(s, ns)
            lines = []
            if r.status == 200:
                if step.events < 0:  # until nothing comes any more
                    c.sock.settimeout(5)
                while len(lines) < step.events or step.events < 0:
                    try:
                        line = r.readline()
                    except TimeoutError:
                        lines.append(b'"no more"')
                        break
                    if not line:
                        lines.append(b'"the end"')
                        break
                    lines.append(line)
                data = b'{"events":[' + b",".join(lines) + b"]}"
            else:
                data = r.read()
            out.append((step, self.answer(step, r, data)))
        finally:
            c.close()
        return out

    # ---- naming ----
    def answer(self, step, r, data):
        self.dry = "dryRun=All" in step.path
        try:
            body = json.loads(data)
        except ValueError:
            body = data.decode(errors="replace")
        for name, path in step.save.items():
            v = body
            for k in path.split("."):
                v = v[int(k)] if isinstance(v, list) else v.get(k, "") if isinstance(v, dict) else ""
            self.saved[name] = v
        if step.view:
            body = step.view(body)
        headers = {h: sorted(v for k, v in r.getheaders() if k.lower() == h) for h in HEADERS}
        if headers.get("warning"):
            headers["warning"] = [f"{len(headers['warning'])} warnings"]
        return {"status": r.status, **{h: self.name_all(v) for h, v in headers.items() if v}, "body": self.name_all(body)}

    def call(self, table, value, what, of):
        """The name of a uid or version: the n-th that this object had."""
        if value not in table and self.dry:  # is nowhere afterwards, so it is not counted
            return f"{what} of {of}"
        if value not in table:
            n = self.seen[what, of] = self.seen.get((what, of), 0) + 1
            table[value] = f"{what}-{n} of {of}"
        return table[value]

    def text(self, s):
        s = UUID.sub(lambda m: self.named.get(m[0], m[0] if len(set(m[0])) < 8 else "UID"), s)
        s = re.sub(r"kube-api-access-\w{5}", "kube-api-access-XXXXX", s)
        s = TIME.sub(lambda m: "MICROTIME" if m[1] else "TIME", s)
        for name, called in self.generated.items():
            s = s.replace(name, called)
        if "esource" in s and "ersion" in s:
            s = re.sub(r"current: \d+", "current: VERSION", s)  # the server's own, of no object
            s = re.sub(r"\b\d+\b", lambda m: self.named.get(m[0], m[0]), s)
            s = re.sub(r"\(\d+", "(VERSION", s)
        return "AGE" if AGE.match(s) else s

    def name_all(self, v):
        if isinstance(v, str):
            return self.text(v)
        if isinstance(v, list):
            return [self.name_all(x) for x in v]
        if not isinstance(v, dict):
            return v
        if isinstance(v.get("managedFields"), list):  # ordered by time, which has seconds
            v = {**v, "managedFields": sorted(v["managedFields"], key=lambda m: [str(m.get(k)) for k in ("operation", "manager", "subresource", "apiVersion")])}
        meta = v.get("metadata")
        if isinstance(meta, dict) and meta.get("generateName") and str(meta.get("name", "")).startswith(meta["generateName"][:50]):
            if len(meta["name"]) - len(meta["generateName"][:58]) == 5:
                self.generated[meta["name"]] = meta["name"][:-5] + "XXXXX"
        lists = "items" in v or v.get("kind") == "Table"
        if isinstance(meta, dict) and not lists:
            of = self.text(str(meta.get("name", "")))
            for table, what, key in ((self.uids, "UID", "uid"), (self.rvs, "VERSION", "resourceVersion")):
                if meta.get(key):
                    self.named[meta[key]] = self.call(table, meta[key], what, of)
        out = {}
        for k in sorted(v):
            x = v[k]
            if k == "metadata" and isinstance(x, dict):
                x = {**x}
                rv = x.pop("resourceVersion", None)
                x = self.name_all(x)
                if rv:
                    x["resourceVersion"] = "VERSION of a list" if lists else self.named[rv]
                out[k] = x
            elif k == "storageVersionHash":
                continue  # of what is stored in the real one
            elif k == "continue" and x:
                out[k] = "CONTINUE"
            elif k == "type" and x == "BOOKMARK":
                return {"type": x, "object": self.name_all({**v["object"], "items": []})}
            else:
                out[k] = self.name_all(x)
        if out.get("kind") == "Status" and out.get("status") == "Failure":
            out.pop("message", None)
            if isinstance(out.get("details"), dict) and out["details"].get("causes"):  # a set: validators walk maps
                out["details"]["causes"] = sorted({f"{c.get('field', '')}: {c.get('reason', '')}" for c in out["details"]["causes"]})
        return out


def keyed(v):
    """Lists of named things are compared by name, so that one more does not move all others."""
    if v and all(isinstance(x, dict) and isinstance(x.get("metadata"), dict) for x in v):
        names = [x["metadata"].get("name") for x in v]
        if all(names) and len(set(names)) == len(v):
            return dict(zip(names, v))
    for key in ("name", "type", "groupVersion", "version", "resource", "subresource"):
        if v and all(isinstance(x, dict) and isinstance(x.get(key), str) for x in v) and len({x[key] for x in v}) == len(v):
            return {x[key]: x for x in v}
    return dict(enumerate(v))


ABSENT = "(absent)"


def diff(real, ours, path=""):
    """[(path, real, embedded)]"""
    if isinstance(real, dict) and isinstance(ours, dict):
        out = []
        for k in sorted({*real, *ours}, key=str):
            out += diff(real.get(k, ABSENT), ours.get(k, ABSENT), f"{path}.{k}" if path else str(k))
        return out
    if isinstance(real, list) and isinstance(ours, list) and real != ours:
        a, b = keyed(real), keyed(ours)
        out = []
        for k in sorted({*a, *b}, key=lambda k: (isinstance(k, str), k)):
            out += diff(a.get(k, ABSENT), b.get(k, ABSENT), f"{path}[{k}]")
        return out or [(path, real, ours)]  # only the order differs
    return [] if real == ours and type(real) is type(ours) else [(path, real, ours)]


def numbered(steps):
    """Steps of one topic with unique names."""
    seen, out = {}, []
    for s in steps:
        name = s.id()
        seen[name] = seen.get(name, 0) + 1
        out.append((name if seen[name] == 1 else f"{name} #{seen[name]}", s))
    return out


LAG_S = 20


def differ(real, ours):
    return any(diff(x[1], y[1]) for x, y in zip(real, ours, strict=True))


def play_topic(planes, topic, steps):
    """[(name of the step, [(path, real, embedded)])] of all requests."""
    ns = f"par-{topic.replace('_', '-')}"
    for p in planes:
        p.play(post("/api/v1/namespaces", obj("v1", "Namespace", ns)), ns)
        p.play(post(f"/api/v1/namespaces/{ns}/serviceaccounts", obj("v1", "ServiceAccount", "default")), ns)
        p.forget()
    out, access_changed = [], -LAG_S
    for s in steps:
        real, ours = (p.play(s, ns) for p in planes)
        # The real one looks at its caches of roles and bindings: for a moment it refuses what was just allowed, and shows what no longer is.
        while "Impersonate-User" in s.headers and time.monotonic() < access_changed + LAG_S and (real[0][1]["status"] == 403 or s.method == "GET") and differ(real, ours):
            time.sleep(0.05)  # poll interval, nothing is synchronised by it
            real = planes[0].play(s, ns)
        if s.method != "GET" and "/rbac.authorization.k8s.io/" in s.path and real[-1][1]["status"] < 300:
            access_changed = time.monotonic()
        out += [(x[0], diff(x[1], y[1])) for x, y in zip(real, ours, strict=True)]
    names = [n for n, _ in numbered([s for s, _ in out])]
    return [(n, d) for n, (_, d) in zip(names, out)]
