"""A bad network between one role and the API: a TLS proxy that answers some requests itself, loses
the replies of writes that took effect, sends half of a reply, and cuts watches. A seed decides
what it does; `done` counts it."""
import collections
import http.client
import http.server
import random
import socket
import ssl
import threading
import time

STATUS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


class Proxy:
    def __init__(self, pool, user, seed=1, rate=0.25):
        self.pool, self.user, self.rate, self.rng, self.lock = pool, user, rate, random.Random(seed), threading.Lock()
        self.done, self.conf = collections.Counter(), f"{pool.home}/kubeconfig/{user}.conf"
        pki = f"{pool.home}/pki"
        self.upstream = ssl.create_default_context(cafile=f"{pki}/ca.crt")
        self.upstream.load_cert_chain(f"{pki}/{user}.crt", f"{pki}/{user}.key")
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                proxy.serve(self)
            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # the client closed the connection

        self.server = Server(("127.0.0.1", 0), Handler)
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(f"{pki}/apiserver.crt", f"{pki}/apiserver.key")
        self.server.socket = ctx.wrap_socket(self.server.socket, server_side=True)

    def __enter__(self):
        """From its next start on, the role talks to the API through this proxy."""
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.text = open(self.conf).read()
        old = f"https://127.0.0.1:{self.pool.instance['apiPort']}"
        assert old in self.text
        with open(self.conf, "w") as f:
            f.write(self.text.replace(old, f"https://127.0.0.1:{self.server.server_port}"))
        return self

    def __exit__(self, *_):
        with open(self.conf, "w") as f:
            f.write(self.text)
        self.server.shutdown()
        self.server.server_close()

    def draw(self, method, watch):
        """The fault for this request. None: no fault."""
        ways = ["cut", "cut", "cut", "410", "429", "500"] if watch else ["429", "500", "half", "slow"] if method == "GET" else ["409", "429", "500", "half", "lose", "slow"]
        with self.lock:
            way = self.rng.choice(ways) if watch or self.rng.random() < self.rate else None  # every watch gets one
            if way:
                self.done[way] += 1
        return way

    def serve(self, h):
        body = h.rfile.read(int(h.headers.get("Content-Length") or 0))
        watch = "watch=" in h.path
        way = self.draw(h.command, watch)
        if way and way.isdigit():
            text = (f'{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{STATUS[int(way)]}","code":{way},'
                    f'"message":"a fault of the test: {way}"}}').encode()
            h.send_response(int(way))
            h.send_header("Content-Type", "application/json")
            h.send_header("Content-Length", str(len(text)))
            h.end_headers()
            h.wfile.write(text)
            return
        up = http.client.HTTPSConnection("127.0.0.1", self.pool.instance["apiPort"], context=self.upstream, timeout=60)
        try:
            up.request(h.command, h.path, body or None, {k: v for k, v in h.headers.items() if k.lower() not in ("host", "connection", "content-length", "expect")})
            r = up.getresponse()
            if watch:
                self.stream(h, r, way)
                return
            text = r.read()
        except OSError:
            return self.hang_up(h)
        finally:
            up.close()
        if way == "lose":
            return self.hang_up(h)
        if way == "slow":
            time.sleep(self.rng.random())  # this is the fault itself; synchronises nothing
        h.send_response(r.status)
        h.send_header("Content-Type", r.getheader("Content-Type", "application/json"))
        h.send_header("Content-Length", str(len(text)))
        h.end_headers()
        h.wfile.write(text[:len(text) // 2] if way == "half" else text)
        if way == "half":
            self.hang_up(h)

    def stream(self, h, r, way):
        """Passes a watch on. cut: ends it after some events, in the middle of one."""
        h.send_response(r.status)
        h.send_header("Content-Type", "application/json")
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        left = self.rng.randint(0, 20) if way == "cut" else -1
        while left != 0:
            line = r.readline()
            if not line:
                break
            left -= 1
            part = line[:len(line) // 2] if left == 0 else line
            h.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            h.wfile.flush()
        self.hang_up(h)

    @staticmethod
    def hang_up(h):
        h.close_connection = True
        try:
            h.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
