// All runs of the station: rows of the index, kept up to date by the events that come, and the gates that wait.
import { brief, asksFor } from './fold.js';

const refresh = 250; // milliseconds between two looks at the row of a run
const ended = ['completed', 'failed'];

export class Runs {
  constructor(station) {
    Object.assign(this, { station, rows: new Map(), dirty: new Map(), listeners: new Set(), opened: new Set(), loading: true, events: 0 });
    this.stopSeen = station.seen((run, kind, seq, m) => this.see(run, kind, m));
  }

  stop() { this.stopSeen(); this.stopped = true; for (const t of this.dirty.values()) clearTimeout(t.timer); }

  // on calls back after changes, at most once in a frame or so.
  on(f) { this.listeners.add(f); return () => this.listeners.delete(f); }

  changed() {
    if (this.pending) return;
    this.pending = setTimeout(() => { this.pending = 0; for (const f of this.listeners) f(); }, 60);
  }

  // load reads the index, also again after the connection was lost: what happened meanwhile is in it.
  async load() {
    this.loading = true;
    await this.station.runs((rows) => { rows.forEach((r) => this.take(r)); this.changed(); }, () => !this.stopped);
    this.loading = false;
    this.changed();
  }

  take(row) {
    if (!row || typeof row.harnessId !== 'string') return;
    const was = this.rows.get(row.harnessId);
    if (was && was.seq > row.sequence) return;
    this.rows.set(row.harnessId, {
      id: row.harnessId, agent: row.agentName || '', task: brief(row.task, 200), status: row.status, turns: row.turns || 0,
      calls: row.toolCallCount || 0, tokens: (row.inputTokens || 0) + (row.outputTokens || 0), cost: row.costMicroUsd || 0,
      created: Date.parse(row.createdAt) || 0, updated: Date.parse(row.updatedAt) || 0, steps: row.stepsTotal || 0, done: row.stepsCompleted || 0,
      session: row.sessionId || '', parent: row.parentHarnessId || '', error: brief(row.error || '', 200), held: row.integrityHold || '',
      gates: (row.gates || []).filter((g) => g.status === 'pending').map((g) => ({ id: g.id, run: row.harnessId, what: brief(g.description, 200), at: Date.parse(g.createdAt) || 0, approvers: g.approvers })),
      seq: row.sequence || 0 });
  }

  see(run, kind, m) {
    this.events += 1;
    let head;
    const text = () => (head === undefined ? (head = m.text()) : head);
    const row = this.rows.get(run);
    const seq = Number((/"sequence":(\d+)/.exec(text()) || [])[1]) || 0;
    const data = () => { try { return JSON.parse(text()).data || {}; } catch (e) { return {}; } };
    if (kind === 'run.created' && !row) {
      const d = data();
      this.take({ harnessId: run, agentName: d.agent, task: d.task, status: d.to || 'created', createdAt: new Date().toISOString(),
        updatedAt: new Date().toISOString(), sessionId: d.session_id, sequence: seq });
    } else if (row && seq > row.seq) {
      const status = { 'run.started': 'running', 'run.paused': 'paused', 'run.resumed': 'running', 'run.completed': 'completed', 'run.failed': 'failed' }[kind];
      if (status) row.status = status;
      row.updated = Date.now();
      if (kind === 'gate.opened') {
        const d = data();
        const gate = { id: d.gate_id, run, what: brief(asksFor(d), 200), at: Date.now(), approvers: d.approvers };
        if (!row.gates.some((g) => g.id === gate.id)) { row.gates = [...row.gates, gate]; for (const f of this.opened) f(gate, row); }
      }
      if (['gate.approved', 'gate.rejected', 'gate.expired'].includes(kind)) { const d = data(); row.gates = row.gates.filter((g) => g.id !== d.gate_id); }
      row.seq = seq;
    }
    this.later(run, seq);
    this.changed();
  }

  // later reads the row of a run again until it has what was seen.
  later(run, seq) {
    const there = this.dirty.get(run);
    if (there) { there.seq = Math.max(there.seq, seq); return; }
    const entry = { seq, tries: 0 };
    this.dirty.set(run, entry);
    const look = async () => {
      let row;
      try { row = await this.station.run(run); } catch (e) { /* looked at again below */ }
      if (this.stopped) return;
      if (row && row.sequence >= entry.seq) {
        this.dirty.delete(run);
        this.take(row);
        this.changed();
      } else if (entry.tries++ < 20) entry.timer = setTimeout(look, refresh * Math.min(8, entry.tries));
      else this.dirty.delete(run);
    };
    entry.timer = setTimeout(look, refresh);
  }

  // gates lists what waits for a person, the oldest first.
  gates() {
    const all = [];
    for (const r of this.rows.values()) if (!ended.includes(r.status)) for (const g of r.gates) all.push({ ...g, row: r });
    return all.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
  }

  // find lists the runs that a filter lets through, the newest first.
  find({ status = '', agent = '', text = '' } = {}) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [];
    for (const r of this.rows.values()) {
      if (status === 'waiting' ? !r.gates.length || ended.includes(r.status) : status && r.status !== status) continue;
      if (agent && r.agent !== agent) continue;
      if (words.length) {
        const where = `${r.id} ${r.agent} ${r.task} ${r.session} ${r.error}`.toLowerCase();
        if (!words.every((w) => where.includes(w))) continue;
      }
      all.push(r);
    }
    return all.sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
  }

  agents() { return [...new Set([...this.rows.values()].map((r) => r.agent))].filter(Boolean).sort(); }
}
