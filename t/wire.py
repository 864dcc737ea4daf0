"""The network between two programs, which can be cut and mended."""
import contextlib
import socket
import struct
import threading


class Wire:
    """A proxy on 127.0.0.1. While it is cut, what was connected is reset and nobody is let in."""

    def __init__(self, target):
        self.target, self.whole, self.lock, self.open = target, True, threading.Lock(), set()
        self.most, self.wider, self.stuck = None, threading.Condition(self.lock), 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                a, _ = self.server.accept()
            except OSError:
                return
            with self.lock:
                whole = self.whole
            try:
                if not whole:
                    raise OSError("cut")
                host, port = self.target.rsplit(":", 1)
                b = socket.create_connection((host, int(port)))
            except OSError:
                reset(a)
                continue
            with self.lock:
                self.open |= {a, b}
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self.copy, args=(x, y, y is b), daemon=True).start()

    def copy(self, a, b, up):
        sent = 0
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                sent += len(data) if up else 0
                with self.wider:
                    while self.most is not None and sent > self.most and a in self.open:
                        self.stuck += 1
                        self.wider.wait()
                        self.stuck -= 1
                b.sendall(data)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            with self.lock:
                self.open.discard(s)

    def cut(self):
        with self.lock:
            self.whole, cut = False, list(self.open)
            self.open.clear()
            self.wider.notify_all()
        for s in cut:
            reset(s)

    def narrow(self, most):
        """From now on no connection brings more than so many bytes to the target; None: all that comes."""
        with self.lock:
            self.most = most
            self.wider.notify_all()

    def mend(self):
        with self.lock:
            self.whole = True

    def close(self):
        self.server.close()
        self.cut()


def reset(s):
    with contextlib.suppress(OSError):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        s.close()
