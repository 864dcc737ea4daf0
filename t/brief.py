"""A pool in a few lines, for who sees only the end of what a run prints: what is wrong with it at the moment when a test failed. The
whole is Pool.describe()."""
import glob
import json
import re

LINES, WIDTH = 12, 160


def asked(pool, *argv):
    """What Slurm says to a command, on one line."""
    try:
        r = pool.cmd("shell", "--user", "root", "--", *argv, check=False, timeout=20)
        said = (r.stdout if r.returncode == 0 else f"exit {r.returncode}: {r.stderr}").split("\n")
        return f"{argv[0]}: {'; '.join(filter(None, (l.strip() for l in said))) or 'nothing'}"
    except Exception as e:  # describing must not hide the failure
        return f"slurmctld does not answer {argv[0]}: {type(e).__name__}"


def pods(pool):
    """The pods of Slurm that are not as they should be."""
    bad = []
    for p in pool.items("pods", "-n", "slurm"):
        st = p.get("status", {})
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in st.get("conditions", []))
        again = sum(c.get("restartCount", 0) for c in st.get("containerStatuses", []))
        if not ready or again or p["metadata"].get("deletionTimestamp"):
            bad.append(f"{p['metadata']['name']} {st.get('phase')}{'' if ready else ', not Ready'}{f', {again} restarts' if again else ''}"
                       f"{', going' if p['metadata'].get('deletionTimestamp') else ''}")
    return f"pods: {'; '.join(bad) or 'all of Slurm are Ready'}"


def cluster(pool):
    """What SlurmCluster main says."""
    st = pool.get("slurmcluster", "main", "-n", "slurm").get("status", {})
    bad = [f"{c['type']}: {c.get('message')}" for c in st.get("conditions", []) if c["status"] != "True"]
    return f"SlurmCluster: {st.get('phase')}; {'; '.join(bad)}"


def below(pid, name):
    """The first process of that name among a process's descendants, or itself."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        for child in f.read().split():
            with open(f"/proc/{child}/cmdline") as c:
                if c.read().split("\0")[0] == name:
                    return int(child)
            if (found := below(child, name)) != int(child):
                return found
    return int(pid)


def stand(pool, name):
    """Where a daemon's first thread stands, and how many it has."""
    found = []
    for host, init in sorted(pool.daemons(name).items()):
        pid = below(init, name)
        with open(f"/proc/{pid}/wchan") as w, open(f"/proc/{pid}/status") as s:
            status = dict(line.split(":\t", 1) for line in s.read().splitlines() if ":\t" in line)
            found.append(f"{host} pid {pid} {status['State']} in {w.read() or '?'}, {status['Threads']} threads")
    return f"{name}: {'; '.join(found) or 'does not run'}"


def where(pool, name):
    """Where each process of the containers of this host stands, for one that never gets ready."""
    def of(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as f, open(f"/proc/{pid}/comm") as c, open(f"/proc/{pid}/wchan") as w:
            return [f"{c.read().strip()} in {w.read() or '?'}", *(l for child in f.read().split() for l in of(child))]
    found = []
    for state in sorted(glob.glob(f"{pool.run_dir}/runc/*/state.json")):
        with open(state) as s, open(f"{pool.home}/pods/{state.split('/')[-2]}/config.json") as c:
            if json.load(c).get("hostname") == name:
                found.append(f"{name}: {', '.join(of(json.load(s)['init_process_pid']))}")
    return found


def last(path, n, word=""):
    """The last n lines of a log with this word."""
    lines = []
    for log in sorted(glob.glob(path)):
        with open(log, errors="replace") as f:
            lines += [l for l in f.read().splitlines() if re.search(word, l)]
    return [re.sub(r"^\d{4}-\d\d-\d\dT([0-9:]+)\.\d+Z (?:std\w+ \w )?", r"\1 ", l) for l in lines[-n:]]


def brief(pool):
    """At most LINES lines of WIDTH columns."""
    steps = (lambda: [pods(pool)], lambda: [cluster(pool)], lambda: [asked(pool, "sinfo", "-h", "-o", "%P %t %N %E")], lambda: [asked(pool, "squeue", "-h", "-a", "-o", "%i %T %r")],
             lambda: [stand(pool, "slurmctld")], lambda: [stand(pool, "slurmdbd")],
             lambda: where(pool, "main-login-0") if "main-login-0" in lines[0] else [], lambda: last(f"{pool.home}/log/pods/slurm_*slurmctld*/slurmctld/*.log", 2),
             lambda: last(f"{pool.home}/log/operator.log", 2, " (?:WARN|ERROR) "), lambda: last(f"{pool.home}/log/bridge.log", 2, " (?:WARN|ERROR) "))
    lines = []
    for step in steps:
        try:
            lines += step()
        except Exception as e:
            lines.append(f"{type(e).__name__}: {e}")
    return [re.sub(r"\s+", " ", l)[:WIDTH] for l in lines][:LINES]
