"""The Helm chart for a Slurm cluster itself: what it renders is valid, and values that are not are refused."""
import base64
import json
import pathlib
import re
import subprocess

import pytest
import yaml

from realpool import assets

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy/helm/slurm-cluster"


@pytest.mark.feature("A1.9")
def test_values_are_those_of_the_kinds():
    r = subprocess.run([ROOT / "tools/gen-deploy", "--check"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    schema, values = json.loads((CHART / "values.schema.json").read_text())["properties"], yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema) == set(values)
    assert "partitions" in schema["spec"]["properties"] and "clusterName" not in schema["nodeSets"]["additionalProperties"]["properties"]


@pytest.mark.kube
@pytest.mark.feature("A1.9")
def test_the_chart_renders_what_is_valid(tandem, tmp_path):
    helm = pathlib.Path(assets()) / "helm"

    def template(*argv, name="main"):
        return subprocess.run([helm, "template", name, CHART, "-n", "slurm", "--kube-version", "1.34.0", *argv], capture_output=True, text=True, timeout=60)

    def valid(text):
        (tmp_path / "out.yaml").write_text(text)
        r = subprocess.run([tandem, "validate", "-f", tmp_path / "out.yaml"], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stdout
        return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(text) if d}
    r = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stdout
    docs = valid(template().stdout)
    assert set(docs) == {("SlurmCluster", "main"), ("NodeSet", "pool")} and docs["NodeSet", "pool"]["spec"]["clusterName"] == "main"
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({
        "name": "hpc", "configMaps": {"ours": {"prolog.sh": "#!/bin/sh\nexit 0\n"}}, "nodeSets": {"pool": None, "gpu": {"nodeSelector": {"gpu": "yes"}}, "cpu": {}},
        "spec": {"partitions": [{"name": "gpu", "nodeSets": ["gpu"], "default": True}], "scripts": {"prolog": {"configMap": "ours", "key": "prolog.sh"}}, "config": {"slurmConf": {"KillWait": "20"}}}}))
    docs = valid(template("-f", tmp_path / "values.yaml", name="release").stdout)
    assert set(docs) == {("ConfigMap", "ours"), ("SlurmCluster", "hpc"), ("NodeSet", "gpu"), ("NodeSet", "cpu")}
    assert docs["ConfigMap", "ours"]["data"]["prolog.sh"] == "#!/bin/sh\nexit 0\n" and docs["SlurmCluster", "hpc"]["spec"]["config"]["slurmConf"] == {"KillWait": "20"}
    assert docs["SlurmCluster", "hpc"]["metadata"]["namespace"] == docs["NodeSet", "gpu"]["metadata"]["namespace"] == "slurm"
    for wrong, word in (("spec.partition=x", "partition"), ("nodeSets.pool.replicas=-1", "replicas"), ("spec.auth.type=none", "auth")):
        r = template("--set-json", wrong if wrong.endswith("1") else wrong.replace("=", '="') + '"')
        assert r.returncode and word in r.stderr, r.stderr


@pytest.mark.kube
@pytest.mark.feature("A15.4", "A1.9")
def test_the_chart_brings_a_directory_if_wanted(tmp_path):
    helm = pathlib.Path(assets()) / "helm"

    def template(values, check=True):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        r = subprocess.run([helm, "template", "main", CHART, "-n", "slurm", "--kube-version", "1.34.0", "-f", tmp_path / "values.yaml"], capture_output=True, text=True, timeout=60)
        assert not check or r.returncode == 0, r.stderr
        return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(r.stdout) if d} if check else r.stderr
    docs = template({"ldap": {"enabled": True, "suffix": "dc=lab,dc=example"}})
    ldap = docs["SlurmCluster", "main"]["spec"]["identity"]["ldap"]
    assert ldap == {"uris": ["ldaps://main-ldap.slurm.svc:1636"], "baseDN": "dc=lab,dc=example", "bind": {"dn": "cn=reader,dc=lab,dc=example", "secret": "main-ldap-reader"}, "tls": {"caConfigMap": "main-ldap-ca"}}
    # SSSD has the reader's password and no more; the certificate is the server's, by the CA that it is told.
    made = docs["Secret", "main-ldap"]["data"]
    assert docs["Secret", "main-ldap-reader"]["data"] == {"password": made["reader"]} and made["reader"] != made["admin"]
    for name, text in (("ca", docs["ConfigMap", "main-ldap-ca"]["data"]["ca.crt"]), ("crt", base64.b64decode(made["tls.crt"]).decode())):
        (tmp_path / name).write_text(text)
    r = subprocess.run(["openssl", "verify", "-CAfile", tmp_path / "ca", "-verify_hostname", "main-ldap.slurm.svc", tmp_path / "crt"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    pod = docs["StatefulSet", "main-ldap"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert docs["ConfigMap", "main-ldap"]["data"] == {"slapd.sh": (CHART / "files/slapd.sh").read_text(), "person": (CHART / "files/person.sh").read_text()}
    assert docs["NetworkPolicy", "main-ldap"]["spec"]["ingress"][0]["from"] == [{"podSelector": {"matchLabels": {"tandem.dev/cluster": "main"}}}]
    # What the site says itself wins; without persistence there is no claim; a suffix that is none is refused.
    site = {"uris": ["ldaps://main-ldap.slurm.svc:1636"], "baseDN": "o=lab", "bind": {"dn": "cn=reader,o=lab", "secret": "reader"}, "tls": {"caConfigMap": "lab-ca"}}
    own = template({"ldap": {"enabled": True, "secret": "ours", "persistence": {"enabled": False}}, "spec": {"identity": {"ldap": site}}})
    said = own["SlurmCluster", "main"]["spec"]["identity"]["ldap"]
    assert {k: said[k] for k in site} == site and not any(k == "Secret" for k, _ in own)
    assert "volumeClaimTemplates" not in own["StatefulSet", "main-ldap"]["spec"] and not any(k == "ConfigMap" and n.endswith("-ca") for k, n in own)
    assert "suffix" in template({"ldap": {"enabled": True, "suffix": "lab"}}, check=False)


@pytest.mark.kube
@pytest.mark.feature("A16.9", "A1.9")
def test_the_chart_and_the_manifest_have_one_gateway(tmp_path):
    helm = pathlib.Path(assets()) / "helm"
    values = {"spec": {"storage": [{"name": "home", "mountPath": "/home", "claim": "home"}], "scheduler": {"namespaces": [
        {"namespace": "sessions-ann", "user": "ann"}, {"namespace": "*", "user": "pods"}, {"namespace": "never", "user": "bob"}]}},
        "gateway": {"enabled": True, "tls": {"secret": "main-gateway-tls"}, "sessions": {"createNamespaces": False}}}

    def template(more=(), check=True):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        argv = [a for m in more for a in ("--set-json", m)]
        r = subprocess.run([helm, "template", "main", CHART, "-n", "slurm", "--kube-version", "1.34.0", "-f", tmp_path / "values.yaml", *argv], capture_output=True, text=True, timeout=60)
        assert not check or r.returncode == 0, r.stderr
        return {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]): d for d in yaml.safe_load_all(r.stdout) if d and d["kind"] not in ("SlurmCluster", "NodeSet")} if check else r.stderr
    want = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]): d for d in yaml.safe_load_all((ROOT / "deploy/manifests/gateway.yaml").read_text()) if d}
    assert template() == want
    pod = lambda docs: docs["Deployment", "slurm", "main-gateway"]["spec"]["template"]["spec"]
    args = lambda docs: pod(docs)["containers"][0]["args"]
    # A directory of the nodes, plain HTTP behind an ingress, namespaces and a certificate that are made, LDAP.
    nodes = template(['spec.storage=[{"name":"home","mountPath":"/u","hostPath":"/lustre","subPath":"home"}]', "gateway.behindIngress=true", "gateway.sessions.createNamespaces=true", "ldap.enabled=true"])
    assert "--homes-path=/lustre/home" in args(nodes) and "--homes-as=/u" in args(nodes) and "--behind-ingress" in args(nodes) and not any("cert" in a or "key" in a for a in args(nodes))
    assert pod(nodes)["volumes"] == [{"name": "homes", "hostPath": {"path": "/lustre/home", "type": "Directory"}}]
    assert nodes["Namespace", None, "sessions-ann"]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
    assert "pods/exec" in json.dumps(nodes["Role", "slurm", "main-gateway"]["rules"]) and "pods/exec" not in json.dumps(want["Role", "slurm", "main-gateway"]["rules"])
    # Nobody is asked what sessions use, and nothing is left of the right to find them.
    alone = template(["gateway.agents.namespace=\"\"", "gateway.sessions.lowUse=45"])
    assert {k for k in want if k[1] == "tandem-node"} == set(want) - set(alone) != set() and "--agents=tandem-node" in args(want)
    assert not any(a.startswith("--agents") for a in args(alone)) and "--low-use=45" in args(alone)
    assert want["Role", "tandem-node", "tandem-gateway-slurm-main"]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    # The hub of a federation may there what the embedded plane's may.
    hub = template(["gateway.federation=true"])
    verbs = lambda rules, resource: {v for r in rules if resource in r["resources"] for v in r["verbs"]}
    role = next(d for d in yaml.safe_load_all((ROOT / "deploy/embedded.yaml").read_text()) if d["kind"] == "Role" and verbs(d["rules"], "federatedruns"))["rules"]
    whole = yaml.safe_load((ROOT / "src/apiserver/roles.yaml").read_text())["system:tandem:gateway"]["rules"]
    assert verbs(hub["Role", "slurm", "main-gateway"]["rules"], "federatedruns") == verbs(role, "federatedruns") != set()
    assert verbs(hub["ClusterRole", None, "tandem-gateway-slurm-main"]["rules"], "federations") == verbs(whole, "federations") != set()
    made = template(['gateway.tls={"secret":"","hosts":["tandem.lab.example"]}'])["Secret", "slurm", "main-gateway-tls"]
    for name in ("ca.crt", "tls.crt"):
        (tmp_path / name).write_bytes(base64.b64decode(made["data"][name]))
    for host in ("tandem.lab.example", "main-gateway.slurm.svc"):
        r = subprocess.run(["openssl", "verify", "-CAfile", tmp_path / "ca.crt", "-verify_hostname", host, tmp_path / "tls.crt"], capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
    assert 'spec.storage has no entry named "homes"' in template(['gateway.homes="homes"'], check=False)
    assert "subPath" in template(['spec.storage=[{"name":"home","mountPath":"/home","claim":"home","subPath":"x"}]'], check=False)
    assert "/gateway/replicas" in template(["gateway.replicas=0"], check=False)


@pytest.mark.kube
@pytest.mark.feature("A16.9", "A1.9")
def test_agents_of_a_namespace_that_is_not_there_are_refused(shared_pool, tmp_path):
    """Before anything is installed: the gateway's right is in that namespace."""
    helm, name = pathlib.Path(assets()) / "helm", "agents-elsewhere"
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"spec": {"storage": [{"name": "home", "mountPath": "/home", "claim": "home"}]}, "gateway": {
        "enabled": True, "tls": {"secret": "main-gateway-tls"}, "agents": {"namespace": name}}}))

    def template(*more):
        return subprocess.run([helm, "template", "main", CHART, "-n", "slurm", "--kube-version", "1.34.0", "-f", tmp_path / "values.yaml", *more], capture_output=True, text=True, timeout=60,
                              env=shared_pool.env)
    assert template().returncode == 0  # it asks no cluster
    said = template("--dry-run=server")
    assert said.returncode and f'gateway.agents.namespace: there is no namespace "{name}" here' in said.stderr, said.stderr
    assert template("--dry-run=server", "--set-json", 'gateway.agents.namespace="kube-system"').returncode == 0
    assert template("--dry-run=server", "--set-json", 'gateway.agents.namespace=""').returncode == 0


@pytest.mark.kube
@pytest.mark.feature("A16.9")
def test_what_the_guide_puts_before_the_gateway_leads_to_it(tmp_path):
    """The values of docs/gateway.md, and the port behind which its Ingress and its HTTPRoute say that the gateway is."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/gateway.md").read_text(), re.M | re.S)
    values, ingress, route = (yaml.safe_load(b) for b in blocks)
    said = next(yaml.safe_load(line.removeprefix("# ")) for b in blocks for line in b.splitlines() if line.startswith("# gateway: "))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**values, **said}))
    r = subprocess.run([pathlib.Path(assets()) / "helm", "template", "main", CHART, "-n", "slurm", "--kube-version", "1.34.0", "-f", tmp_path / "values.yaml"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    docs = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]): d for d in yaml.safe_load_all(r.stdout) if d}
    way = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    ref = route["spec"]["rules"][0]["backendRefs"][0]
    port = docs["Service", ingress["metadata"]["namespace"], way["name"]]["spec"]["ports"]
    assert [p["name"] for p in port] == [way["port"]["name"]] and docs["Service", route["metadata"]["namespace"], ref["name"]]["spec"]["ports"][0]["port"] == ref["port"]
    assert said["gateway"]["from"] in [rule.get("from") for rule in docs["NetworkPolicy", "slurm", "main-gateway"]["spec"]["ingress"]]
