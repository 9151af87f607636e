// The tree of a run, folded from its events. Each node knows at which event it began and how its status changed, so the
// tree at any event is a look at what is there, and no second fold. Texts are cut: a long run must fit, and the whole
// text is in the event, which a node knows by its position.

const cut = 400;

export function brief(text, most = cut) {
  const line = String(text === undefined || text === null ? '' : text);
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

// inputOf says in a line what a call is given.
export function inputOf(input) {
  if (input === undefined || input === null) return '';
  if (typeof input === 'string') { try { return inputOf(JSON.parse(input)); } catch (e) { return brief(input, 160); } }
  if (typeof input !== 'object') return brief(input, 160);
  for (const k of ['command', 'path', 'file_path', 'pattern', 'url', 'query', 'task', 'agent']) {
    if (typeof input[k] === 'string') return brief(input[k], 160);
  }
  const keys = Object.keys(input);
  return keys.length ? brief(JSON.stringify(input), 160) : '';
}

// asksFor says in a line what a gate is about.
export function asksFor(g) {
  const p = g.proposal || {};
  return (g.scope === 'call' && p.tool ? `${p.tool} ${inputOf(p.input)}`.trim() : brief(g.description)) || 'A person must decide';
}

// at finds the last entry of a list of [sequence, ...] that is not behind a sequence.
export function at(list, q) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (list[mid][0] <= q) low = mid + 1; else high = mid;
  }
  return low ? list[low - 1] : undefined;
}

export class Run {
  constructor(id) {
    this.id = id;
    this.last = 0; // sequence of the last event
    this.position = 0; // its position in the log
    this.events = []; // [sequence, position, time, kind]
    this.status = []; // [sequence, status, why]
    this.totals = []; // [sequence, tokens in, tokens out, cost, turns, calls]
    this.root = { type: 'run', id, title: id, q: 0, hist: [], kids: [] };
    this.byId = new Map();
    this.gates = new Map();
    this.artifacts = [];
    this.about = {};
    this.sum = [0, 0, 0, 0, 0];
  }

  // add takes the next event; it returns false where that is not the one that follows.
  add(event, position, kind) {
    const q = event.sequence;
    if (q <= this.last) return true;
    if (q !== this.last + 1 && !(this.last === 0 && kind === 'run.pruned')) return false;
    this.last = q;
    this.position = position;
    this.events.push([q, position, Date.parse(event.time), kind]);
    this.fold(kind, event.data || {}, q, Date.parse(event.time));
    return true;
  }

  node(type, id, parent, q, title, more = {}) {
    const n = { type, id, title, q, hist: [], kids: [], ...more };
    parent.kids.push(n);
    this.byId.set(`${type} ${id}`, n);
    return n;
  }

  get(type, id) { return this.byId.get(`${type} ${id}`); }

  step(id, q, title) {
    return this.get('step', id) || this.node('step', id || 'run', this.root, q, title || id || 'run', { hist: [[q, 'pending']] });
  }

  place(d, q) {
    return (d.tool_id && this.get('call', d.tool_id)) || (d.call_id && this.get('call', d.call_id)) ||
      (d.step_id ? this.step(d.step_id, q) : this.root);
  }

  note(q, parent, title, status = 'note') { return this.node('note', q, parent, q, title, { hist: [[q, status]] }); }

  move(q, status, why) { this.status.push([q, status, brief(why || '')]); this.root.hist.push([q, status]); }

  spend(q, d, turns, calls) {
    const add = [d.input_tokens || 0, d.output_tokens || 0, d.cost_micro_usd || 0, turns, calls];
    this.sum = this.sum.map((v, i) => v + add[i]);
    this.totals.push([q, ...this.sum]);
  }

  call(d, q, parent) {
    const id = d.tool_id || d.id;
    const there = this.get('call', id);
    if (there) return there;
    return this.node('call', id, parent || this.place({ step_id: d.step_id }, q), q, d.tool_name || 'call',
      { line: inputOf(d.input), step: d.step_id, hist: [[q, 'requested']] });
  }

  fold(kind, d, q, time) {
    const set = (n, status) => { n.hist.push([q, status]); n.end = q; };
    switch (kind) {
      case 'run.created':
        Object.assign(this.about, { task: brief(d.task, 4000), agent: d.agent, by: d.by, session: d.session_id, created: time,
          parent: d.parent_run_id || (d.child_of && d.child_of.run_id) });
        this.root.title = brief(d.task, 200);
        this.move(q, d.to || 'created');
        break;
      case 'run.forked': this.move(q, 'created'); this.note(q, this.root, 'begins with the state of another run'); break;
      case 'run.started': this.move(q, 'running'); break;
      case 'run.paused': this.move(q, 'paused', d.reason); this.note(q, this.root, `paused${d.by ? ` by ${d.by}` : ''}${d.reason ? `: ${brief(d.reason, 160)}` : ''}`, 'paused'); break;
      case 'run.resumed': this.move(q, 'running'); this.note(q, this.root, `resumed${d.by ? ` by ${d.by}` : ''}`); break;
      case 'run.stopping': this.move(q, 'stopping', d.reason); this.note(q, this.root, 'stopping'); break;
      case 'run.completed': case 'run.failed':
        this.move(q, kind === 'run.failed' ? 'failed' : 'completed', d.error || d.finish_reason);
        this.about.output = brief(d.output || d.error, 4000);
        this.node('end', q, this.root, q, brief(d.output || d.error || d.finish_reason, 200),
          { hist: [[q, kind === 'run.failed' ? 'failed' : 'completed']] });
        break;
      case 'run.pruned': {
        const c = d.created || {};
        const r = d.result || {};
        Object.assign(this.about, { agent: c.agent, by: c.by, session: c.session_id, created: Date.parse(d.created_at),
          parent: c.parent_run_id || (c.child_of && c.child_of.run_id) });
        this.move(q, r.status, r.finish_reason);
        this.spend(q, r, r.total_steps || 0, r.tool_call_count || 0);
        this.node('end', q, this.root, q, `events 1 to ${d.covered_sequence} ${d.forgotten ? 'were deleted on request' : `are in the backup of ${brief(d.backup_at)}`}`,
          { hist: [[q, r.status]] });
        break;
      }
      case 'plan.made':
        for (const s of d.steps || []) this.step(s.id, q, s.description).agent = s.agent;
        this.spend(q, d, 0, 0);
        break;
      case 'plan.answered': this.spend(q, d, 0, 0); this.note(q, this.root, 'a plan was made by a model'); break;
      case 'step.ready': set(this.step(d.step_id, q), 'ready'); break;
      case 'step.allowed': set(this.step(d.step_id, q), 'running'); break;
      case 'step.claimed': set(this.step(d.step_id, q), 'checking'); break;
      case 'step.finished': set(this.step(d.step_id, q), 'completed'); break;
      case 'step.failed': { const s = this.step(d.step_id, q); set(s, 'failed'); s.line = brief(d.error, 160); break; }
      case 'turn.finished': {
        const calls = d.calls || [];
        const title = d.text ? brief(d.text.trim().split('\n')[0], 200) : `calls ${calls.map((c) => c.tool_name).join(', ') || 'nothing'}`;
        const step = this.step(d.step_id, q);
        if (at(step.hist, q)[1] === 'pending') set(step, 'running');
        const t = this.node('turn', `${d.step_number} ${q}`, step, q, title, { turn: d.step_number, step: d.step_id, model: d.model,
          text: brief(d.text, 1500), spent: [d.input_tokens || 0, d.output_tokens || 0, d.cost_micro_usd || 0], ms: d.duration_ms,
          hist: [[q, d.interrupted ? 'interrupted' : 'completed']], time });
        for (const c of calls) this.call({ ...c, tool_id: c.id, step_id: d.step_id }, q, t);
        this.spend(q, d, 1, calls.length);
        break;
      }
      case 'turn.deferred': this.note(q, this.place(d, q), `waits for the model: ${brief(d.error, 160)}`, 'waiting'); break;
      case 'call.requested': this.call(d, q, d.parent && this.get('call', d.parent)); break;
      case 'call.allowed': { const c = this.call(d, q); set(c, 'allowed'); if (d.edited) c.line = inputOf(d.input); break; }
      case 'call.refused': { const c = this.call(d, q); set(c, 'refused'); c.line = brief(d.reason, 160); break; }
      case 'call.started': set(this.call(d, q), 'running'); break;
      case 'call.delegated': set(this.call(d, q), 'waiting'); break;
      case 'call.deferred': set(this.call(d, q), 'waiting'); break;
      case 'call.finished': {
        const c = this.call(d, q);
        Object.assign(c, { ms: d.duration_ms, exit: d.exit_code, output: brief(d.output || d.error) });
        set(c, d.success === false ? 'failed' : 'completed');
        break;
      }
      case 'call.failed': { const c = this.call(d, q); c.output = brief(d.error); c.ms = d.duration_ms; set(c, 'failed'); break; }
      case 'call.previewed': {
        const g = this.gates.get(d.gate_id);
        if (g) g.preview = { diff: d.diff_ref, reason: d.reason, truncated: d.truncated };
        break;
      }
      case 'gate.opened': {
        const n = this.node('gate', d.gate_id, this.place(d, q), q, brief(asksFor(d), 200), { line: brief(d.reason, 160), hist: [[q, 'waiting']] });
        this.gates.set(d.gate_id, { id: d.gate_id, run: this.id, q, node: n, description: d.description, reason: d.reason, rule: d.rule,
          scope: d.scope, proposal: d.proposal, hash: d.proposal_hash, opened: time, expires: d.expires_at, onExpiry: d.on_expiry,
          approvers: d.approvers, step: d.step_id, call: d.call_id });
        break;
      }
      case 'gate.approved': case 'gate.rejected': case 'gate.expired': {
        const n = this.get('gate', d.gate_id);
        const g = this.gates.get(d.gate_id);
        const status = kind.slice(5);
        if (n) { set(n, status); n.line = `${status}${d.by ? ` by ${d.by}` : ''}${d.reason ? `: ${brief(d.reason, 160)}` : ''}`; }
        if (g) Object.assign(g, { ended: q, status, by: d.by, assurance: d.assurance, why: d.reason });
        break;
      }
      case 'gate.voted': { const g = this.gates.get(d.gate_id); if (g) g.votes = d.votes; break; }
      case 'artifact.saved':
        for (const a of d.artifacts || []) {
          this.artifacts.push({ ...a, q });
          this.node('artifact', `${a.id} ${q}`, this.place(d, q), q, a.path || a.name, { line: a.content_type, artifact: a, hist: [[q, 'saved']] });
        }
        break;
      case 'child.spawned':
        this.node('child', d.sub_agent_id || `child ${q}`, this.place(d, q), q, `run of ${d.agent}`, { line: brief(d.error, 160), child: d.sub_agent_id,
          hist: [[q, d.error ? 'failed' : 'running']] });
        break;
      case 'child.finished': {
        const n = this.get('child', d.sub_agent_id);
        if (n) { set(n, d.error ? 'failed' : 'completed'); n.line = brief(d.error || d.output, 160); }
        break;
      }
      case 'check.passed': case 'check.failed':
        this.node('check', `${q}`, this.place(d, q), q, `check ${d.name || d.kind || ''}`, { line: brief(d.note || d.reason || '', 160), hist: [[q, kind === 'check.passed' ? 'completed' : 'failed']] });
        break;
      case 'history.compacted': this.note(q, this.place(d, q), `history compacted: ${d.tokens_before} to ${d.tokens_after} tokens`); this.spend(q, d, 0, 0); break;
      case 'checkpoint.taken': this.note(q, this.root, `checkpoint ${d.checkpoint || ''}`); break;
      case 'plan.revised': this.note(q, this.root, 'the plan was revised'); for (const s of d.steps || []) this.step(s.id, q, s.description); break;
      default:
    }
  }

  // flat lists the rows of the tree as it was at a sequence, those below closed nodes left out.
  flat(q, closed) {
    const out = [];
    const walk = (n, depth) => {
      if (n.q > q) return;
      out.push({ n, depth });
      if (closed.has(n)) return;
      for (const k of n.kids) walk(k, depth + 1);
    };
    for (const k of this.root.kids) walk(k, 0);
    return out;
  }

  statusAt(n, q) { const s = at(n.hist, q); return s ? s[1] : ''; }

  summary(q) {
    const status = at(this.status, q);
    const t = at(this.totals, q) || [0, 0, 0, 0, 0, 0];
    return { status: status ? status[1] : '', why: status ? status[2] : '', input: t[1], output: t[2], cost: t[3], turns: t[4], calls: t[5] };
  }
}
