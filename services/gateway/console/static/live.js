// Text that is written at the moment, put together from the live messages of a run: each names its stream and the place
// where its text stands, so nothing is shown twice. What is missing is a gap until the event has it all.

const most = 64 << 10; // characters that are kept of a stream
const streams = 64;
const bytes = new TextEncoder();

export class Live {
  constructor() { this.all = new Map(); this.over = new Map(); }

  // take returns the stream that a message belongs to.
  take(m) {
    if (!m || typeof m.stream_id !== 'string' || !['token', 'thinking', 'tool_output'].includes(m.event)) return undefined;
    // The last words of a turn may come behind its event. A turn that is taken again is owed since a later one.
    const stored = this.over.get(m.tool_id ? `call ${m.tool_id}` : `turn ${m.step_id} ${m.step_number}`);
    if (stored !== undefined && !(m.owed_since > stored)) return undefined;
    const id = `${m.stream_id} ${m.event}`;
    let s = this.all.get(id);
    if (!s) {
      s = { id, event: m.event, step: m.step_id, turn: m.step_number, call: m.tool_id, tool: m.tool_name, attempt: m.attempt, text: '', end: 0 };
      this.all.set(id, s);
      if (this.all.size > streams) this.all.delete(this.all.keys().next().value);
    }
    const content = String(m.content || '');
    const where = Number(m.at) || 0;
    const end = where + bytes.encode(content).length;
    if (end > s.end) {
      if (where > s.end) s.text += s.end || where ? ' … ' : '';
      s.text += where < s.end ? overlap(content, s.end - where) : content;
      s.end = end;
      if (s.text.length > most) s.text = `…${s.text.slice(-most / 2)}`;
    }
    if (m.done) s.done = true;
    return s;
  }

  // stored forgets what an event has by now.
  stored(kind, d, q) {
    if (kind === 'turn.finished') this.over.set(`turn ${d.step_id} ${d.step_number}`, q);
    if (kind === 'call.finished' || kind === 'call.failed') this.over.set(`call ${d.tool_id}`, q);
    for (const [id, s] of this.all) {
      const turn = kind === 'turn.finished' && s.event !== 'tool_output' && s.turn === d.step_number && s.step === d.step_id;
      const call = (kind === 'call.finished' || kind === 'call.failed') && s.call && s.call === d.tool_id;
      if (turn || call || kind === 'run.completed' || kind === 'run.failed') this.all.delete(id);
    }
  }

  // of lists the streams at work: those of a call, or of the turns of a step.
  of(step, call) { return [...this.all.values()].filter((s) => (call ? s.call === call : !s.call && s.step === step)); }
}

// overlap is a text without its first bytes.
function overlap(text, skip) {
  let at = 0;
  while (at < text.length && skip > 0) {
    const c = String.fromCodePoint(text.codePointAt(at));
    skip -= bytes.encode(c).length;
    at += c.length;
  }
  return text.slice(at);
}
