"""What kubectl's commands that change something do, asked of the API server without a process, as kubeget.py does for get: tests call
them some thousand times, and kubectl was a fifth of the CPU of a run. Only the forms that tests use; everything else, and every refusal,
is left to kubectl itself (None), so that errors are in its words. The commands themselves have tests of their own, with the real kubectl
(test_kubectl.py and its like)."""
import json
import subprocess
import time
import urllib.parse

import yaml

import kubeget

MERGE = "application/merge-patch+json"
PATCHES = {"merge": MERGE, "json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json"}
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What may stand before or behind a command's words: whether a value follows.
OPTIONS = {"-n": True, "--namespace": True, "-f": True, "-l": True, "-c": True, "-p": True, "--type": True, "--subresource": True, "--grace-period": True, "--wait": False,
           "--ignore-not-found": False, "--all": False, "--force": False, "--now": False, "--overwrite": False}
WHERE = {(kubeget.version(where), kind): (f"{where}{{}}/{plural}", namespaced)
         for plural, (where, kind, namespaced) in kubeget.KINDS.items()}


def parsed(argv):
    """(words, options), or None for what is not known here."""
    words, options, rest = [], {}, [str(a) for a in argv]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, eq, value = word.partition("=")
        if name not in OPTIONS or (not OPTIONS[name] and eq and value not in ("true", "false")) or (name in options and name != "-l"):
            return None
        if OPTIONS[name] and not eq:
            if not rest:
                return None
            value = rest.pop(0)
        options["-n" if name == "--namespace" else name] = value if OPTIONS[name] else value != "false"
    return words, options


def objects(text):
    """The objects of a file, or None where one is of a kind that is not known here. (object, path of its kind, namespaced)."""
    found = []
    for doc in [json.loads(text)] if text.lstrip().startswith("{") else list(yaml.load_all(text, yaml.CSafeLoader)):
        for o in doc["items"] if doc and doc.get("kind") == "List" else [doc] if doc else []:
            at = WHERE.get((o.get("apiVersion"), o.get("kind")))
            if not at or not o.get("metadata", {}).get("name"):
                return None
            found.append((o, *at))
    return found


class Kubectl:
    """One call, at one API server. say: what kubectl would print. left: objects of its input that were not made."""

    def __init__(self, server, options, seconds):
        self.server, self.options, self.seconds, self.end = server, options, seconds, time.monotonic() + seconds
        self.say, self.left = [], []

    def call(self, method, path, body=None, kind="application/json", **query):
        return self.server.call(method, f"{path}?{urllib.parse.urlencode(query)}" if query else path, body, kind, min(self.seconds, 120))

    def kind_of(self, word):
        """(path of the objects, how they are called in what is printed); None: not known."""
        if word not in kubeget.PLURALS:
            return None
        plural = kubeget.PLURALS[word]
        where, kind, namespaced = kubeget.KINDS[plural]
        group = where.removeprefix("/apis/").partition("/")[0] if where.startswith("/apis/") else ""
        return where + (f"/namespaces/{self.options.get('-n', 'default')}" if namespaced else "") + f"/{plural}", kind.lower() + (f".{group}" if group else "")

    def named(self, words):
        """(path, how it is called) of each object; None: not known. Both `KIND NAME…` and `KIND/NAME…`."""
        if not words:
            return None
        pairs = [w.split("/", 1) for w in words] if "/" in words[0] else [(words[0], n) for n in words[1:]]
        kinds = [self.kind_of(p[0]) for p in pairs]
        if not pairs or not all(kinds) or any(len(p) != 2 or "/" in p[1] for p in pairs):
            return None
        return [(f"{path}/{urllib.parse.quote(p[1])}", f"{what}/{p[1]}") for (path, what), p in zip(kinds, pairs)]

    # ---- delete ----
    def delete(self, words):
        every = self.options.get("--all") or "-l" in self.options
        if "-f" in self.options or not set(self.options) <= {"-n", "-l", "--all", "--wait", "--ignore-not-found", "--grace-period", "--force", "--now"}:
            return False
        if not every:
            those = self.named(words)
        elif len(words) == 1 and all(self.kind_of(w) for w in words[0].split(",")):
            those = self.all_of(words[0].split(","))
        else:
            return False
        if those is None:
            return False
        with_opts = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        grace = "1" if self.options.get("--now") else self.options.get("--grace-period", "0" if self.options.get("--force") else None)
        if grace == "0" and not self.options.get("--force"):
            grace = "1"  # kubectl takes nothing off its node without a word
        if grace is not None:
            with_opts["gracePeriodSeconds"] = int(grace)
        going = []
        for path, what in those:
            code, obj = self.call("DELETE", path, with_opts)
            if code == 404 and (every or self.options.get("--ignore-not-found")):
                continue
            if code not in (200, 202):
                return False
            self.say.append(f'{what.partition("/")[0]} "{what.partition("/")[2]}" deleted')
            going.append((path, obj["details"]["uid"] if obj["kind"] == "Status" else obj["metadata"]["uid"]))
        for path, uid in going if self.options.get("--wait", True) else ():
            while (now := self.call("GET", path))[0] != 404 and (now[0] != 200 or now[1]["metadata"]["uid"] == uid):  # what does not say is not gone
                if time.monotonic() > self.end:
                    raise subprocess.TimeoutExpired(("kubectl", "delete", *words), self.seconds)
                time.sleep(0.05)
        return True

    def all_of(self, kinds):
        those = []
        for path, what in map(self.kind_of, kinds):
            code, l = self.call("GET", path, **({"labelSelector": self.options["-l"]} if "-l" in self.options else {}))
            if code != 200:
                return None
            those += [(f"{path}/{urllib.parse.quote(o['metadata']['name'])}", f"{what}/{o['metadata']['name']}") for o in l["items"]]
        return those

    # ---- create, apply ----
    def make(self, manager, text, keep):
        """How many objects of the text were made, in order, until one is there already or is refused; None: kubectl is asked for all.
        keep: the annotation of what was applied."""
        if set(self.options) - {"-n", "-f"} or (those := objects(text)) is None:
            return None
        made = 0
        for o, path, namespaced in those:
            meta = o["metadata"]
            if namespaced and self.options.get("-n", meta.get("namespace")) != meta.get("namespace", self.options.get("-n")):
                break  # kubectl says that they differ
            ns = meta.get("namespace", self.options.get("-n", "default")) if namespaced else None
            o = {**o, "metadata": {**meta, **({"namespace": ns} if ns else {})}}
            path = path.format(f"/namespaces/{ns}" if ns else "")
            if keep:
                notes = o["metadata"].get("annotations") or {}
                o["metadata"]["annotations"] = notes
                o["metadata"] = {**o["metadata"], "annotations": {**notes, APPLIED: json.dumps(o, separators=(",", ":"), sort_keys=True) + "\n"}}
            if self.call("POST", path, o, fieldManager=manager, fieldValidation="Strict")[0] != 201:
                break
            group = o["apiVersion"].rpartition("/")[0]
            self.say.append(f"{o['kind'].lower()}{'.' if group else ''}{group}/{meta['name']} created")
            made += 1
        self.left = [o for o, _, _ in those[made:]]
        return made

    # ---- changes of one object ----
    def patch(self, words):
        those = self.named(words)
        if not those or len(those) != 1 or not set(self.options) <= {"-n", "-p", "--type", "--subresource"} or "-p" not in self.options:
            return False
        sub = self.options.get("--subresource")
        kind = PATCHES.get(self.options.get("--type", "strategic"))
        return bool(kind) and self.change(*those[0], json.loads(self.options["-p"]), kind, "kubectl-patch", "patched", f"/{sub}" if sub else "")

    def mark(self, what, words):
        """label and annotate: KIND NAME KEY=VALUE… KEY-…"""
        named = [w for w in words if "=" not in w and not w.endswith("-")]
        those, changes = self.named(named), words[len(named):]
        if not those or len(those) != 1 or not changes or words[:len(named)] != named or not set(self.options) <= {"-n", "--overwrite"}:
            return False
        wanted = dict(c.split("=", 1) if "=" in c else (c[:-1], None) for c in changes)
        code, obj = self.call("GET", those[0][0])
        if code != 200:
            return False
        field = {"label": "labels", "annotate": "annotations"}[what]
        now = obj["metadata"].get(field, {})
        if not self.options.get("--overwrite") and any(v is not None and now.get(k, v) != v for k, v in wanted.items()):
            return False
        return self.change(*those[0], {"metadata": {field: wanted}}, MERGE, f"kubectl-{what}", "labeled" if what == "label" else "annotated")

    def change(self, path, what, patch, kind, manager, word, sub=""):
        if self.call("PATCH", path + sub, patch, kind, fieldManager=manager)[0] != 200:
            return False
        self.say.append(f"{what} {word}")
        return True

    def cordon(self, word, words):
        those = self.named(["node", *words])
        return bool(those) and not self.options and all(
            self.change(path, what, {"spec": {"unschedulable": word == "cordon" or None}}, PATCHES["strategic"], f"kubectl-{word}", f"{word}ed") for path, what in those)

    def logs(self, words):
        if len(words) != 1 or "/" in words[0] or not set(self.options) <= {"-n", "-c"}:
            return False
        query = {"container": self.options["-c"]} if "-c" in self.options else {}
        code, text = self.call("GET", f"/api/v1/namespaces/{self.options.get('-n', 'default')}/pods/{words[0]}/log", **query)
        if code == 200:
            self.say = [text]
        return code == 200


def run(kubeconfig, argv, text, seconds):
    """(what kubectl prints, what of the input it has still to do) where this did it; None: ask kubectl. text: its input, or None."""
    verb, rest = str(argv[0]) if argv else "", argv[1:]
    known = verb in ("delete", "create", "apply", "patch", "label", "annotate", "cordon", "uncordon", "logs") and parsed(rest)
    if not known:
        return None
    words, options = known
    try:
        k = Kubectl(kubeget.server(kubeconfig), options, seconds)
        if verb in ("create", "apply"):
            if words or options.get("-f") != "-" or text is None or not k.make(f"kubectl-{'client-side-apply' if verb == 'apply' else verb}", text, verb == "apply"):
                return None
            return "".join(f"{s}\n" for s in k.say), json.dumps({"apiVersion": "v1", "kind": "List", "items": k.left}) if k.left else None
        did = (k.mark(verb, words) if verb in ("label", "annotate") else k.cordon(verb, words) if verb.endswith("cordon") else getattr(k, verb)(words))
    except (kubeget.Refused, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return ("".join(k.say) if verb == "logs" else "".join(f"{s}\n" for s in k.say), None) if did else None
