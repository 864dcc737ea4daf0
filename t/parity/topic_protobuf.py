"""Kubernetes' protobuf: bodies in it are read, answers are JSON (docs/design/0009). https://protobuf.dev/programming-guides/encoding"""
from steps import *

C, PB = f"{NS}/configmaps", "application/vnd.kubernetes.protobuf"


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, v):
    if isinstance(v, int):
        return varint(number << 3) + varint(v)
    v = v.encode() if isinstance(v, str) else v
    return varint(number << 3 | 2) + varint(len(v)) + v


def msg(*fields):
    return b"".join(field(n, v) for n, v in fields)


def envelope(api, kind, raw):
    return b"k8s\0" + msg((1, msg((1, api), (2, kind))), (2, raw))


def pbmeta(name, *more):
    return (1, msg((1, name), *more))


def entry(k, v):
    return msg((1, k), (2, v))


def pbcm(name, *more, api="v1", kind="ConfigMap"):
    return envelope(api, kind, msg(pbmeta(name), *more))


def send(at, body, label, **kw):
    return post(at, body, label, type=PB, **kw)


def form(v):
    """Of an answer in protobuf only that it is one."""
    return "protobuf" if isinstance(v, str) and v.startswith("k8s") else "text" if isinstance(v, str) else v.get("kind")


def lease(name, at):
    return envelope("coordination.k8s.io/v1", "Lease", msg(pbmeta(name), (2, msg((1, "h"), (2, 15), (4, at)))))


TIME = 1767225600  # 2026-01-01
EVENT = [(2, msg((1, "Pod"), (2, "par-protobuf"), (3, "p"))), (3, "Done"), (4, "m"), (9, "Normal"), (12, "Do"), (14, "x.example.com/c"), (15, "i")]
STEPS = [
    # bodies
    send(C, pbcm("a", (2, entry("k", "v"))), "create", save={"rv": "metadata.resourceVersion"}), get(f"{C}/a", "what was created"), send(C, pbcm("a"), "create again"), send(C, pbcm(""), "without a name"), send(C, pbcm("Bad_"), "a bad name"), send(f"{C}?dryRun=All", pbcm("b", (99, "x")), "a field that nobody knows"),
    send(C, pbcm("b", kind="Secret"), "of another kind"), send(C, pbcm("b", api="v2"), "of another version"), send(C, pbcm("b", kind="Nothing"), "of an unknown kind"), send(C, envelope("", "", msg(pbmeta("b"))), "of no kind"), send(C, b"", "nothing"), send(C, b"k8s\0", "nothing but the mark"), send(C, b"xxxx", "no mark"), send(C, b'{"metadata":{"name":"b"}}', "JSON that says it is protobuf"),
    send(C, pbcm("b")[:-1], "cut off"), send(C, pbcm("b", (2, b"\xff")), "malformed"), send(C, pbcm("b", (2, entry("k", b"\xff\xfe"))), "text that is no UTF-8"), post(C, pbcm("b"), "protobuf that says it is JSON"), post(C, b"\xa0", "CBOR", type="application/cbor"),
    Step("PUT", f"{C}/a", pbcm("a", (2, entry("k", "w"))), "replace", type=PB), Step("PATCH", f"{C}/a", pbcm("a"), "patch", type=PB), Step("DELETE", f"{C}/a?dryRun=All", envelope("v1", "DeleteOptions", msg((1, 0))), "delete, dry", type=PB), Step("DELETE", f"{C}/a?dryRun=All", envelope("v1", "DeleteOptions", msg((5, "Some"))), "delete with options that are wrong", type=PB),
    send(CRDS, envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", msg(pbmeta("x.example.com"))), "a definition", view=form),
    # times
    send(LEASES, lease("l0", msg((1, TIME))), "a time without a fraction"), send(LEASES, lease("l1", msg((1, TIME), (2, 123456789))), "a time with nanoseconds"), send(LEASES, lease("l2", b""), "an empty time"), send(LEASES, lease("l3", msg((1, 2**60))), "a time that is none"),
    send(f"{NS}/events", envelope("v1", "Event", msg(pbmeta("e"), *EVENT, (10, msg((1, TIME), (2, 5000))))), "a new event"), send(f"{NS}/events", envelope("v1", "Event", msg(pbmeta("f"), *EVENT, (6, msg((1, TIME), (2, 5000))))), "an old event"),
    # answers
    *[x for accept, label in ((PB, "protobuf"), (f"{PB},application/json", "protobuf, else JSON"), (f"application/json,{PB}", "JSON, else protobuf"), (f"{PB};as=Table;v=v1;g=meta.k8s.io", "a Table in protobuf"), (f"{PB};as=Table;v=v1;g=meta.k8s.io,{TABLE}", "a Table in protobuf, else in JSON"), (f"{PB};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{PARTIAL_LIST},application/json", "metadata in protobuf, else in JSON"),
                               ("application/cbor", "CBOR"), ("application/cbor,application/json", "CBOR, else JSON")) for x in (get(C, f"list: {label}", accept=accept, view=form), get(f"{C}/none", f"nothing: {label}", accept=accept, view=form))],
    get(f"{CRDS}?limit=1", "definitions in protobuf, else in JSON", accept=f"{PB},application/json", view=form), get("/apis/apps/v1", "discovery in protobuf, else in JSON", accept=f"{PB},application/json", view=form), get("/api", "discovery in protobuf alone", accept=PB, view=form), get("/version", "version in protobuf", accept=PB, view=form),
    watch(f"{C}?resourceVersion=<<rv>>", 1, label="watch in protobuf, else in JSON", accept=f"{PB};stream=watch,application/json", view=lambda v: "events" if isinstance(v, dict) and "events" in v else "protobuf"),
    delete(C, label="all away", view=lambda v: v.get("kind")),
]
