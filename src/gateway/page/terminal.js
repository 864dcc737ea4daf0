// The terminal of a session: bytes of the keyboard go to the session, what it writes comes back
// (src/standin/terminal.c). When the connection is cut it is made again, and the shell is still there.
"use strict";

const STEP = 16384; // most bytes of one message: a paste is sent in pieces
const said = document.getElementById("said");
const term = new Terminal({cursorBlink: true, scrollback: 10000, screenReaderMode: true});
const fit = new FitAddon.FitAddon();
const encoder = new TextEncoder();
let socket = null, tries = 0;

term.loadAddon(fit);
term.open(document.getElementById("terminal"));
fit.fit();
term.focus();

function say(text) {
  said.textContent = text;
  said.hidden = !text;
}

function size() {
  if (socket && socket.readyState === WebSocket.OPEN) socket.send(`${term.cols}x${term.rows}`);
}

function connect() {
  const s = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${location.pathname.replace(/[^/]*$/, "")}tty`);
  s.binaryType = "arraybuffer";
  socket = s;
  s.onopen = () => {
    tries = 0;
    say("");
    term.reset();
    size();
  };
  s.onmessage = (e) => term.write(new Uint8Array(e.data));
  s.onclose = (e) => {
    if (e.code === 1000) {
      say("The shell has ended. ");
      const back = document.createElement("a");
      back.href = "/#sessions";
      back.textContent = "Sessions";
      said.append(back);
      return;
    }
    say("The session does not answer; this page tries on.");
    setTimeout(connect, Math.min(10000, 500 * 2 ** tries++));
  };
}

term.onData((text) => {
  const bytes = encoder.encode(text);
  for (let at = 0; at < bytes.length && socket.readyState === WebSocket.OPEN; at += STEP) socket.send(bytes.subarray(at, at + STEP));
});
term.onBinary((text) => {
  if (socket.readyState === WebSocket.OPEN) socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0)));
});
term.onResize(size);
addEventListener("resize", () => fit.fit());
connect();
