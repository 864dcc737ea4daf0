"""Server-side apply: ownership, conflicts, force; and what other writes do to managedFields."""
from steps import *

C = f"{NS}/configmaps"
D = f"{APPS_NS}/deployments"


def acm(name, data=None, **meta):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, **({"data": data} if data is not None else {})}


def adep(containers, **spec):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}, **spec}}


def ascale(n, manager, label, query="", name="d", **meta):
    return apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, **meta}, "spec": {} if n is None else {"replicas": n}}, manager, label=label, query=query)


STEPS = [
    apply(f"{C}/a", acm("a", {"x": "1", "y": "1"}), label="m1 creates"), apply(f"{C}/a", acm("a", {"x": "1", "y": "1"}), label="m1 again"), apply(f"{C}/a", acm("a", {"x": "2"}), label="m1 changes and takes away"),
    apply(f"{C}/a", acm("a", {"x": "3", "z": "1"}), "m2", label="m2 conflicts"), apply(f"{C}/a", acm("a", {"x": "2", "z": "1"}), "m2", label="m2 shares"), apply(f"{C}/a", acm("a", {"x": "4"}), label="m1 conflicts"),
    apply(f"{C}/a", acm("a", {"x": "4"}), query="&force=true", label="m1 forces"), apply(f"{C}/a", acm("a", {}), "m2", label="m2 gives all up"), apply(f"{C}/a", acm("a"), label="m1 gives all up"),
    put(f"{C}/a?fieldManager=u1", acm("a", {"p": "1", "q": "1"}), "u1 replaces"), patch(f"{C}/a?fieldManager=u2", {"data": {"q": "2", "r": "1"}}, "u2 patches"), apply(f"{C}/a", acm("a", {"p": "9", "q": "9", "s": "1"}), label="m1 conflicts with two"),
    apply(f"{C}/a", acm("a", {"p": "9", "q": "9"}), query="&force=true", label="m1 forces both"), patch(f"{C}/a?fieldManager=u2", {"data": {"p": None}}, "u2 removes"), apply(f"{C}/a?", acm("a", {"p": "10"}), label="m1 puts back"),
    apply(f"{C}/a", acm("a", {"p": "10"}, labels={"l": "1"}, annotations={"n": "1"}, finalizers=["x.example.com/f"]), label="m1 owns metadata"), apply(f"{C}/a", acm("a", {"p": "10"}, finalizers=["x.example.com/g"]), "m2", label="m2 adds a finalizer"),
    apply(f"{C}/a", acm("a", {"p": "10"}), label="m1 gives its finalizer up"), apply(f"{C}/a", acm("a"), "m2", label="m2 gives its finalizer up"),
    # how it is asked
    Step("PATCH", f"{C}/a", "{}", "no manager", type=APPLY, raw=True), apply(f"{C}/a", {}, label="nothing"), apply(f"{C}/a", {"apiVersion": "v1", "kind": "ConfigMap"}, label="no name"), apply(f"{C}/a", acm("b"), label="another name"), apply(f"{C}/a", {**acm("a"), "kind": "Secret"}, label="another kind"),
    apply(f"{C}/a", {**acm("a"), "apiVersion": "v2"}, label="another version"), apply(f"{C}/a", {"metadata": {"name": "a"}, "data": {}}, label="no kind"), apply(f"{C}/a", acm("a", namespace="other"), label="another namespace"), apply(f"{C}/a", acm("a", managedFields=[{}]), label="managedFields sent"),
    apply(f"{C}/a", acm("a", managedFields=[]), label="empty managedFields sent"), apply(f"{C}/a", acm("a", resourceVersion="1"), label="a stale version"), apply(f"{C}/new", acm("new", resourceVersion="1"), label="a version of nothing"), apply(f"{C}/new", acm("new", uid="11111111-2222-3333-4444-555555555555"), label="a uid of nothing"),
    apply(f"{C}/a", acm("a", uid="11111111-2222-3333-4444-555555555555"), label="another uid"), apply(f"{C}/a", {**acm("a"), "bogus": 1}, label="an unknown field"), apply(f"{C}/a", {**acm("a"), "bogus": 1}, query="&fieldValidation=Ignore", label="an unknown field, ignored"),
    apply(f"{C}/a", {**acm("a"), "data": {"a": 5}}, label="a wrong type"), Step("PATCH", f"{C}/a?fieldManager=m1", "a: [", "broken YAML", type=APPLY, raw=True), Step("PATCH", f"{C}/a?fieldManager=m1", "[]", "a list", type=APPLY, raw=True),
    Step("PATCH", f"{C}/a?fieldManager=m1", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n", "YAML", type=APPLY, raw=True), Step("PATCH", f"{C}/twice?fieldManager=m1", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\ndata: {a: b, a: c}\n", "a key twice", type=APPLY, raw=True),
    apply(f"{C}/dry", acm("dry"), query="&dryRun=All", label="dry creation"), get(f"{C}/dry"), apply(f"{C}/a", acm("a", {"dry": "1"}), query="&dryRun=All", label="dry"), apply(f"{C}/a", acm("a", generateName="x-"), label="generateName"), apply(f"{C}/a", acm("a", creationTimestamp=None), label="creationTimestamp null"),
    apply("/api/v1/namespaces/nowhere-at-all/configmaps/a", acm("a"), label="in no namespace"), apply(f"{C}/Bad_Name", acm("Bad_Name"), label="a bad name"), apply(f"{C}/im", {**acm("im", {"a": "1"}), "immutable": True}, label="immutable"), apply(f"{C}/im", {**acm("im", {"a": "2"}), "immutable": True}, label="a change of an immutable one"),
    # managedFields by hand
    post(f"{C}?fieldManager=h", acm("h", {"a": "1"}, managedFields=[{"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}}]), "create with managedFields"),
    patch(f"{C}/h?fieldManager=h", {"metadata": {"managedFields": [{}]}}, "managedFields started anew"), put(f"{C}/h?fieldManager=h2", acm("h", {"a": "1", "b": "1"}), "then a write"), patch(f"{C}/h?fieldManager=h", {"metadata": {"managedFields": []}}, "managedFields emptied"),
    patch(f"{C}/h?fieldManager=h", {"metadata": {"managedFields": [{"manager": "x", "operation": "Bogus", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]}}, "managedFields with a bad operation"),
    patch(f"{C}/h?fieldManager=h", {"metadata": {"managedFields": [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "Bogus", "fieldsV1": {}}]}}, "managedFields with a bad type"),
    patch(f"{C}/h?fieldManager=h", {"metadata": {"managedFields": [{}]}}, "managedFields started anew once more"), apply(f"{C}/h", acm("h", {"a": "2"}), "first", label="applied for the first time: a conflict"), apply(f"{C}/h", acm("h", {"a": "1", "z": "1"}), "first", label="applied for the first time"), apply(f"{C}/h", acm("h", {"a": "2", "z": "1"}), "first", label="applied for the second time: a conflict"), apply(f"{C}/h", acm("h", {"a": "2", "z": "1"}), "first", label="applied by force", query="&force=true"),
    # lists
    apply(f"{D}/d", adep([{"name": "a", "image": "i", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}], "args": ["x"]}]), label="deployment"),
    apply(f"{D}/d", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "b", "image": "j"}]}}}}, "m2", label="another container"),
    apply(f"{D}/d", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "z"}]}}}}, "m2", label="a container of another"),
    apply(f"{D}/d", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "b", "image": "j", "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}]}}}}, "m2", label="ports"),
    apply(f"{D}/d", adep([{"name": "a", "image": "i2"}], replicas=3), label="deployment again"), apply(f"{D}/d", adep([{"name": "a", "image": "i2"}, {"name": "a", "image": "i3"}]), label="a container twice"), apply(f"{D}/d", adep([{"image": "i2"}]), label="a container without a name"),
    apply(f"{D}/d/status", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]}}, "st", label="status"),
    apply(f"{D}/d/status", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 9}}, "st", label="spec through status"), apply(f"{D}/none/status", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "none"}, "status": {}}, "st", label="status of nothing"),
    patch(f"{D}/d", {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "E", "value": "2"}]}]}}}}, "strategic: one variable", type=STRATEGIC),
    patch(f"{D}/d", {"spec": {"template": {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}}}}, "strategic: one container less", type=STRATEGIC), patch(f"{D}/d", {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "n"}, {"name": "a"}], "containers": [{"name": "n", "image": "n"}]}}}}, "strategic: order", type=STRATEGIC),
    patch(f"{D}/d", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, "strategic: retainKeys", type=STRATEGIC), patch(f"{D}/d", {"spec": {"template": {"spec": {"containers": [{"image": "q"}]}}}}, "strategic: no merge key", type=STRATEGIC),
    patch(f"{D}/d", {"spec": {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}}}, "strategic: an atomic list", type=STRATEGIC),
    delete(f"{C}/a", label="delete a"), delete(f"{D}/d", label="delete d"),
    apply(f"{D}/d", adep([{"name": "a", "image": "i"}], replicas=3), label="another deployment"),
    apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}}, "sc", label="scale conflicts"), apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}}, "sc", query="&force=true", label="scale, forced"),
    get(f"{D}/d", "after scale"),
    # more of /scale
    ascale(5, "sc", "scale again"), ascale(6, "sc", "scale by its owner"), ascale(6, "sc2", "scale as it is"), get(f"{D}/d", "two own the number"), ascale(None, "sc2", "scale given up by one"), get(f"{D}/d", "one owns the number"),
    apply(f"{D}/d", adep([{"name": "a", "image": "i"}], replicas=7), label="the number is another's"), apply(f"{D}/d", adep([{"name": "a", "image": "i"}]), label="a deployment without the number"), get(f"{D}/d", "the number stays"),
    patch(f"{D}/d/scale?fieldManager=u1", {"spec": {"replicas": 2}}, "scale by a patch"), get(f"{D}/d", "who patched owns it"), ascale(3, "sc", "conflict with who patched"), put(f"{D}/d/scale?fieldManager=u2", {"metadata": {"name": "d"}, "spec": {"replicas": 4}}, "scale by an update"), get(f"{D}/d", "who updated owns it"), ascale(3, "sc", "conflict with who updated"),
    ascale(3, "sc", "scale, forced again", query="&force=true"), ascale(0, "sc", "scale to nothing"), get(f"{D}/d", "nothing left"), ascale(1, "sc", "scale up from nothing"), ascale(-1, "sc", "scale below nothing"), ascale("x", "sc", "scale to x"), ascale(2, "sc", "scale, dry", query="&dryRun=All"), get(f"{D}/d", "as it was"), ascale(2, "", "scale by nobody"), ascale(2, "sc", "scale of another", name="other"), ascale(2, "sc", "scale in another namespace", namespace="other"), ascale(2, "sc", "scale of an old version", resourceVersion="1"), ascale(2, "sc", "scale of another uid", uid="11111111-2222-3333-4444-555555555555"),
    apply(f"{D}/d/scale", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2}}, "sc", label="scale by a deployment"), apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2, "bogus": 1}}, "sc", label="scale with an unknown field"), apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}, "sc", label="scale without a name"), apply(f"{D}/d/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {"replicas": 2}, "status": {"replicas": 9}}, "sc", label="scale with more"), get(f"{D}/d", "only the number"),
    apply(f"{D}/none/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "none"}, "spec": {"replicas": 2}}, "sc", label="scale of nothing"), apply(f"{D}/none/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "none"}, "spec": {"replicas": 2}}, "", label="scale of nothing by nobody"), ascale(None, "sc", "scale given up by all"), get(f"{D}/d", "nobody owns the number"), Step("PATCH", f"{D}/d/scale", "{}", "scale in plain text", type="text/plain", raw=True), Step("PATCH", f"{D}/d/scale?fieldManager=sc", "[]", "scale: a list", type=APPLY, raw=True), Step("PATCH", f"{D}/d/scale?fieldManager=sc", "a: [", "scale: broken YAML", type=APPLY, raw=True),
    patch(f"{D}/d/scale", {"spec": {"replicas": 3}}, "scale what is owned"), put(f"{D}/d/scale", {"metadata": {"name": "d"}}, "scale to nothing by an update"), get(f"{D}/d", "nobody has the number"), ascale(3, "sc", "scale what nobody has"), ascale(3, "sc", "scale what nobody has by force", query="&force=true"), get(f"{D}/d", "who has the number"),
    apply(f"{D}/d", adep([{"name": "a", "image": "i"}], replicas=9), label="the deployment takes it back", query="&force=true"), get(f"{D}/d", "it is the deployment's"), delete(f"{D}/d", label="delete d again"),
]
