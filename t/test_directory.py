"""The LDAP server that the chart of a SlurmCluster brings, as its pod runs it, without the pod. SSSD, ssh and the gateway ask the same one in
test_ldap.py; what the chart renders is in test_chart.py."""
import base64
import subprocess

import pytest

from directory import READER, SUFFIX, Directory

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBlRZKn0vTPuDQyPqvoXcnTWkPKfQVCvv2tZzgKZlwCB ann@laptop"


def asked(d, *argv, password=Directory.password, who=READER):
    r = subprocess.run(["ldapsearch", "-LLL", "-x", "-o", "ldif-wrap=no", "-H", d.uri, *(["-D", who, "-w", password] if who else []), "-b", SUFFIX, *argv], capture_output=True, text=True, timeout=60,
                       env={"LDAPTLS_CACERT": f"{d.dir}/ca.crt", "PATH": d.env["PATH"]})
    return r.returncode, r.stdout


@pytest.mark.feature("A15.4")
def test_people_are_added_and_only_the_reader_reads_them(tmp_path):
    d = Directory(tmp_path / "d", "127.0.0.1")
    try:
        d.person("add", "ann", 3000, keys=f"# hers\n{KEY}\n")
        d.person("group", "chem", 5000)
        d.person("add", "bob", 3001, 5000)
        d.person("join", "chem", "ann")
        d.person("join", "chem", "bob")
        assert d.person("list").stdout == "ann 3000 3000\nbob 3001 5000\n"
        ann = asked(d, "uid=ann")[1]
        assert f"sshPublicKey: {KEY}" in ann or base64.b64encode(KEY.encode()).decode() in ann
        assert "uidNumber: 3000\ngidNumber: 3000\nhomeDirectory: /home/ann" in ann and "memberUid: ann" in asked(d, "cn=chem")[1] and "gidNumber: 3000" in asked(d, "cn=ann")[1]
        # Nobody else reads it, and nobody the passwords.
        assert asked(d, who=None) == (32, "") or asked(d, who=None)[1] == ""
        assert asked(d, password="guessed")[0] == 49 and "userPassword" not in asked(d, "(userPassword=*)")[1] + asked(d, "cn=reader")[1]
        # A number belongs to one group: else who has it is in the other, too.
        for argv, words in ((("add", "eve", 5000), "gid 5000 is the group chem's"), (("group", "bio", 3000), "gid 3000 is the group ann's"), (("add", "chem", 3005), "group chem has gid 5000")):
            r = d.person(*argv, check=False)
            assert r.returncode == 2 and words in r.stderr, r
        for argv, words, more in ((("add", "Ann", 3002), "\"Ann\" is no name", {}), (("add", "eve", 3000), "uid 3000 is ann's", {}), (("add", "eve", 0), "a number of 1000 or more", {}),
                                  (("add", "eve", 64030), "neither 64030", {}), (("add", "eve", 3003), "no public key", {"keys": "secret\n"}), (("add", "x\ny", 3004), "is no name", {}), (("frob",), "give list", {})):
            r = d.person(*argv, check=False, **more)
            assert r.returncode == 2 and words in r.stderr, r
        assert d.person("list").stdout == "ann 3000 3000\nbob 3001 5000\n"
        # It is killed: all is there again. Another password in the Secret counts then.
        d.stop()
        (tmp_path / "d/secrets/reader").write_text("another")
        d.start()
        d.person("remove", "bob")
        assert d.person("list").stdout == "ann 3000 3000\n"
        assert asked(d)[0] == 49 and "uid: ann" in asked(d, password="another")[1]
        # Whoever is called bob next is in no group of this one's.
        assert "memberUid: ann" in asked(d, "cn=chem", password="another")[1] and "bob" not in asked(d, "cn=chem", password="another")[1]
        assert d.person("remove", "bob", check=False).returncode == 32
    finally:
        d.stop()
