"""Runs a step of a run on one node, whose program writes checkpoints to the node's own disk: what was kept is there
before the program starts, and what it writes is kept while it runs (docs/researcher.md).

usage: checkpoints.py KEPT PROGRAM [ARGUMENT...]   in the run's directory; TANDEM_CHECKPOINTS_KEEP: how many stay

An entry of $TANDEM_CHECKPOINTS, a file or a directory, is a checkpoint. It is copied to KEPT under another name, and
renamed when all of it is on the disk there, so that KEPT has whole ones only. One is copied when nothing of it
changed between two looks; and once more at the end, when the program ended well: after any other end, what it wrote
at the last moment may be half of something."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

LOOK_S = 1
AGAIN_S = 30  # what could not be kept: a disk that is full is not written to each second
SMALL = 65536  # what points to the newest one, say: it is kept, and not counted
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def say(words):
    print(f"tandem: {words}", file=sys.stderr, flush=True)


def walk(path):
    """Every file of it, and it itself."""
    yield path
    if path.is_dir() and not path.is_symlink():
        for sub in sorted(path.iterdir()):
            yield from walk(sub)


def stamp(path):
    """Changes when anything of it does; None: it is going."""
    try:
        return tuple((str(p), s.st_mode, s.st_size, s.st_mtime_ns, s.st_ino) for p in walk(path) for s in [p.lstat()])
    except OSError:
        return None


def when(path):
    return max(p.lstat().st_mtime_ns for p in walk(path))


def checkpoints(directory):
    """Its entries, the oldest first. A name that begins with a dot or says that it is half of something is none."""
    found = []
    for p in list(directory.iterdir()):
        if not p.name.startswith(".") and not p.name.endswith((".tmp", ".part", ".partial")):
            try:
                found.append((when(p), p))
            except OSError:
                pass  # it is going
    return [p for _, p in sorted(found)]


def synced(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path):
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:  # a directory that its owner may not write, copied as it is
        path.chmod(0o700)
        for at, directories, _ in os.walk(path):
            for d in directories:
                if not os.path.islink(os.path.join(at, d)):
                    os.chmod(os.path.join(at, d), 0o700)
        shutil.rmtree(path)


def copy(of, to):
    """Copies a file or a directory; links as links."""
    if of.is_dir() and not of.is_symlink():
        shutil.copytree(of, to, symlinks=True)
    else:
        shutil.copy2(of, to, follow_symlinks=False)
    for p in walk(to):
        if not p.is_symlink():
            synced(p)


class Keeper:
    def __init__(self, local, kept, most):
        self.local, self.kept, self.most = local, kept, most
        self.copied, self.seen, self.again, self.said = {}, {}, {}, set()

    def say_once(self, words):
        if words not in self.said:
            say(words)
            self.said.add(words)

    def tidy(self):
        """After a run of this that was cut anywhere: halves go; what was to be replaced comes back where nothing replaced it."""
        for p in list(self.kept.iterdir()):
            if p.name.startswith(".new-"):
                remove(p)
            elif p.name.startswith(".old-"):
                was = self.kept / p.name.removeprefix(".old-")
                if was.exists() or was.is_symlink():
                    remove(p)
                else:
                    p.rename(was)

    def restore(self):
        found = checkpoints(self.kept)
        for p in found:
            copy(p, self.local / p.name)
            self.copied[p.name] = stamp(self.local / p.name)
        if found:
            say(f"{len(found)} of {self.kept} are back in {self.local}, the newest is {found[-1].name}.")

    def keep(self, p, now):
        self.kept.mkdir(parents=True, exist_ok=True)
        new, old, to = self.kept / f".new-{p.name}", self.kept / f".old-{p.name}", self.kept / p.name
        remove(new)
        try:
            copy(p, new)
            changed = stamp(p) != now
        except OSError:
            remove(new)
            raise
        if changed:
            remove(new)
            return
        if to.is_dir() and not to.is_symlink():
            remove(old)
            to.rename(old)
        new.rename(to)
        synced(self.kept)
        remove(old)
        self.copied[p.name] = now

    def prune(self):
        large = [p for p in checkpoints(self.kept) if sum(q.lstat().st_size for q in walk(p)) > SMALL]
        for p in large[:-self.most]:
            remove(p)

    def look(self, all_whole=False):
        """True: everything that it shall keep is kept."""
        seen, fine, now_s = {}, True, time.monotonic()
        try:
            found = checkpoints(self.local)
        except OSError as e:  # the program may make it anew
            self.say_once(f"there is no directory of checkpoints: {e}")
            found = []
        for p in found:
            now = seen[p.name] = stamp(p)
            if now is None or self.copied.get(p.name) == now or not (all_whole or self.seen.get(p.name) == now):
                continue
            if not all_whole and now_s < self.again.get(p.name, now_s):
                continue
            try:
                self.keep(p, now)
            except OSError as e:
                fine = False
                self.again[p.name] = time.monotonic() + AGAIN_S
                self.say_once(f"the checkpoint {p.name} could not be kept: {e}")
        self.seen = seen
        try:
            self.prune()
        except FileNotFoundError:
            pass  # it is made with the next one
        except OSError as e:
            self.say_once(f"old checkpoints could not be removed: {e}")
        return fine

    def run(self, over):
        while not over.wait(LOOK_S):
            self.look()


def drop(local):
    try:
        remove(local)
    except OSError:
        pass  # the node tidies up after itself


def place():
    """An empty directory on the node's disk, that of this job's run before where that was cut. Its name is easy to guess, and /tmp may be everybody's."""
    tmp = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
    local = tmp / f"tandem-checkpoints-{os.environ['SLURM_JOB_ID']}"
    if local.is_dir() and not local.is_symlink() and local.stat().st_uid == os.getuid():
        drop(local)
    try:
        local.mkdir(mode=0o700)
        return local
    except FileExistsError:
        return pathlib.Path(tempfile.mkdtemp(prefix=local.name + "-", dir=tmp))


def main():
    kept, program = pathlib.Path(sys.argv[1]), sys.argv[2:]
    local = None
    try:
        local = place()
        keeper = Keeper(local, kept, int(os.environ["TANDEM_CHECKPOINTS_KEEP"]))
        kept.mkdir(parents=True, exist_ok=True)
        keeper.tidy()
        keeper.restore()
    except (OSError, shutil.Error) as e:
        say(f"the checkpoints of {kept} could not be brought to this node, and without them the program would begin anew: {e}")
        if local:
            drop(local)
        sys.exit(1)

    os.environ["TANDEM_CHECKPOINTS"] = str(local)
    child, early = None, []  # signals that came before it was there
    for s in FORWARDED:
        signal.signal(s, lambda number, _: child.send_signal(number) if child else early.append(number))
    child = subprocess.Popen(program)
    for number in early:
        child.send_signal(number)
    over = threading.Event()
    thread = threading.Thread(target=keeper.run, args=(over,))
    thread.start()
    code = child.wait()
    over.set()
    thread.join()
    if not keeper.look(all_whole=code == 0):
        say("the last checkpoints are lost with this node's disk.")
    drop(local)
    if code < 0:
        if -code != signal.SIGKILL:  # nobody may change what that does
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
