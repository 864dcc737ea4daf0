"""Lists and watches: pages, revisions, selectors, forms."""
from steps import *

C = f"{NS}/configmaps"
FIELDS = {
    "pods": ["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
             "spec.priority", "metadata.uid"],
    "configmaps": ["data", "metadata.labels"], "secrets": ["type"], "services": ["spec.clusterIP", "spec.type"], "events": ["involvedObject.name", "involvedObject.kind", "reason", "type", "source", "reportingComponent",
                                                                                                                              "involvedObject.uid", "involvedObject.fieldPath", "message"],
    "serviceaccounts": ["x"],
}


def q(s):
    return s.replace("=", "%3D").replace("!", "%21").replace("(", "%28").replace(")", "%29").replace(" ", "%20").replace(",", "%2C").replace("<", "%3C").replace(">", "%3E")


def sel(s):
    return get(f"{C}?labelSelector={q(s)}", f"label selector {s}")


def field(s, at=C):
    return get(f"{at}?fieldSelector={q(s)}", f"field selector {at.split('/')[-1]} {s}")


def mine(v):
    """The real one has kube-root-ca.crt where its controllers run."""
    return v


STEPS = [
    *[post(C, cm(f"c{i}", {"i": str(i)}, labels={"n": str(i), "odd": str(i % 2), **({"x": ""} if i == 3 else {})}), f"make c{i}", save={f"rv{i}": "metadata.resourceVersion"}) for i in range(5)],
    get(C), get(C, "Table", accept=TABLE), get(f"{C}?includeObject=None", "Table without objects", accept=TABLE), get(f"{C}?includeObject=Object", "Table of objects", accept=TABLE),
    get(f"{C}?includeObject=Bogus", "Table of bogus", accept=TABLE), get(C, "partial", accept=PARTIAL_LIST), get(C, "partial of the single form", accept=PARTIAL),
    get(C, "yaml", accept="application/yaml", view=lambda v: "text" if isinstance(v, str) else v), get(C, "html", accept="text/html"), get(C, "browser", accept="text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    get(C, "protobuf, else json", accept="application/vnd.kubernetes.protobuf,application/json", view=lambda v: "bytes" if isinstance(v, str) else "json"),
    get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{ns}", "across namespaces"), get("/api/v1/namespaces/nowhere-at-all/configmaps", "in no namespace"),
    # pages
    get(f"{C}?limit=2", "page 1", save={"go": "metadata.continue", "lrv": "metadata.resourceVersion"}), get(f"{C}?limit=2&continue=<<go>>", "page 2", save={"go2": "metadata.continue"}), get(f"{C}?limit=2&continue=<<go2>>", "page 3"),
    get(f"{C}?continue=<<go>>", "the rest without a limit"), get(f"{C}?limit=2&continue=<<go>>&resourceVersion=1", "page with a version"), get(f"{C}?limit=2&continue=bogus", "a bad token"),
    get(f"{C}?limit=2&continue=e30", "an empty token"), get(f"{C}?limit=0", "limit 0"), get(f"{C}?limit=-1", "limit -1"), get(f"{C}?limit=x", "limit x"), get(f"{C}?limit=99999999999999999999", "limit too large"),
    get(f"{C}?limit=2&labelSelector=odd%3D1", "page by label", save={"go3": "metadata.continue"}), get(f"{C}?limit=2&labelSelector=odd%3D1&continue=<<go3>>", "page 2 by label"), get(f"{C}?limit=5", "just as many"),
    get(f"{C}?limit=2", "page as Table", accept=TABLE), get(f"{C}?limit=2", "page as partial", accept=PARTIAL_LIST), get(f"{C}?limit=2&resourceVersion=0", "page of version 0"),
    # revisions
    *[get(f"{C}?resourceVersion={rv}{m}", f"list at {rv}{m}") for rv in ("", "0", "<<lrv>>", "99999999", "x", "-1", "0x1") for m in ("", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact", "&resourceVersionMatch=Bogus")],
    get(f"{C}?resourceVersionMatch=Exact&limit=2&continue=<<go>>", "match with continue"), get(f"{C}?sendInitialEvents=true", "list with sendInitialEvents"), get(f"{C}?timeoutSeconds=x", "a bad timeout"), Step("GET", f"{C}?watch=x&timeoutSeconds=20&fieldSelector=metadata.name%3Dc1", label="watch=x", during=[], events=1), Step("GET", f"{C}?watch=false&fieldSelector=metadata.name%3Dc1", label="watch=false"),
    get(f"{C}?allowWatchBookmarks=true", "list with bookmarks"), get(f"{C}?resourceVersion=<<rv2>>&resourceVersionMatch=Exact", "the past"), get(f"{C}?resourceVersion=<<rv2>>&resourceVersionMatch=Exact&limit=1", "a page of the past", save={"go4": "metadata.continue"}),
    get(f"{C}?limit=1&continue=<<go4>>", "page 2 of the past"), get(f"{C}?resourceVersion=<<rv2>>&limit=1", "a page not older"), get(f"{C}?resourceVersion=<<rv2>>", "not older"),
    # selectors
    *[sel(s) for s in ("n=1", "n==1", "n!=1", "n", "!n", "x", "!x", "x=", "n in (1,2)", "n notin (1,2)", "n in ()", "n in (1", "n=1,odd=1", "n = 1", "n in(1,2)", "n=1,", ",n=1", "n=1 odd=1", "=1", "n>1", "n<3", "n>x", "n==", "n=a b",
                       "a/b/c=1", "n=-x", "n=" + "v" * 64, "k" * 64 + "=1", "n in (a,,b)", "n notin", "!n=1", "(n)", "n=(1)", "n=1,,odd=0", "in=1", "n in (in)", "e.x/n=1", "-n=1", "n!x", "$=1", "n=$")],
    *[field(s) for s in ("metadata.name=c1", "metadata.name==c1", "metadata.name!=c1", "metadata.name=c1,metadata.namespace={ns}", "metadata.name=c1,metadata.name=c2", "metadata.name", "metadata.name=", "=c1", "metadata.name=c1,", "a=b", "metadata.name>c1",
                         "metadata.name in (c1)", "metadata.name=c\\,1", "metadata.name=c\\x", "metadata.name=a=b")],
    *[field(f"{f}=x", f"{NS}/{p}") for p, fs in FIELDS.items() for f in fs],
    field("spec.unschedulable=false", "/api/v1/nodes"), field("spec.podCIDR=x", "/api/v1/nodes"), get("/api/v1/namespaces?labelSelector=none&fieldSelector=status.phase%3DActive", "namespaces by phase"), field("spec=x", "/api/v1/namespaces"),
    *[field(f"{f}=1", f"{at}") for at, f in ((f"{BATCH_NS}/jobs", "status.successful"), (f"{BATCH_NS}/jobs", "status.active"), (f"{APPS_NS}/replicasets", "status.replicas"), (f"{APPS_NS}/deployments", "status.replicas"), (f"{APPS_NS}/statefulsets", "x"),
                                              (f"{POLICY_NS}/poddisruptionbudgets", "x"), (LEASES, "x"), ("/apis/scheduling.k8s.io/v1/priorityclasses", "x"), (CRDS, "x"))],
    # watches
    watch(C, 5, label="watch from now", view=lambda v: sorted(e["object"]["metadata"]["name"] for e in v["events"])),
    watch(f"{C}?resourceVersion=<<rv4>>", 6, post(C, cm("w", labels={"n": "w"}), "during: make w", save={"wrv": "metadata.resourceVersion"}), patch(f"{C}/w", {"data": {"a": "1"}}, "during: change w"), patch(f"{C}/w", {"metadata": {"finalizers": ["x.example.com/y"]}}, "during: hold w"),
          delete(f"{C}/w", label="during: delete w"), patch(f"{C}/w", {"metadata": {"finalizers": None}}, "during: let w go"), post(C, cm("w2"), "during: make w2"), label="watch of everything"),
    watch(f"{C}?resourceVersion=<<rv4>>&labelSelector=n%3Dl", 4, post(C, cm("l", labels={"n": "l"}), "during: make l"), patch(f"{C}/l", {"data": {"a": "1"}}, "during: change l"), patch(f"{C}/l", {"metadata": {"labels": {"n": "z"}}}, "during: l leaves"),
          patch(f"{C}/l", {"metadata": {"labels": {"n": "l"}}}, "during: l comes back"), label="watch by label"),
    watch(f"{C}?resourceVersion=<<rv4>>&fieldSelector=metadata.name%3Df", 2, post(C, cm("f"), "during: make f"), post(C, cm("g"), "during: make g"), delete(f"{C}/f", label="during: delete f"), label="watch by name"),
    watch(f"{C}/w2?resourceVersion=<<wrv>>", 2, delete(f"{C}/w2", label="during: delete w2"), label="watch of one"),
    watch(f"{C}?resourceVersion=<<wrv>>", 3, label="watch as Table", accept=TABLE), watch(f"{C}?resourceVersion=<<wrv>>&includeObject=None", 2, label="watch as Table without objects", accept=TABLE), watch(f"{C}?resourceVersion=<<wrv>>", 2, label="watch as partial", accept=PARTIAL),
    watch(f"{C}?resourceVersion=<<wrv>>", 1, label="watch as yaml", accept="application/yaml", view=lambda v: "text" if isinstance(v, str) else v),
    watch(f"{C}?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dc1", 2, label="initial events"),
    watch(f"{C}?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dc1", 2, label="initial events as Table", accept=TABLE),
    watch(f"{C}?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dc1", 2, label="initial events as partial", accept=PARTIAL),
    watch(f"{C}?sendInitialEvents=true&allowWatchBookmarks=true", 1, label="initial events without a match"), watch(f"{C}?sendInitialEvents=true&resourceVersionMatch=Exact", 1, label="initial events, exact"), watch(f"{C}?resourceVersionMatch=NotOlderThan&resourceVersion=1", 1, label="a match without initial events"),
    watch(f"{C}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Dnew", 1, post(C, cm("new"), "during: make new"), label="no initial events"),
    watch(f"{C}?resourceVersion=x", 1, label="watch from x"), watch(f"{C}?resourceVersion=-1", 1, label="watch from -1"), watch(f"{C}?labelSelector=n%3D%3D%3D", 1, label="watch by a bad selector"),
    watch(f"{C}?fieldSelector=a%3Db", 1, label="watch by a bad field"), watch(f"{C}?limit=2&fieldSelector=metadata.name%3Dc1", 1, label="watch with a limit"), watch(f"{C}?continue=x", 1, label="watch with continue"),
    get(f"{C}?watch=1&timeoutSeconds=1&resourceVersion=<<rv4>>&labelSelector=none", "a watch that ends by itself"), get(f"{C}?watch=true&timeoutSeconds=x", "watch with a bad timeout"), get(f"{C}?watch=1&timeoutSeconds=-5&resourceVersion=x", "watch with a negative timeout"),
    get(f"/api/v1/watch/namespaces/{{ns}}/configmaps?timeoutSeconds=1&labelSelector=none"),
]
