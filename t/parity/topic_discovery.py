"""What there is: discovery in both forms, versions, health."""
from steps import *

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def no_address(v):
    """The address under which a server was asked is its own."""
    if isinstance(v, dict):
        return {k: no_address(x) for k, x in v.items() if k not in ("serverAddress",)}
    return [no_address(x) for x in v] if isinstance(v, list) else v


def paths(v):
    return {k: {"serverRelativeURL": x["serverRelativeURL"].split("?")[0]} for k, x in v["paths"].items() if k.startswith("api")} if isinstance(v, dict) and "paths" in v else v


def tells(v):
    """Each has checks of its own; ping is of both."""
    return [x for x in v.split("\n") if "ping" in x or "check" in x] if isinstance(v, str) else v


GROUPS = ["apps/v1", "batch/v1", "policy/v1", "coordination.k8s.io/v1", "scheduling.k8s.io/v1", "apiextensions.k8s.io/v1", "authorization.k8s.io/v1", "authentication.k8s.io/v1",
          "rbac.authorization.k8s.io/v1", "events.k8s.io/v1"]
STEPS = [
    get("/api", view=no_address), get("/apis", view=no_address), get("/api/v1", view=no_address),
    *[get(f"/apis/{g}", view=no_address) for g in GROUPS],
    *[get(f"/apis/{g.split('/')[0]}", view=no_address) for g in GROUPS],
    get("/api", "aggregated /api", accept=V2, view=no_address), get("/apis", "aggregated /apis", accept=V2, view=no_address),
    get("/apis/nothing.example.com"), get("/apis/nothing.example.com/v1"), get("/apis/nothing.example.com/v1/things"), get("/apis/apps/v9"), get("/apis/apps/v9/things"),
    get("/apis/apps/v1/nothings"), get("/api/v1/nothings"), get("/api/v2"), get("/api/v2/pods"), get("/nothing"),
    post("/apis/apps/v1/nothings", {}), post("/api/v1/nothings", {}), put("/api/v1/namespaces/{ns}/nothings/x", {}), delete("/api/v1/namespaces/{ns}/nothings/x"),
    get("/api/v1/namespaces/{ns}/pods/x/nothing"), get("/api/v1/pods/x"), get("/api/v1/namespaces/{ns}/nodes"), get("/apis/apps/v1/namespaces/{ns}/deployments/x/nothing"),
    get("/healthz"), get("/livez"), get("/readyz"), get("/healthz/ping"), get("/livez/ping"), get("/readyz/ping"), *[get(f"/{e}/nothing") for e in ("healthz", "livez", "readyz")], get("/healthz/"), get("/livez/ping/x"), get("/healthz/ping/"), get("/healthzz"), get("/livez?verbose", view=tells), get("/readyz?verbose=false&exclude=ping", view=tells), get("/readyz/ping?verbose"), get("/livez?exclude=ping"), get("/livez?exclude=none"),
    *[Step(m, p, {} if m != "DELETE" else None) for m in ("POST", "PUT", "DELETE") for p in ("/healthz", "/readyz/ping", "/livez/nothing")], get("/healthz", "healthz as yaml", accept="application/yaml"), get("/healthz", "healthz as html", accept="text/html"),
    get("/openapi/v3", view=paths),
    get("/version", view=lambda v: {**v, **{k: "?" for k in ("gitCommit", "buildDate", "goVersion")}} if isinstance(v, dict) else v),
    get("/apis", "yaml of /apis", accept="application/yaml", view=lambda v: "yaml" if isinstance(v, str) else v),
    get("/api/v1", "406 of /api/v1", accept="text/html"),
    *[Step(m, p, {} if m != "DELETE" else None) for m in ("POST", "PUT", "PATCH", "DELETE") for p in ("/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version")],
]
