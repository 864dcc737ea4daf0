"""A directory service of a test's own: a real OpenLDAP server (slapd) with TLS, which answers only who binds with the password, at the address
of the pool's switch, where pods reach it."""
import base64
import os
import socket
import subprocess

from harness import wait_for

SUFFIX = "dc=lab,dc=example"
ADMIN, READER = f"cn=admin,{SUFFIX}", f"cn=reader,{SUFFIX}"
CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {dir}/pid
TLSCACertificateFile {dir}/ca.crt
TLSCertificateFile {dir}/server.crt
TLSCertificateKeyFile {dir}/server.key
database mdb
maxsize 16777216
suffix "{suffix}"
rootdn "{admin}"
rootpw admin
directory {dir}/db
access to attrs=userPassword by anonymous auth
access to * by dn.exact="{reader}" read by * none
"""


class Directory:
    password = "read me"

    def __init__(self, path, address):
        self.dir = str(path)
        os.makedirs(f"{self.dir}/db")
        with socket.create_server((address, 0)) as s:
            self.uri = f"ldaps://{address}:{s.getsockname()[1]}"
        run = lambda *a: subprocess.run(a, check=True, capture_output=True, timeout=60)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=lab", "-keyout", f"{path}/ca.key", "-out", f"{path}/ca.crt")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ldap", "-keyout", f"{path}/server.key", "-out", f"{path}/server.csr")
        with open(f"{path}/san", "w") as f:
            f.write(f"subjectAltName=IP:{address}\n")
        run("openssl", "x509", "-req", "-in", f"{path}/server.csr", "-CA", f"{path}/ca.crt", "-CAkey", f"{path}/ca.key", "-days", "2", "-extfile", f"{path}/san", "-out", f"{path}/server.crt")
        with open(f"{path}/slapd.conf", "w") as f:
            f.write(CONF.format(dir=path, suffix=SUFFIX, admin=ADMIN, reader=READER))
        self.ca = open(f"{path}/ca.crt").read()
        self.slapd = None
        self.start()
        self.add(SUFFIX, objectClass=["dcObject", "organization"], dc="lab", o="lab")
        self.add(READER, objectClass=["organizationalRole", "simpleSecurityObject"], userPassword=self.password)
        for ou in ("people", "groups"):
            self.add(f"ou={ou},{SUFFIX}", objectClass="organizationalUnit")

    def start(self):
        self.slapd = subprocess.Popen(["slapd", "-d", "0", "-f", f"{self.dir}/slapd.conf", "-h", self.uri], stdout=open(f"{self.dir}/log", "a"), stderr=subprocess.STDOUT)
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
