"""The official Python client, as its users write. Driven by t/test_clients.py: one subcommand a subject, one JSON document a line."""
import json
import os
import sys
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException


def tell(**what):
    print(json.dumps(what), flush=True)


def code(call, *args, **kw):
    try:
        call(*args, **kw)
        return 0
    except ApiException as e:
        return e.status


def cm(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "py"}), data=data)


def verbs(ns):
    v1 = client.CoreV1Api()
    for i in range(5):
        v1.create_namespaced_config_map(ns, cm(f"p{i}", n=str(i)))
    tell(again=code(v1.create_namespaced_config_map, ns, cm("p0")), none=code(v1.read_namespaced_config_map, "none", ns))
    page = v1.list_namespaced_config_map(ns, label_selector="app=py", limit=2)
    names, pages = [m.metadata.name for m in page.items], 1
    while page.metadata._continue:
        page = v1.list_namespaced_config_map(ns, label_selector="app=py", limit=2, _continue=page.metadata._continue)
        names += [m.metadata.name for m in page.items]
        pages += 1
    tell(names=names, pages=pages)
    stale = v1.read_namespaced_config_map("p1", ns)
    v1.patch_namespaced_config_map("p1", ns, {"data": {"a": "1"}})
    v1.patch_namespaced_config_map("p1", ns, [{"op": "add", "path": "/data/b", "value": "2"}])
    stale.data = {"a": "stale"}
    tell(stale=code(v1.replace_namespaced_config_map, "p1", ns, stale), data=v1.read_namespaced_config_map("p1", ns).data)
    fresh = v1.read_namespaced_config_map("p1", ns)
    fresh.data["c"] = "3"
    tell(replaced=v1.replace_namespaced_config_map("p1", ns, fresh).data)
    tell(fields=[m.metadata.name for m in v1.list_namespaced_config_map(ns, field_selector="metadata.name=p3").items])
    v1.delete_collection_namespaced_config_map(ns, label_selector="app=py")
    tell(left=[m.metadata.name for m in v1.list_namespaced_config_map(ns, label_selector="app=py").items])
    tell(major=client.VersionApi().get_code().major, apis=len(client.ApisApi().get_api_versions().groups) > 3)
    pod = {"metadata": {"name": "typed"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "debian:13", "resources": {"requests": {"cpu": "100m"}}}]}}
    made = v1.create_namespaced_pod(ns, pod)
    tell(pod=made.status.phase, qos=made.status.qos_class, created=made.metadata.creation_timestamp.tzinfo is not None)
    v1.delete_namespaced_pod("typed", ns, grace_period_seconds=0)


def watching(ns):
    """Follows ConfigMaps for ever, as the client's own documentation does: Watch goes on by itself; a list after 410, of which the differences are told."""
    v1, version, known = client.CoreV1Api(), None, {}

    def dump():
        for _ in sys.stdin:
            tell(dump={n: m for n, m in sorted(known.items())})
    threading.Thread(target=dump, daemon=True).start()
    while True:
        try:
            if version is None:
                page = v1.list_namespaced_config_map(ns)
                version, now = page.metadata.resource_version, {m.metadata.name: m for m in page.items}
                for m in [m for m in known if m not in now]:
                    del known[m]
                    tell(event="DELETED", name=m, rv=version, n=None)
                for m, o in now.items():
                    n = (o.data or {}).get("n")
                    if m not in known or known[m] != n:
                        tell(event="MODIFIED" if m in known else "ADDED", name=m, rv=o.metadata.resource_version, n=n)
                        known[m] = n
                tell(listed=len(known))
            w = watch.Watch()
            for e in w.stream(v1.list_namespaced_config_map, ns, resource_version=version, allow_watch_bookmarks=True, _request_timeout=(2, 300)):
                version = e["object"].metadata.resource_version
                m = e["object"].metadata.name
                if e["type"] == "BOOKMARK":
                    continue
                if e["type"] == "DELETED":
                    known.pop(m, None)
                else:
                    known[m] = (e["object"].data or {}).get("n")
                tell(event=e["type"], name=m, rv=version, n=(e["object"].data or {}).get("n"))
        except ApiException as e:
            if e.status == 410:
                version = None
            tell(error=e.status)
        except Exception as e:  # the server is away: from the same version again
            tell(lost=type(e).__name__)
        time.sleep(0.1)


def elect(ns, identity):
    from kubernetes.leaderelection import electionconfig, leaderelection
    from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock  # the one that this release has
    conf = electionconfig.Config(ConfigMapLock("py", ns, identity), lease_duration=int(os.environ["LEASE"]), renew_deadline=int(os.environ["LEASE"]) * 2 // 3, retry_period=1,
                                 onstarted_leading=lambda: (tell(leads=identity), threading.Event().wait()), onstopped_leading=lambda: tell(stopped=identity))
    leaderelection.LeaderElection(conf).run()


def custom(ns):
    """A CRD is made, its objects by the custom API and by the dynamic client, which finds it by discovery."""
    api, ext = client.CustomObjectsApi(), client.ApiextensionsV1Api()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "minimum": 1}}},
                                               "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    ext.create_custom_resource_definition({"metadata": {"name": "gadgets.clients.tandem.dev"}, "spec": {
        "group": "clients.tandem.dev", "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}]}})
    end = time.monotonic() + 60
    while True:
        crd = ext.read_custom_resource_definition("gadgets.clients.tandem.dev")
        if any(c.type == "Established" and c.status == "True" for c in crd.status.conditions or []):
            break
        assert time.monotonic() < end
        time.sleep(0.05)
    where = ("clients.tandem.dev", "v1", ns, "gadgets")
    body = {"apiVersion": "clients.tandem.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 2}}
    end = time.monotonic() + 60
    while code(api.list_namespaced_custom_object, *where) == 404 and time.monotonic() < end:
        time.sleep(0.05)
    api.create_namespaced_custom_object(*where, body)
    tell(invalid=code(api.create_namespaced_custom_object, *where, {**body, "metadata": {"name": "bad"}, "spec": {"size": 0}}))
    api.patch_namespaced_custom_object_status(*where, "g", {"status": {"done": True}})
    dyn = dynamic.DynamicClient(client.ApiClient())
    end = time.monotonic() + 60
    while True:
        try:
            gadgets = dyn.resources.get(api_version="clients.tandem.dev/v1", kind="Gadget")
            break
        except dynamic.exceptions.ResourceNotFoundError:  # a real server lists a new group a little after it serves it
            assert time.monotonic() < end
            time.sleep(0.05)
    got = gadgets.get(name="g", namespace=ns)
    tell(size=got.spec.size, done=got.status.done)
    gadgets.patch(name="g", namespace=ns, body={"spec": {"size": 5}}, content_type="application/merge-patch+json")
    tell(size=gadgets.get(name="g", namespace=ns).spec.size)
    gadgets.delete(name="g", namespace=ns)
    tell(gone=code(api.get_namespaced_custom_object, *where, "g"))
    ext.delete_custom_resource_definition("gadgets.clients.tandem.dev")


if __name__ == "__main__":
    config.load_kube_config()
    {"verbs": verbs, "watch": watching, "elect": elect, "custom": custom}[sys.argv[1]](*sys.argv[2:])
