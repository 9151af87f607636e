// A client of the NATS protocol over WebSocket: what the console needs of it and no more.
// It connects again by itself, subscribes again, and tells its owner, who reads what was missed from the log.

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const CRLF = encoder.encode('\r\n');

// Waits, in milliseconds.
const requestWait = 10000;
const connectWait = 10000;
const againFirst = 200;
const againMost = 5000;
const pingEvery = 20000;

export class NatsError extends Error {
  constructor(code, text) { super(text); this.code = code; }
}

// headersOf reads the headers of a message. The server adds its own behind those of the publisher, so the last counts.
function headersOf(bytes) {
  const lines = decoder.decode(bytes).split('\r\n');
  const out = new Map();
  const first = /^NATS\/1\.0(?: +(\d{3}))?(?: +(.*))?$/.exec(lines[0] || '');
  if (first && first[1]) out.set('Status', first[1]);
  if (first && first[2]) out.set('Description', first[2]);
  for (const line of lines.slice(1)) {
    const i = line.indexOf(':');
    if (i > 0) out.set(line.slice(0, i), line.slice(i + 1).trim());
  }
  return out;
}

export class Message {
  constructor(subject, reply, headers, data) {
    Object.assign(this, { subject, reply, headers, data });
  }
  header(name) { return (this.headers && this.headers.get(name)) || ''; }
  text() { return decoder.decode(this.data); }
  json() { return JSON.parse(this.text()); }
}

// Parser cuts the bytes of a connection into what the server says.
export class Parser {
  constructor(handle) { this.handle = handle; this.rest = new Uint8Array(0); }

  push(chunk) {
    let buffer = chunk;
    if (this.rest.length) {
      buffer = new Uint8Array(this.rest.length + chunk.length);
      buffer.set(this.rest);
      buffer.set(chunk, this.rest.length);
    }
    let at = 0;
    for (;;) {
      const end = this.lineEnd(buffer, at);
      if (end < 0) break;
      const line = decoder.decode(buffer.subarray(at, end));
      const after = this.one(line, buffer, end + 2);
      if (after < 0) break;
      at = after;
    }
    this.rest = at === buffer.length ? new Uint8Array(0) : buffer.slice(at);
  }

  lineEnd(b, from) {
    for (let i = b.indexOf(13, from); i >= 0; i = b.indexOf(13, i + 1)) {
      if (i + 1 >= b.length) return -1;
      if (b[i + 1] === 10) return i;
    }
    return -1;
  }

  // one handles a line and returns where the next begins, or -1 where bytes are missing.
  one(line, buffer, at) {
    const space = line.indexOf(' ');
    const verb = (space < 0 ? line : line.slice(0, space)).toUpperCase();
    const args = space < 0 ? '' : line.slice(space + 1).trim();
    if (verb !== 'MSG' && verb !== 'HMSG') {
      this.handle(verb, args);
      return at;
    }
    const parts = args.split(/ +/);
    const total = Number(parts[parts.length - 1]);
    const head = verb === 'HMSG' ? Number(parts[parts.length - 2]) : 0;
    if (buffer.length < at + total + 2) return -1;
    const reply = parts.length > (verb === 'HMSG' ? 4 : 3) ? parts[2] : '';
    const bytes = buffer.slice(at, at + total);
    this.handle(verb, new Message(parts[0], reply, head ? headersOf(bytes.subarray(0, head)) : null,
      bytes.subarray(head)), parts[1]);
    return at + total + 2;
  }
}

const token = () => {
  const raw = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(raw, (b) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[b & 31]).join('');
};

// Connection to a NATS server. login is {token} or {key}, a key of nkey.js. onState is called with
// 'connected', 'connecting' and 'refused', and why.
export class Connection {
  constructor(url, login, onState = () => {}) {
    Object.assign(this, { url, login, onState });
    this.subs = new Map();
    this.next = 1;
    this.waiting = new Map();
    this.inbox = `_INBOX.${token()}`;
    this.closed = false;
    this.state = 'connecting';
    this.again = againFirst;
    this.ups = 0;
    this.readiness = [];
    this.subscribe(`${this.inbox}.*`, (m) => {
      const one = this.waiting.get(m.subject);
      if (one) one.hear(m);
    });
  }

  // open connects for the first time, and fails where the server does not let this user in.
  async open() {
    await this.dial();
    this.pinger = setInterval(() => this.beat(), pingEvery);
  }

  close() {
    this.closed = true;
    clearInterval(this.pinger);
    clearTimeout(this.timer);
    if (this.ws) this.ws.close();
    this.drop(new NatsError('closed', 'signed out'));
  }

  setState(state, why) { this.state = state; this.onState(state, why); }

  dial() {
    return new Promise((resolve, reject) => {
      const protocols = ['nats.inspan'];
      if (this.login.token) protocols.push(`token.${this.login.token}`);
      let ws;
      try { ws = new WebSocket(this.url, protocols); } catch (e) { reject(new NatsError('connect', e.message)); return; }
      ws.binaryType = 'arraybuffer';
      this.ws = ws;
      let up = false;
      let greeted = false;
      let reason = new NatsError('connect', 'the station does not answer');
      const timer = setTimeout(() => ws.close(), connectWait);
      const parser = new Parser(async (verb, args, sid) => {
        if (ws !== this.ws) return;
        switch (verb) {
          case 'INFO': {
            this.info = JSON.parse(args);
            if (greeted) return;
            greeted = true;
            try { this.write(`CONNECT ${JSON.stringify(await this.hello())}\r\nPING\r\n`); } catch (e) {
              reason = new NatsError('login', e.message);
              ws.close();
            }
            return;
          }
          case 'PING': this.write('PONG\r\n'); return;
          case 'PONG':
            this.silent = false;
            if (up) return;
            up = true;
            clearTimeout(timer);
            this.again = againFirst;
            for (const [id, s] of this.subs) this.write(`SUB ${s.subject} ${id}\r\n`);
            this.ups += 1;
            this.setState('connected');
            this.readiness.splice(0).forEach((r) => r());
            resolve();
            return;
          case '-ERR': reason = this.refused(args, up) || reason; return;
          case 'MSG': case 'HMSG': {
            const s = this.subs.get(Number(sid));
            if (s) s.hear(args);
            return;
          }
          default:
        }
      });
      ws.onmessage = (e) => {
        if (ws === this.ws) parser.push(e.data instanceof ArrayBuffer ? new Uint8Array(e.data) : encoder.encode(e.data));
      };
      ws.onclose = () => {
        clearTimeout(timer);
        if (ws !== this.ws) return;
        this.drop(new NatsError('disconnected', 'the connection was lost'));
        if (!up) reject(reason);
        if (this.closed || !this.ups) return;
        this.setState(reason.code === 'login' ? 'refused' : 'connecting', reason.message);
        this.timer = setTimeout(() => this.dial().catch(() => {}), this.again * (0.75 + Math.random() / 2));
        this.again = Math.min(2 * this.again, againMost);
      };
    });
  }

  async hello() {
    const out = { verbose: false, pedantic: false, headers: true, no_responders: true, protocol: 1, echo: true,
      lang: 'inspan-console', version: '1', name: 'inspan-console' };
    const l = this.login;
    if (l.key) Object.assign(out, { nkey: l.key.public, sig: await l.key.sign(this.info.nonce || '') });
    return out;
  }

  // refused handles what the server refuses; it returns an error where that ends the connection.
  refused(text, up) {
    const what = text.replace(/^'|'$/g, '');
    const denied = /^Permissions Violation for (Publish|Subscription) to "(.*?)"/.exec(what);
    if (denied) {
      for (const one of this.waiting.values()) {
        if (denied[1] === 'Publish' && sameSubject(denied[2], one.subject)) {
          one.fail(new NatsError('denied', 'this user may not do that'));
        }
      }
      return null;
    }
    return new NatsError(/authori[sz]ation|authentication|credentials/i.test(what) || !up ? 'login' : 'connect',
      /authori[sz]ation/i.test(what) ? 'the station does not let this user in' : what);
  }

  beat() {
    if (this.state !== 'connected') return;
    if (this.silent) { this.ws.close(); return; }
    this.silent = true;
    this.write('PING\r\n');
  }

  // look is called when the page may have slept: a connection that is gone shows soon.
  look() { if (this.state === 'connected') this.write('PING\r\n'); }

  drop(error) { for (const one of [...this.waiting.values()]) one.fail(error); }

  write(text, data) {
    if (!this.ws || this.ws.readyState !== WebSocket.OPEN) return false;
    const head = encoder.encode(text);
    if (!data) { this.ws.send(head); return true; }
    const all = new Uint8Array(head.length + data.length + 2);
    all.set(head);
    all.set(data, head.length);
    all.set(CRLF, head.length + data.length);
    this.ws.send(all);
    return true;
  }

  // ready resolves once there is a connection.
  ready() {
    if (this.state === 'connected') return Promise.resolve();
    return new Promise((resolve) => this.readiness.push(resolve));
  }

  subscribe(subject, hear) {
    const id = this.next++;
    this.subs.set(id, { subject, hear });
    if (this.state === 'connected') this.write(`SUB ${subject} ${id}\r\n`);
    return () => { this.subs.delete(id); if (this.state === 'connected') this.write(`UNSUB ${id}\r\n`); };
  }

  publish(subject, data = '', { reply = '', headers = null } = {}) {
    const body = typeof data === 'string' ? encoder.encode(data) : data;
    const to = reply ? `${reply} ` : '';
    if (!headers) return this.write(`PUB ${subject} ${to}${body.length}\r\n`, body);
    const head = encoder.encode(`NATS/1.0\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n`);
    const all = new Uint8Array(head.length + body.length);
    all.set(head);
    all.set(body, head.length);
    return this.write(`HPUB ${subject} ${to}${head.length} ${all.length}\r\n`, all);
  }

  // requestMany passes on answers to a request until take returns true.
  requestMany(subject, data, take, { wait = requestWait, headers = null } = {}) {
    return new Promise((resolve, reject) => {
      const inbox = `${this.inbox}.${this.next++}`;
      let timer;
      const done = (end, value) => { clearTimeout(timer); this.waiting.delete(inbox); end(value); };
      timer = setTimeout(() => done(reject, new NatsError('timeout', 'the station did not answer in time')), wait);
      this.waiting.set(inbox, { subject,
        fail: (e) => done(reject, e),
        hear: (m) => {
          if (m.header('Status') === '503' && !m.data.length) {
            done(reject, new NatsError('no_responders', 'nothing at the station answers that'));
            return;
          }
          try { if (take(m)) done(resolve); } catch (e) { done(reject, e); }
        } });
      if (!this.publish(subject, data, { reply: inbox, headers })) {
        done(reject, new NatsError('disconnected', 'the connection was lost'));
      }
    });
  }

  async request(subject, data = '', options = {}) {
    let answer;
    await this.requestMany(subject, data, (m) => { answer = m; return true; }, options);
    return answer;
  }

  // gather returns all answers that come within some time.
  async gather(subject, data = '', wait = 500) {
    const all = [];
    try { await this.requestMany(subject, data, (m) => { all.push(m); return false; }, { wait }); } catch (e) {
      if (e.code !== 'timeout' && e.code !== 'no_responders') throw e;
    }
    return all;
  }

  // persist does a read again where the connection was lost meanwhile.
  async persist(read) {
    for (;;) {
      await this.ready();
      try { return await read(); } catch (e) { if (e.code !== 'disconnected' || this.closed) throw e; }
    }
  }
}

// sameSubject compares the subject of a refusal with that of a request: the server names it as it is mapped.
function sameSubject(refused, asked) {
  return refused === asked || asked.startsWith('$JS.API.') && refused.startsWith('$JS.') &&
    refused.endsWith(asked.slice('$JS.'.length));
}

export { token };
