"""What `kubectl get … -o json` and `kubectl exec` say, asked of the API server without a process: tests ask it some thousand
times, and kubectl needs ten times the CPU for it. Forms of get that are not known here are None: kubectl itself is asked then."""
import http.client
import json
import os
import ssl
import subprocess
import urllib.parse

import yaml

from wsclient import WebSocket

CORE, APPS, TANDEM = "/api/v1", "/apis/apps/v1", "/apis/tandem.dev/v1alpha1"
# Plural: where, kind, whether it has namespaces.
KINDS = {
    "configmaps": (CORE, "ConfigMap", True), "events": (CORE, "Event", True), "namespaces": (CORE, "Namespace", False), "nodes": (CORE, "Node", False),
    "pods": (CORE, "Pod", True), "secrets": (CORE, "Secret", True), "services": (CORE, "Service", True),
    "deployments": (APPS, "Deployment", True), "replicasets": (APPS, "ReplicaSet", True), "statefulsets": (APPS, "StatefulSet", True),
    "jobs": ("/apis/batch/v1", "Job", True),
    "datasets": (TANDEM, "Dataset", True), "nodeactions": (TANDEM, "NodeAction", False), "nodehistories": (TANDEM, "NodeHistory", False), "nodesets": (TANDEM, "NodeSet", True), "nodetokens": (TANDEM, "NodeToken", False), "federations": (TANDEM, "Federation", False), "federatedruns": (TANDEM, "FederatedRun", True), "nodeupgrades": (TANDEM, "NodeUpgrade", False),
    "slurmclusters": (TANDEM, "SlurmCluster", True), "tenants": (TANDEM, "Tenant", False), "healthpolicies": (TANDEM, "HealthPolicy", False),
    "serviceaccounts": (CORE, "ServiceAccount", True), "persistentvolumeclaims": (CORE, "PersistentVolumeClaim", True), "resourcequotas": (CORE, "ResourceQuota", True),
    "daemonsets": (APPS, "DaemonSet", True), "priorityclasses": ("/apis/scheduling.k8s.io/v1", "PriorityClass", False),
    "networkpolicies": ("/apis/networking.k8s.io/v1", "NetworkPolicy", True), "poddisruptionbudgets": ("/apis/policy/v1", "PodDisruptionBudget", True),
    "roles": ("/apis/rbac.authorization.k8s.io/v1", "Role", True), "rolebindings": ("/apis/rbac.authorization.k8s.io/v1", "RoleBinding", True),
    "clusterroles": ("/apis/rbac.authorization.k8s.io/v1", "ClusterRole", False), "clusterrolebindings": ("/apis/rbac.authorization.k8s.io/v1", "ClusterRoleBinding", False),
}
PLURALS = {word: plural for plural in KINDS for word in (plural, {"ies": plural[:-3] + "y", "ses": plural[:-2]}.get(plural[-3:], plural[:-1]))}
SELECTORS = {"-l": "labelSelector", "--field-selector": "fieldSelector"}


def version(where):
    """The apiVersion of what is at a path."""
    return where.removeprefix("/apis/").removeprefix("/api/")


class Refused(Exception):
    """The API server's answer, or why there is none, as kubectl says it."""


def path_of(argv):
    """The path of what these arguments of kubectl ask for, and the kind of its items if it is a list; None: not known here."""
    words, query, namespace = [], {}, "default"
    rest = list(argv)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word == "-A":
            namespace = None
        elif word == "-n" or word in SELECTORS:
            value = value or rest.pop(0)
            if word == "-n":
                namespace = value
            else:
                query[SELECTORS[word]] = value
        elif word.startswith("-") or value:
            return None
        else:
            words.append(word)
    if not 1 <= len(words) <= 2 or words[0] not in PLURALS or (len(words) == 2 and (query or not namespace)):
        return None
    plural = PLURALS[words[0]]
    where, kind, namespaced = KINDS[plural]
    path = where + (f"/namespaces/{namespace}" if namespaced and namespace else "") + f"/{plural}"
    if len(words) == 2:
        return f"{path}/{urllib.parse.quote(words[1])}", None
    return f"{path}?{urllib.parse.urlencode(query)}", {"apiVersion": version(where), "kind": kind}


class Server:
    """The API server of a kubeconfig, by its certificate."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as f:
            conf = yaml.load(f, yaml.CSafeLoader)
        cluster, user = conf["clusters"][0]["cluster"], conf["users"][0]["user"]
        self.host = cluster["server"].removeprefix("https://")
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self.tls.load_cert_chain(user["client-certificate"], user["client-key"])

    def call(self, method, path, body=None, kind="application/json", seconds=120):
        """(status, the object that is answered, or its text where it is none)."""
        c = http.client.HTTPSConnection(self.host, context=self.tls, timeout=seconds)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind} if body is not None else {})
            r = c.getresponse()
            said = r.read()
            return r.status, json.loads(said) if "json" in r.getheader("Content-Type", "") else said.decode(errors="replace")
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise Refused(f"{self.host}{path}: {e}") from e
        finally:
            c.close()

    def get(self, path):
        code, obj = self.call("GET", path)
        if code != 200:
            raise Refused(f"Error from server ({obj.get('reason')}): {obj.get('message')}" if isinstance(obj, dict) else f"{self.host}{path}: {code} {obj}")
        return obj

    def run(self, pod, command, timeout):
        """(exit code, stdout, stderr) of a command in the first container of a pod, without stdin."""
        at = f"{CORE}/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/exec?"
        query = [("container", pod["spec"]["containers"][0]["name"]), ("stdout", "1"), ("stderr", "1"), *(("command", str(c)) for c in command)]
        said = {1: b"", 2: b"", 3: b""}  # stdout, stderr, how it ended
        try:
            w = WebSocket(self.host, at + urllib.parse.urlencode(query), {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, timeout, self.tls)
            try:
                if w.status != 101:
                    raise Refused(f"exec in {pod['metadata']['name']}: {w.status} {w.rest.decode(errors='replace')}")
                channel = None
                while (frame := w.receive())[0] != 8:
                    op, data = frame
                    if op == 2:
                        channel, data = data[0], data[1:]
                    if op in (0, 2):
                        said[channel] += data
            finally:
                w.close()
        except EOFError as e:
            if not said[3]:
                raise Refused(f"exec in {pod['metadata']['name']}: {e}") from e
        except TimeoutError as e:
            raise subprocess.TimeoutExpired(command, timeout) from e
        except OSError as e:
            raise Refused(f"exec in {pod['metadata']['name']}: {e}") from e
        if not said[3]:
            raise Refused(f"exec in {pod['metadata']['name']} was closed")
        how = json.loads(said[3])
        code = 0 if how.get("status") == "Success" else next((int(c["message"]) for c in how.get("details", {}).get("causes", []) if c["reason"] == "ExitCode"), None)
        if code is None:
            raise Refused(f"exec in {pod['metadata']['name']}: {how.get('message')}")
        return code, said[1].decode(), said[2].decode() + (f"command terminated with exit code {code}\n" if code else "")


servers = {}  # by kubeconfig and when it was made: what goes down and comes up again has other keys


def server(kubeconfig):
    try:
        made = (kubeconfig, os.stat(kubeconfig).st_mtime_ns)
        if made not in servers:
            servers[made] = Server(kubeconfig)
        return servers[made]
    except OSError as e:
        raise Refused(f"{kubeconfig}: {e}") from e


def get(kubeconfig, argv):
    """The object, or a List with the kind in each item, as kubectl gives them."""
    found = path_of(argv)
    if not found:
        return None
    path, item = found
    obj = server(kubeconfig).get(path)
    for o in obj["items"] if item else [obj]:
        o["metadata"].pop("managedFields", None)  # kubectl shows them to who asks for them
    return {"apiVersion": "v1", "kind": "List", "items": [{**item, **o} for o in obj["items"]], "metadata": {"resourceVersion": ""}} if item else obj
