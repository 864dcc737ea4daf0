#!/usr/bin/env python3
"""Enforces NetworkPolicies on the nodes of a cluster that cluster.py runs: of packets that a node forwards to one of its pods, nftables drops those that no
policy of the pod allows.

usage: netpol.py DIR      DIR: the cluster's directory. Runs until it is killed; the rules stay, and the node's network namespace takes them along.

Ingress of TCP and UDP by pod, namespace and address block, named ports and ranges of ports; a policy of egress it refuses aloud. A pod's own node may always
talk to it, as the kubelet's probes must: what a node sends itself is not forwarded."""
import http.client
import json
import os
import pathlib
import queue
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

KINDS = {"pods": "/api/v1/pods", "namespaces": "/api/v1/namespaces", "policies": "/apis/networking.k8s.io/v1/networkpolicies"}


def selects(selector, labels):
    """An empty selector selects all."""
    want = [{"key": k, "operator": "In", "values": [v]} for k, v in selector.get("matchLabels", {}).items()] + selector.get("matchExpressions", [])
    tests = {"In": lambda e: labels.get(e["key"]) in e["values"], "NotIn": lambda e: labels.get(e["key"]) not in e["values"],
             "Exists": lambda e: e["key"] in labels, "DoesNotExist": lambda e: e["key"] not in labels}
    return all(tests[e["operator"]](e) for e in want)


def labels(o):
    return o["metadata"].get("labels") or {}


def address(pod):
    """The address that is this pod's alone; None: it has none (yet, or any more), or it is its node's."""
    if pod["spec"].get("hostNetwork") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    return pod.get("status", {}).get("podIP")


def sources(peers, ns, pods, namespaces):
    """What may stand before a rule's ports, as nftables' words; [""]: anybody."""
    if not peers:
        return [""]
    addresses, out = set(), []
    for peer in peers:
        if "ipBlock" in peer:
            b = peer["ipBlock"]
            out.append(f"ip saddr {b['cidr']} " + "".join(f"ip saddr != {e} " for e in b.get("except", [])))
            continue
        spaces = {n["metadata"]["name"] for n in namespaces if selects(peer["namespaceSelector"], labels(n))} if "namespaceSelector" in peer else {ns}
        addresses |= {address(p) for p in pods if p["metadata"]["namespace"] in spaces and selects(peer.get("podSelector", {}), labels(p))}
    addresses = sorted(addresses - {None})
    return out + ([f"ip saddr {{ {', '.join(addresses)} }} "] if addresses else [])


def ports(rule, pod):
    """The ports of one rule, as nftables' words; [""]: all. A name is that of a port of the pod that is talked to."""
    if not rule.get("ports"):
        return [""]
    out = []
    for p in rule["ports"]:
        proto, port = p.get("protocol", "TCP"), p.get("port")
        if port is None:
            out.append(f"meta l4proto {proto.lower()} ")
            continue
        named = [c["containerPort"] for cont in pod["spec"]["containers"] for c in cont.get("ports", []) if c.get("name") == port and c.get("protocol", "TCP") == proto]
        out += [f"{proto.lower()} dport {n} " for n in ([f"{port}-{p['endPort']}"] if "endPort" in p else named if isinstance(port, str) else [port])]
    return out


def ruleset(node, pods, namespaces, policies):
    """The table of a node, which replaces the one that it has."""
    verdicts, chains = {}, []
    for pod in sorted(pods, key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["uid"])):  # of two with one address the younger has it
        ns, ip = pod["metadata"]["namespace"], address(pod)
        mine = [p for p in policies if p["metadata"]["namespace"] == ns and selects(p["spec"]["podSelector"], labels(pod))]
        if pod["spec"].get("nodeName") != node or not ip or not mine:
            continue
        chain = f"pod-{len(chains)}"
        rules = [f"{s}{t}accept" for p in mine for r in p["spec"].get("ingress", []) for s in sources(r.get("from"), ns, pods, namespaces) for t in ports(r, pod)]
        verdicts[ip] = f"{ip} : goto {chain}"
        chains.append("\n    ".join([f"  chain {chain} {{ # {ns}/{pod['metadata']['name']}", *dict.fromkeys(rules), "counter drop"]) + "\n  }\n")
    jump = f"ip daddr vmap {{ {', '.join(verdicts.values())} }}" if verdicts else ""
    # One transaction: a packet meets the old table or the new one.
    return ("table ip netpol\ndelete table ip netpol\ntable ip netpol {\n" + "".join(chains) +
            f"  chain forward {{\n    type filter hook forward priority 0; policy accept;\n    ct state established,related accept\n    {jump}\n  }}\n}}\n")


class Watch(threading.Thread):
    """All objects of a kind, kept up to date; `changed` gets a word at every change."""

    def __init__(self, conf, path, changed):
        super().__init__(daemon=True)
        self.path, self.changed, self.objects = path, changed, None
        url = urllib.parse.urlsplit(conf["clusters"][0]["cluster"]["server"])
        tls = ssl.create_default_context(cafile=conf["clusters"][0]["cluster"]["certificate-authority"])
        tls.load_cert_chain(conf["users"][0]["user"]["client-certificate"], conf["users"][0]["user"]["client-key"])
        self.connect = lambda: http.client.HTTPSConnection(url.hostname, url.port or 443, context=tls, timeout=120)

    def get(self, query):
        r = self.connect()
        r.request("GET", f"{self.path}?{query}")
        answer = r.getresponse()
        if answer.status != 200:
            raise OSError(f"{self.path}: {answer.status} {answer.read()[:200]}")
        return answer

    def run(self):
        while True:
            try:
                got = json.load(self.get("limit=0"))
                self.objects = {o["metadata"]["uid"]: o for o in got["items"]}
                self.changed.put(self.path)
                for line in self.get(f"watch=1&timeoutSeconds=90&resourceVersion={got['metadata']['resourceVersion']}"):
                    e = json.loads(line)
                    if e["type"] == "ERROR":
                        break
                    uid, now = e["object"]["metadata"]["uid"], dict(self.objects)
                    if e["type"] == "DELETED":
                        now.pop(uid, None)
                    else:
                        now[uid] = e["object"]
                    self.objects = now
                    self.changed.put(self.path)
            except (OSError, ValueError, http.client.HTTPException) as e:  # the API server is away: the rules stay, and it is asked again
                print(f"netpol: {e}", file=sys.stderr, flush=True)
                time.sleep(0.5)


def run(ns, argv, text=None, assets=None):
    """In a node's network namespace; nft comes with its libraries."""
    env = {**os.environ, **({"LD_LIBRARY_PATH": f"{assets}/nft/lib"} if assets else {})}
    r = subprocess.run(["nsenter", f"--net=/run/netns/{ns}", *argv], input=text, capture_output=True, text=True, timeout=60, env=env)
    if r.returncode:
        print(f"netpol: {ns}: {r.stderr.strip()[:2000]}", file=sys.stderr, flush=True)
    return r.returncode == 0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    home = pathlib.Path(sys.argv[1])
    cluster, conf = json.loads((home / "cluster.json").read_text()), json.loads((home / "conf/admin.conf").read_text())
    nodes = {f"n{i}": f"tk{cluster['id']}-n{i}" for i in range(cluster["n"])}
    for ns in nodes.values():  # pods of one node talk over its bridge: those packets are looked at too
        if not run(ns, ["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"]):
            return 1
    changed, applied = queue.Queue(), {}
    watches = {k: Watch(conf, path, changed) for k, path in KINDS.items()}
    for w in watches.values():
        w.start()
    while True:
        try:
            changed.get(timeout=5)  # and now and then again what could not be applied
        except queue.Empty:
            pass
        while not changed.empty():
            changed.get_nowait()
        if any(w.objects is None for w in watches.values()):
            continue
        pods, namespaces, policies = (list(watches[k].objects.values()) for k in KINDS)
        for p in policies:
            if "Egress" in p["spec"]["policyTypes"]:
                print(f"netpol: {p['metadata']['namespace']}/{p['metadata']['name']}: policies of egress are not enforced here", file=sys.stderr, flush=True)
        for node, ns in nodes.items():
            text = ruleset(node, pods, namespaces, [p for p in policies if "Ingress" in p["spec"]["policyTypes"]])
            if applied.get(node) != text and run(ns, [f"{cluster['assets']}/nft/nft", "-f", "-"], text, cluster["assets"]):
                applied[node] = text


if __name__ == "__main__":
    sys.exit(main())
