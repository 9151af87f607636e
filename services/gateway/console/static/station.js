// What the console reads and writes at a station: rows of buckets, the log, objects, tasks, controls and answers.
// All of it is what any client of NATS may do with the rights of its user.
import { NatsError, token } from './nats.js';

const api = '$JS.API.';
const page = 256;
const pageBytes = 2 << 20;
const together = 512;
const firstRows = 48; // a screen
const maxObject = 4 << 20;
// answerWait is how long the console waits to see what came of what it sent.
const answerWait = 15000;

export class Station {
  constructor(conn, about) {
    Object.assign(this, { conn, name: about.station, about });
    this.log = `LOG_${this.name}`;
  }

  subject(rest) { return `station.${this.name}.${rest}`; }

  // seen passes on every event of every run as it is stored: run, kind, position in the log, and the message.
  seen(hear) {
    return this.conn.subscribe(this.subject('run.*.stream'), (m) => {
      hear(m.subject.split('.')[3], kindOf(m.header('Nats-Subject')), Number(m.header('Nats-Sequence')), m);
    });
  }

  // live passes on what is written in a run and not stored, also what was written before this.
  live(run, hear) {
    const take = (m) => { try { hear(m.json()); } catch (e) { /* not of the station */ } };
    const stop = this.conn.subscribe(this.subject(`run.${run}.live`), take);
    const inbox = `${this.conn.inbox.replace('_INBOX.', '_INBOX.L')}.${token()}`;
    const stopEarlier = this.conn.subscribe(inbox, take);
    this.conn.publish(this.subject(`run.${run}.sofar`), '', { reply: inbox });
    return () => { stop(); stopEarlier(); };
  }

  // direct reads a page of a stream.
  async direct(stream, ask) {
    const out = { messages: [], pending: 0 };
    let last = 0;
    await this.conn.requestMany(`${api}DIRECT.GET.${stream}`, JSON.stringify(ask), (m) => {
      const status = m.header('Status');
      if (!m.header('Nats-Subject')) {
        if (status === '404') return true;
        if (status !== '204') throw new NatsError('server', `the server answers ${status} ${m.header('Description')}`);
        if (Number(m.header('Nats-Last-Sequence')) !== last) throw new NatsError('torn', 'a page of the log came in part');
        out.pending = Number(m.header('Nats-Num-Pending'));
        return true;
      }
      const before = Number(m.header('Nats-Last-Sequence'));
      if (before !== last) throw new NatsError('torn', 'a page of the log came in part');
      last = Number(m.header('Nats-Sequence'));
      out.messages.push({ seq: last, subject: m.header('Nats-Subject'), message: m });
      return false;
    });
    return out;
  }

  // whole reads a page again where it came in part.
  whole(stream, ask) {
    return this.conn.persist(async () => {
      for (let tries = 0; ; tries++) {
        try { return await this.direct(stream, ask); } catch (e) { if (e.code !== 'torn' || tries > 4) throw e; }
      }
    });
  }

  // events reads the events of a run behind a position of the log, page by page.
  async events(run, after, take, going = () => true) {
    for (;;) {
      const got = await this.whole(this.log, { seq: after + 1, next_by_subj: this.subject(`run.${run}.evt.*.*`), batch: page,
        max_bytes: pageBytes });
      if (!going()) return after;
      for (const m of got.messages) { after = m.seq; take(m.message.json(), m.seq, kindOf(m.subject)); }
      if (!got.messages.length || !got.pending) return after;
      await new Promise((r) => setTimeout(r));
    }
  }

  // event reads one event by its position.
  async event(seq) {
    const m = await this.conn.persist(() => this.conn.request(`${api}DIRECT.GET.${this.log}`, JSON.stringify({ seq })));
    if (m.header('Status') === '404') throw new NatsError('missing', 'the log does not have this event any more');
    return m.json();
  }

  // ofKind reads all events of one kind of a run.
  async ofKind(run, kind) {
    const all = [];
    for (let after = 0; ;) {
      const got = await this.whole(this.log, { seq: after + 1, next_by_subj: this.subject(`run.${run}.evt.${kind}`), batch: 64,
        max_bytes: pageBytes });
      for (const m of got.messages) { after = m.seq; all.push(m.message.json()); }
      if (!got.messages.length || !got.pending) return all;
    }
  }

  // row reads a row of a bucket; undefined where there is none.
  async row(bucket, key) {
    const subject = `$KV.${bucket}.${this.name}.${key}`;
    const m = await this.conn.persist(() => this.conn.request(`${api}DIRECT.GET.KV_${bucket}.${subject}`));
    if (m.header('Nats-Subject') !== subject || m.header('KV-Operation')) return undefined;
    try { return m.json(); } catch (e) { return undefined; }
  }

  // keys lists the keys below a prefix, the deleted ones too.
  async keys(bucket, prefix) {
    const base = `$KV.${bucket}.${this.name}.`;
    const names = new Set();
    for (let offset = 0; ;) {
      const ask = JSON.stringify({ subjects_filter: `${base}${prefix}>`, offset });
      const m = await this.conn.persist(() => this.conn.request(`${api}STREAM.INFO.KV_${bucket}`, ask));
      const got = m.json();
      if (got.error) throw new NatsError('server', got.error.description || 'the server refuses to list');
      const found = Object.keys((got.state && got.state.subjects) || {});
      found.forEach((s) => names.add(s.slice(base.length)));
      offset += found.length;
      if (!found.length || offset >= (got.total || 0)) return [...names];
    }
  }

  // rows reads all rows below a prefix, some at a time, and hands on each batch.
  async rows(bucket, prefix, take, going = () => true, order = (keys) => keys) {
    const keys = order(await this.keys(bucket, prefix));
    for (let at = 0, n = firstRows; at < keys.length;) {
      if (!going()) return;
      const got = await Promise.all(keys.slice(at, at + n).map((k) => this.row(bucket, k)));
      at += n;
      n = together;
      take(got.filter((v) => v !== undefined));
    }
  }

  async list(bucket, prefix) {
    const all = [];
    await this.rows(bucket, prefix, (some) => all.push(...some));
    return all;
  }

  runs(take, going) { return this.rows(this.about.state, 'run.', take, going, (keys) => keys.sort().reverse()); }

  run(id) { return this.row(this.about.state, `run.${id}`); }

  // object fetches what an event refers to and checks its digest. run is given for an artifact that expires.
  async object(ref, run) {
    const digest = ref.sha256 || ref.digest;
    if (!/^[0-9a-f]{64}$/.test(digest || '')) throw new NatsError('missing', 'there is no such object');
    if (ref.size > maxObject) throw new NatsError('large', `it has ${ref.size} bytes: inspan artifacts fetches it`);
    const bucket = run ? 'harness-artifacts' : this.about.files;
    const name = run ? `${this.name}.${run}.${digest}` : `${this.name}.${digest}`;
    const meta = `$O.${bucket}.M.${btoa(name).replace(/\+/g, '-').replace(/\//g, '_')}`;
    const found = await this.whole(`OBJ_${bucket}`, { seq: 1, next_by_subj: meta, batch: 8 });
    for (const m of found.messages) {
      const { nuid } = m.message.json();
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(nuid || '')) continue;
      const parts = [];
      for (let after = 0; ;) {
        const got = await this.whole(`OBJ_${bucket}`, { seq: after + 1, next_by_subj: `$O.${bucket}.C.${nuid}`, batch: 16,
          max_bytes: 8 << 20 });
        for (const p of got.messages) { after = p.seq; parts.push(p.message.data); }
        if (!got.messages.length || !got.pending) break;
      }
      const data = new Uint8Array(await new Blob(parts).arrayBuffer());
      if (!globalThis.crypto || !crypto.subtle) return data; // not at https: or loopback
      const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
      if (Array.from(sum, (b) => b.toString(16).padStart(2, '0')).join('') === digest) return data;
    }
    throw new NatsError('missing', found.messages.length ? 'the stored bytes are damaged' : 'it is not kept any more');
  }

  async text(ref, run) { return new TextDecoder().decode(await this.object(ref, run)); }

  // send publishes a message and waits until the station has acted on it or refused it: seen is asked about each event of
  // the run. The token finds the refusal, which is in the dead letters.
  async send(subject, message, run, mark, seen) {
    let settle;
    const outcome = new Promise((resolve, reject) => { settle = { resolve, reject }; });
    outcome.catch(() => {}); // the request below may fail first
    const stops = [
      this.conn.subscribe('station.*.dead.>', (m) => {
        try {
          const d = m.json();
          if (d.token === mark) settle.reject(new NatsError(d.code || 'refused', [d.reason, d.hint].filter(Boolean).join(': ')));
        } catch (e) { /* not of the station */ }
      }),
      this.conn.subscribe(this.subject(`run.${run}.stream`), (m) => {
        let e;
        try { e = m.json(); } catch (x) { return; }
        if (seen(kindOf(m.header('Nats-Subject')), e.data || {})) settle.resolve(e);
      }),
    ];
    const timer = setTimeout(() => settle.reject(new NatsError('timeout',
      'it was sent, and the station has not acted on it yet: look at the run before you send it again')), answerWait);
    try {
      const m = await this.conn.request(subject, JSON.stringify(message), { headers: { 'Inspan-Token': mark } });
      const ack = m.json();
      if (ack.error) throw new NatsError('refused', ack.error.description || 'the station takes nothing at the moment');
      return await outcome;
    } finally {
      clearTimeout(timer);
      stops.forEach((stop) => stop());
    }
  }

  // answer answers a gate. By is the name of the user, where a key proves it.
  async answer(run, gate, answer, by) {
    const subject = this.subject(`run.${run}.gate.${gate}`) + (by ? `.${by}` : '');
    const words = { approve: ['gate.approved', 'gate.voted'], reject: ['gate.rejected'] }[answer.decision];
    return this.send(subject, answer, run, token(), (kind, d) => words.includes(kind) && d.gate_id === gate);
  }

  control(run, action, reason) {
    const words = { pause: ['run.paused'], resume: ['run.resumed'], stop: ['run.stopping', 'run.failed', 'run.completed'] }[action];
    const body = reason ? { action, reason } : { action };
    return this.send(this.subject(`run.${run}.control`), body, run, token(), (kind) => words.includes(kind));
  }

  // start gives an agent a task and returns the id of the run.
  async start(task) {
    const id = `run-${token().slice(0, 10).toLowerCase()}`;
    await this.send(this.subject('task'), { ...task, id, stream: true }, id, id, (kind) => kind.startsWith('run.'));
    return id;
  }

  sessions() { return this.list('harness-sessions', 'session.'); }
  agents() { return this.list('harness-config', 'agent.'); }

  // history reads what was said in a session, the oldest first: each part names the one before it.
  async history(ref) {
    const parts = [];
    for (let at = ref; at && parts.length < 500; at = parts[0].prev) parts.unshift(JSON.parse(await this.text(at)));
    return parts.flatMap((p) => p.messages || []);
  }
}

export function kindOf(subject) {
  const i = subject.indexOf('.evt.');
  return i < 0 ? '' : subject.slice(i + 5);
}
