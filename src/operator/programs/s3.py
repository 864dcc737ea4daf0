"""What lies under a prefix of an S3 bucket. Its text stands before that of dataset.py or data.py, which call s3_fetch(). Requests are signed (AWS Signature
Version 4) and paths name the bucket, which every server of S3 knows. What the server says is not believed: names lead nowhere else, and no more is read than
was listed. The keys are in no word that is said."""
import concurrent.futures
import errno
import hashlib
import hmac
import http.client
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

S3_LIST_MOST = 8 << 20  # bytes of one page of a list
S3_OBJECTS_MOST = 500_000  # what is known of them must fit into a pod's memory
S3_AT_ONCE = 8
S3_TRIES = 5
S3_BLOCK = 1 << 20


class S3Wrong(Exception):
    """Another try would fare no better."""


class S3Stay(urllib.request.HTTPRedirectHandler):
    """What is signed for one server is sent to no other."""

    def redirect_request(self, *_):
        return None


class S3:
    def __init__(self, endpoint, region, bucket, keys):
        """keys: (id, secret, token or None); None: requests are not signed."""
        self.at, self.region, self.bucket, self.keys = urllib.parse.urlsplit(endpoint), region, bucket, keys
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), S3Stay())

    def signed(self, path, query, now, more):
        """The headers of a GET. `path` and `query` are as they are sent."""
        day, moment, nothing = time.strftime("%Y%m%d", now), time.strftime("%Y%m%dT%H%M%SZ", now), hashlib.sha256(b"").hexdigest()
        headers = {"host": self.at.netloc, "x-amz-content-sha256": nothing, "x-amz-date": moment}
        if not self.keys:
            return {**headers, **more}
        key, secret, token = self.keys
        if token:
            headers["x-amz-security-token"] = token
        names = ";".join(sorted(headers))
        asked = "\n".join(("GET", path, query, *(f"{n}:{headers[n]}" for n in sorted(headers)), "", names, nothing))
        scope = f"{day}/{self.region}/s3/aws4_request"
        text, by = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}", f"AWS4{secret}".encode()
        for part in (day, self.region, "s3", "aws4_request", text):
            by = hmac.digest(by, part.encode(), "sha256")
        return {**headers, **more, "Authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={by.hex()}"}

    def get(self, key, query=None, **more):
        """The open reply."""
        path = "/".join((self.at.path.rstrip("/"), urllib.parse.quote(f"{self.bucket}/{key}" if key else self.bucket, safe="/-_.~")))
        words = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in sorted((query or {}).items()))
        url = urllib.parse.urlunsplit((self.at.scheme, self.at.netloc, path, words, ""))
        return self.opener.open(urllib.request.Request(url, headers=self.signed(path, words, time.gmtime(), more)), timeout=60)

    def tried(self, what, f, got=lambda: 0):
        """f() until it comes through; it may go on where it was. got(): how far it is: a server that begins anew each time comes no further."""
        tries, most = 0, got()
        while True:
            try:
                return f()
            except urllib.error.HTTPError as e:
                why = s3_refusal(e)
                if e.code in (301, 302, 307, 308):
                    raise S3Wrong(f"{what}: the server sends elsewhere ({why}): name the endpoint and the region where the bucket lies") from None
                if e.code in (401, 403):
                    raise S3Wrong(f"{what}: {why}: see that the keys are right and may list the bucket and read it{'' if self.keys else '; none were given'}") from None
                if e.code == 412:
                    raise OSError(f"{what}: it has changed while it was fetched") from None
                if e.code < 500 and e.code not in (408, 429):
                    raise S3Wrong(f"{what}: {why}") from None
            except (OSError, http.client.HTTPException) as e:
                if getattr(e, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise
                why = getattr(e, "reason", None) or e
            tries, most = (1, got()) if got() > most else (tries + 1, most)
            if tries == S3_TRIES:
                raise OSError(f"{what}: {why}")
            print(f"{what}: {why}; once more", flush=True)
            time.sleep(min(1 << tries, 30))

    def page(self, prefix, token):
        query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
        with self.get("", query) as r:
            text = r.read(S3_LIST_MOST + 1)
        if len(text) > S3_LIST_MOST:
            raise S3Wrong(f"bucket {self.bucket}: a page of its list is larger than {S3_LIST_MOST} bytes")
        try:
            root = xml.etree.ElementTree.fromstring(text)
        except (xml.etree.ElementTree.ParseError, ValueError) as e:  # the last: an encoding that is not known
            raise S3Wrong(f"bucket {self.bucket}: its list is no XML ({e}); is this address a server of S3?") from None
        for e in root.iter():
            e.tag = e.tag.rpartition("}")[2]
        if root.tag != "ListBucketResult":
            raise S3Wrong(f"bucket {self.bucket}: no list of objects comes; is this address a server of S3?")
        found = [(c.findtext("Key") or "", c.findtext("Size") or "0", (c.findtext("ETag") or "").strip('"')) for c in root.iter("Contents")]
        for key, size, etag in found:
            if not (size.isascii() and size.isdigit() and len(size) <= 18):  # less than nothing would make room for others
                raise S3Wrong(f"object {key}: its size is \"{size[:40]}\"")
            if not (etag.isascii() and etag.isprintable()):
                raise S3Wrong(f"object {key}: its ETag cannot be one")
        found = [(key, int(size), etag) for key, size, etag in found]
        return found, root.findtext("NextContinuationToken") if root.findtext("IsTruncated") == "true" else None

    def list(self, prefix):
        """(key, size, ETag) of each object."""
        token, seen = None, set()
        while True:
            found, token = self.tried(f"bucket {self.bucket}", lambda t=token: self.page(prefix, t))
            yield from found
            if not token:
                return
            mark = hashlib.sha256(token.encode(errors="replace")).digest()
            if mark in seen or len(seen) == S3_OBJECTS_MOST:
                raise S3Wrong(f"bucket {self.bucket}: its list has no end")
            seen.add(mark)

    def download(self, key, size, etag, to):
        """Goes on where a cut left it; believed when it has the size that was listed, and the MD5 where the ETag is one."""
        def once():
            with open(to, "ab") as f:
                at = f.tell()
                if not size:
                    return False
                if at >= size:  # nobody has looked whether it is right
                    f.truncate(at := 0)
                more = {"If-Match": f'"{etag}"', **({"Range": f"bytes={at}-"} if at else {})}
                with self.get(key, **more) as r:
                    if at and r.status != 206:
                        f.truncate(at := 0)
                    plain = (r.headers.get("x-amz-server-side-encryption") or "AES256") == "AES256" and not r.headers.get("x-amz-server-side-encryption-customer-algorithm")
                    while at < size and (block := r.read1(min(S3_BLOCK, size - at))):
                        f.write(block)
                        f.flush()  # a pod that is killed leaves what it had
                        at += len(block)
                if at < size:
                    raise ConnectionError(f"{at} of {size} bytes came")
                return plain
        what = f"object {key}"
        plain = self.tried(what, once, lambda: os.path.getsize(to) if os.path.exists(to) else 0)
        # Not that of an object of several parts, or of one that the server keeps under a key of the customer's.
        if plain and len(etag) == 32 and all(c in "0123456789abcdef" for c in etag):
            with open(to, "rb") as f:
                if hashlib.file_digest(f, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() != etag:
                    os.unlink(to)
                    raise OSError(f"{what}: what came is not what its ETag says")


def s3_refusal(e):
    """What the server says, in its own words, of which some carry what was signed: only these two are taken."""
    try:
        root = xml.etree.ElementTree.fromstring(e.read(1 << 16))
        words = " ".join(f"{root.findtext('Code') or ''}: {root.findtext('Message') or ''}".split())
    except (OSError, http.client.HTTPException, xml.etree.ElementTree.ParseError, ValueError):
        words = ""
    return f"the server says {e.code} {words[:150] or e.reason}"


def s3_keys(read):
    """read(name): the text of one, or None."""
    key, secret = read("accessKeyID"), read("secretAccessKey")
    if not key and not secret:
        return None
    if not key or not secret:
        raise S3Wrong("the keys: accessKeyID and secretAccessKey go together")
    said = {"accessKeyID": key.strip(), "sessionToken": (read("sessionToken") or "").strip()}
    for name, text in said.items():  # http.client refuses such a header in words that have all of it
        if not (text.isascii() and text.isprintable()) or " " in text:
            raise S3Wrong(f"the keys: {name} has a character that it cannot have, perhaps the end of a line")
    return said["accessKeyID"], secret.strip(), said["sessionToken"] or None


def s3_place(key, prefix):
    """Where it lies below the prefix; None: it only stands for a directory."""
    name = key[len(prefix):]
    if not key.startswith(prefix):
        raise S3Wrong(f"object {key}: it is not below the prefix that was asked for")
    if not name or name.endswith("/"):
        return None
    if any(p in ("", ".", "..") or len(p.encode()) > 255 for p in name.split("/")) or "\0" in name or len(name.encode()) > 3000:
        raise S3Wrong(f"object {key}: no file can have this name")
    return name


def s3_fetch(s3, prefix, own, tree, room):
    """All of it to `tree`. `own`: a directory where each object lies until all are there, and that a later call goes on with. room.take(bytes, entries) says
    when it is too much."""
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    os.makedirs(own, exist_ok=True)
    wanted, dirs = {}, set()
    for key, size, etag in s3.list(prefix):
        room.take(size, 1)
        if (name := s3_place(key, prefix)) is None:
            continue
        wanted[name] = (key, size, etag, hashlib.sha256(f"{key}\n{etag}\n{size}".encode()).hexdigest())
        at = name
        while (at := os.path.dirname(at)) and at not in dirs:
            room.take(0, 1)
            dirs.add(at)
        if len(wanted) > S3_OBJECTS_MOST or len(dirs) > S3_OBJECTS_MOST:
            raise S3Wrong(f"bucket {s3.bucket}: more than {S3_OBJECTS_MOST} objects or directories: pack them into one file, and name it as http with unpack, or declare parts of the prefix")
    if not wanted:
        raise S3Wrong(f"bucket {s3.bucket}: there is nothing below the prefix \"{prefix}\"")
    for name in sorted(dirs & wanted.keys()):
        raise S3Wrong(f"object {prefix}{name}: others lie below it, so it would be a file and a directory")
    there = {file for *_, file in wanted.values()}
    for old in os.listdir(own):  # of objects that have changed
        if old.removesuffix(".part") not in there:
            os.unlink(f"{own}/{old}")

    left, lock, failed = iter(wanted.values()), threading.Lock(), threading.Event()

    def work():
        while not failed.is_set():
            with lock:
                key, size, etag, file = next(left, (None,) * 4)
            if key is None:
                return
            try:
                # After a crash of the machine a name may be there, and not all of its bytes.
                if not os.path.exists(f"{own}/{file}") or os.path.getsize(f"{own}/{file}") != size:
                    s3.download(key, size, etag, f"{own}/{file}.part")
                    os.rename(f"{own}/{file}.part", f"{own}/{file}")
            except BaseException:
                failed.set()
                raise
    with concurrent.futures.ThreadPoolExecutor(S3_AT_ONCE) as many:
        tasks = [many.submit(work) for _ in range(S3_AT_ONCE)]
    for t in tasks:
        t.result()
    for at in sorted(dirs):
        os.mkdir(f"{tree}/{at}")
    for name, (*_, file) in wanted.items():
        os.link(f"{own}/{file}", f"{tree}/{name}")
