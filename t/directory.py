"""A directory service of a test's own: a real OpenLDAP server (slapd) with TLS, which answers only who binds with the password, at the address
of the pool's switch, where pods reach it. It is started as the chart's pod starts it (deploy/helm/slurm-cluster/files)."""
import base64
import os
import pathlib
import socket
import subprocess

from harness import wait_for

SUFFIX = "dc=lab,dc=example"
ADMIN, READER = f"cn=admin,{SUFFIX}", f"cn=reader,{SUFFIX}"
FILES = pathlib.Path(__file__).resolve().parent.parent / "deploy/helm/slurm-cluster/files"


class Directory:
    password = "read me"

    def __init__(self, path, address):
        self.dir = str(path)
        os.makedirs(self.dir)
        with socket.create_server((address, 0)) as s:
            self.uri = f"ldaps://{address}:{s.getsockname()[1]}"
        run = lambda *a: subprocess.run(a, check=True, capture_output=True, timeout=60)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=lab", "-keyout", f"{path}/ca.key", "-out", f"{path}/ca.crt")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ldap", "-keyout", f"{path}/server.key", "-out", f"{path}/server.csr")
        with open(f"{path}/san", "w") as f:
            f.write(f"subjectAltName=IP:{address}\n")
        run("openssl", "x509", "-req", "-in", f"{path}/server.csr", "-CA", f"{path}/ca.crt", "-CAkey", f"{path}/ca.key", "-days", "2", "-extfile", f"{path}/san", "-out", f"{path}/server.crt")
        os.makedirs(f"{path}/secrets")
        for name, text in (("admin", "admin"), ("reader", f"{self.password}\n"), ("tls.crt", open(f"{path}/server.crt").read()), ("tls.key", open(f"{path}/server.key").read())):
            with open(f"{path}/secrets/{name}", "w") as f:
                f.write(text)
        self.env = {**os.environ, "LDAP_SUFFIX": SUFFIX, "LDAP_URLS": self.uri, "LDAP_DATA": f"{path}/db", "LDAP_RUN": f"{path}/run", "LDAP_SECRETS": f"{path}/secrets"}
        self.ca = open(f"{path}/ca.crt").read()
        self.slapd = None
        self.start()

    def person(self, *argv, keys="", check=True):
        """The chart's command for administrators."""
        return subprocess.run(["sh", FILES / "person.sh", *map(str, argv)], input=keys, text=True, capture_output=True, check=check, timeout=60, env=self.env)

    def start(self):
        self.slapd = subprocess.Popen(["sh", FILES / "slapd.sh"], env=self.env, stdout=open(f"{self.dir}/log", "a"), stderr=subprocess.STDOUT)
        host, port = self.uri.removeprefix("ldaps://").split(":")

        def listens():
            assert self.slapd.poll() is None, open(f"{self.dir}/log").read()
            with socket.socket() as s:
                return s.connect_ex((host, int(port))) == 0
        wait_for("slapd listens", listens)

    def stop(self):
        self.slapd.kill()
        self.slapd.wait()

    def tool(self, name, text="", *more):
        return subprocess.run([name, "-x", "-H", self.uri, "-D", ADMIN, "-w", "admin", *more], input=text, text=True, capture_output=True, check=True, timeout=60,
                              env={**os.environ, "LDAPTLS_CACERT": f"{self.dir}/ca.crt"})

    def add(self, dn, **attributes):
        lines = [f"dn: {dn}"]
        for key, value in attributes.items():
            lines += [f"{key}:: {base64.b64encode(str(v).encode()).decode()}" for v in (value if isinstance(value, list) else [value])]
        self.tool("ldapadd", "\n".join(lines) + "\n")

    def user(self, name, uid, *keys):
        self.add(f"uid={name},ou=people,{SUFFIX}", objectClass=["account", "posixAccount", "ldapPublicKey"], cn=name, uidNumber=uid, gidNumber=uid, homeDirectory=f"/home/{name}",
                 loginShell="/bin/bash", **({"sshPublicKey": list(keys)} if keys else {}))
        self.group(name, uid)

    def group(self, name, gid, *members):
        self.add(f"cn={name},ou=groups,{SUFFIX}", objectClass="posixGroup", gidNumber=gid, **({"memberUid": list(members)} if members else {}))

    def modify(self, dn, change):
        self.tool("ldapmodify", f"dn: {dn},{SUFFIX}\nchangetype: modify\n{change}\n")

    def delete(self, dn):
        self.tool("ldapdelete", "", f"{dn},{SUFFIX}")
