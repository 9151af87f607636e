// One run: the tree of its steps, turns, calls and children, at the end of the log or at any event of it.
import { h, fill, List, time, took, count, money, pill, linked, code, diff, isDiff, inputs } from './dom.js';
import { Run } from './fold.js';
import { Live } from './live.js';
import { gateCard } from './gate.js';

const icons = { step: '§', turn: '●', call: '›_', gate: '◆', child: '↳', artifact: '▤', check: '✓', note: '·', end: '■', live: '…' };

export function runScreen(app, id, query) {
  const run = new Run(id);
  const live = new Live();
  const closed = new Set();
  let follow = !query.get('at');
  let at = Number(query.get('at')) || 0;
  let stopped = false;
  let reading = false;
  let again = false;
  let drawn = 0;
  let chosen; // the node whose detail is shown
  let card;

  const title = h('h2', { class: 'title' }, id);
  const facts = h('div', { class: 'facts' });
  const said = h('span', { role: 'status', class: 'dim' });
  const slider = h('input', { type: 'range', min: '1', max: '1', value: '1', 'aria-label': 'event of the log' });
  const where = h('output', { class: 'dim' });
  const toEnd = h('button', { on: { click: () => { follow = true; draw(); list.end(); } } }, 'Live ', h('kbd', {}, 'l'));
  const detail = h('div', { class: 'detail', tabindex: '-1' });
  const list = new List({ label: 'tree of the run', role: 'tree', itemRole: 'treeitem', class: 'tree', name: (r) => (r.n ? r.n : r.s ? r.s.id : undefined),
    open: (r) => show(r), moved: (r) => show(r), row });

  function fold(n, close) {
    const now = close === undefined ? !closed.has(n) : close;
    if (now) closed.add(n); else closed.delete(n);
    draw();
  }

  function row(r) {
    if (r.s) {
      const e = h('div', { class: 'node live' }, h('span', { class: 'icon', 'aria-hidden': 'true' }, icons.live),
        h('span', { class: 'name' }, r.s.event === 'tool_output' ? 'output' : r.s.event === 'thinking' ? 'thinking' : 'writing'), h('span', { class: 'line' }, tail(r.s.text)), h('span', { class: 'caret' }));
      e.style.paddingInlineStart = `${8 + r.depth * 16}px`;
      return e;
    }
    const { n, depth } = r;
    const status = run.statusAt(n, at);
    const e = h('div', { class: `node t-${n.type}` },
      n.kids.length ? h('button', { class: 'twist', tabindex: '-1', 'aria-label': closed.has(n) ? 'open' : 'close', on: { click: () => fold(n) } }, closed.has(n) ? '▸' : '▾') : h('span', { class: 'twist' }),
      h('span', { class: `icon s-${status}`, 'aria-hidden': 'true' }, icons[n.type] || '·'),
      n.type === 'turn' ? h('span', { class: 'num' }, n.turn) : '', h('span', { class: 'name' }, n.title), n.line ? h('span', { class: 'line' }, n.line) : '',
      ['completed', 'note', 'saved', 'allowed'].includes(status) && n.type !== 'step' && n.type !== 'end' ? '' : pill(status),
      n.ms !== undefined ? h('span', { class: 'ms' }, took(n.ms)) : '');
    e.style.paddingInlineStart = `${4 + Math.min(depth, 8) * 16}px`;
    e.setAttribute('aria-level', depth + 1);
    if (n.kids.length) e.setAttribute('aria-expanded', closed.has(n) ? 'false' : 'true');
    return e;
  }

  const tail = (text) => text.slice(-300).replace(/\s+/g, ' ').trim();

  // rows are those of the tree, with what is written at the moment below the step or call it belongs to.
  function rows() {
    const flat = run.flat(at, closed);
    if (!follow || !live.all.size) return flat;
    const out = [];
    const open = [...live.all.values()].filter((s) => s.text);
    const put = (test, depth) => { for (const s of open) if (!s.put && test(s)) { s.put = true; out.push({ s, depth }); } };
    // Below the last row of a step.
    for (let i = 0; i < flat.length; i++) {
      const { n, depth } = flat[i];
      out.push(flat[i]);
      if (n.type === 'call') put((s) => s.call === n.id, depth + 1);
      const next = flat[i + 1];
      if (!next || next.n.type === 'step' || next.depth === 0) {
        const step = owner(n);
        if (step) put((s) => !s.call && s.step === step.id, 1);
      }
    }
    put((s) => !s.call, 1);
    for (const s of open) delete s.put;
    return out;
  }

  const owner = (n) => (n.type === 'step' ? n : n.step ? run.get('step', n.step) : n.type === 'gate' && run.gates.get(n.id) ? run.get('step', run.gates.get(n.id).step) : undefined);

  function draw() {
    if (stopped) return;
    if (follow) at = run.last;
    at = Math.min(at || run.last, run.last);
    const ended = list.atEnd();
    slider.max = Math.max(1, run.last);
    slider.value = at;
    const e = run.events[at - 1];
    fill(where, e ? `event ${at} of ${run.last} · ${e[3]} · ${time(e[2])}` : reading ? 'reading…' : 'no events');
    slider.setAttribute('aria-valuetext', where.textContent);
    toEnd.disabled = follow;
    const s = run.summary(at);
    fill(title, run.about.task ? run.about.task.split('\n')[0].slice(0, 160) : id);
    const first = run.events[0];
    const last = e || first;
    fill(facts, pill(s.status), h('span', {}, run.about.agent || ''), h('span', { class: 'dim mono' }, id),
      run.about.session ? h('a', { href: `#/session/${encodeURIComponent(run.about.session)}` }, run.about.session) : '', run.about.parent ? h('a', { href: `#/run/${run.about.parent}` }, 'parent run') : '',
      h('span', {}, `${s.turns} turns`), h('span', {}, `${s.calls} calls`), h('span', { title: 'tokens in and out' }, `${count(s.input)} in / ${count(s.output)} out`), s.cost ? h('span', {}, money(s.cost)) : '',
      first ? h('span', { class: 'dim' }, took(last[2] - first[2])) : '', s.why && s.status !== 'running' ? h('span', { class: 'dim' }, s.why) : '');
    for (const b of buttons) b.element.hidden = !b.when.includes(follow ? s.status : '');
    list.set(rows());
    if (follow && ended && list.at < 0) list.end();
    if (chosen && chosen.s && !live.all.has(chosen.s.id)) show(undefined);
    else if (chosen && (chosen.s || chosen.drawnAt !== at)) refresh();
    else if (!chosen) overview();
    const gate = [...run.gates.values()].find((g) => !g.ended && g.q <= at);
    if (gate && follow && (!chosen || chosen === run.root)) show({ n: gate.node });
    drawn = performance.now();
  }

  let timer;
  const later = () => { if (!timer) timer = setTimeout(() => { timer = 0; draw(); }, Math.max(0, 80 - (performance.now() - drawn))); };

  function overview() {
    const parts = [];
    if (run.about.task) parts.push(h('h3', {}, 'Task'), h('div', { class: 'text' }, linked(run.about.task)));
    if (run.about.output && at === run.last) parts.push(h('h3', {}, 'Output'), h('div', { class: 'text' }, linked(run.about.output)));
    const files = run.artifacts.filter((a) => a.q <= at);
    if (files.length) parts.push(h('h3', {}, 'Artifacts'), h('ul', { class: 'files' }, files.slice(-100).map((a) => h('li', {}, fileButton(a), h('span', { class: 'dim' }, ` ${a.content_type || ''} · ${count(a.size)} bytes`)))));
    if (!parts.length) parts.push(h('p', { class: 'dim' }, run.last ? 'Choose a row to see all of it.' : reading ? 'Reading the log…' : 'There is no such run, or this user may not read it.'));
    fill(detail, parts);
  }

  const fileButton = (a) => h('button', { class: 'link', on: { click: () => openFile(a) } }, a.path || a.name || a.id);

  async function openFile(a) {
    card = undefined;
    chosen = { file: a };
    fill(detail, back(), h('h3', {}, a.path || a.name), h('p', { class: 'dim' }, 'Loading…'));
    try {
      if (a.kept === 'local') throw new Error(`it is kept in the workspace of the run alone, as ${a.path}`);
      const data = await app.station.object({ digest: a.digest, size: a.size }, a.kept === 'log' ? '' : a.run_id || id);
      const name = (a.path || a.name || a.id).split('/').pop();
      // The file is only ever offered as bytes: no page of a stranger opens in this origin.
      const blob = URL.createObjectURL(new Blob([data], { type: 'application/octet-stream' }));
      const save = h('a', { href: blob, download: name, class: 'button' }, 'Download');
      const image = /^image\/(png|jpeg|gif|webp)$/.test(a.content_type || '');
      const text = !image && data.length < (1 << 20) && !data.subarray(0, 4096).includes(0) ? new TextDecoder().decode(data) : '';
      if (chosen.file !== a) return;
      fill(detail, back(), h('h3', {}, a.path || a.name), h('p', {}, save, h('span', { class: 'dim' }, ` ${a.content_type || ''} · ${data.length} bytes · SHA-256 checked`)),
        image ? h('img', { src: URL.createObjectURL(new Blob([data], { type: a.content_type })), alt: `artifact ${name}` }) : text ? (isDiff(text) ? diff(text) : code(text, name)) : h('p', { class: 'dim' }, 'Not a text.'));
    } catch (e) { if (chosen.file === a) fill(detail, back(), h('h3', {}, a.path || a.name), h('p', { class: 'bad' }, `Cannot be shown: ${e.message}`)); }
  }

  const back = () => h('button', { class: 'back', on: { click: () => { show(undefined); list.element.focus(); } } }, '← run ', h('kbd', {}, 'Esc'));

  function show(r) {
    const next = r && (r.n || r);
    if (next && next === chosen) return;
    chosen = next;
    card = undefined;
    element.classList.toggle('has-detail', Boolean(chosen));
    if (!chosen) { overview(); return; }
    refresh();
    detail.scrollTop = 0;
  }

  // refresh shows the node that was chosen.
  function refresh() {
    const n = chosen;
    if (n.file) return;
    if (n.s) { // what is written at the moment
      const end = detail.scrollHeight - detail.scrollTop - detail.clientHeight < 40;
      fill(detail, back(), h('h3', {}, n.s.event === 'tool_output' ? `Output of ${n.s.tool || 'the tool'}` : n.s.event === 'thinking' ? 'Thinking' : `Turn ${n.s.turn} is written`), h('pre', { class: 'code wrap' }, n.s.text, h('span', { class: 'caret' })));
      if (end) detail.scrollTop = detail.scrollHeight;
      return;
    }
    if (card && n.type === 'gate') {
      const g = run.gates.get(n.id);
      if (g.preview) card.preview(g.preview); // it comes behind the gate
      if (!g.ended || card.showed === g.ended) return; // an answer that is being written stays
    }
    n.drawnAt = at;
    const parts = [back()];
    if (n.type === 'gate') {
      const g = run.gates.get(n.id);
      card = gateCard(app, { ...g, status: g.ended && g.ended <= at ? g.status : '' });
      card.showed = g.ended;
      fill(detail, parts, h('h3', {}, 'Gate'), card.element);
      return;
    }
    if (n.artifact) { openFile(n.artifact); return; }
    parts.push(h('h3', {}, n.type === 'turn' ? `Turn ${n.turn}` : n.type === 'call' ? n.title : n.type === 'step' ? `Step ${n.id}` : n.title, ' ', pill(run.statusAt(n, at))));
    if (n.child) parts.push(h('p', {}, h('a', { href: `#/run/${n.child}` }, `open run ${n.child}`)));
    if (n.type === 'turn') parts.push(h('p', { class: 'dim' }, [n.model, took(n.ms), `${count(n.spent[0])} tokens in`, `${count(n.spent[1])} out`, money(n.spent[2]), time(n.time)].filter(Boolean).join(' · ')));
    if (n.type === 'step') parts.push(h('div', { class: 'text' }, linked(n.title)), n.line ? h('p', { class: 'bad' }, n.line) : '');
    const rest = h('div', {}, h('p', { class: 'dim' }, 'Loading…'));
    fill(detail, parts, rest);
    whole(n, rest);
  }

  // whole shows what the events of a node say in full.
  async function whole(n, into) {
    const positions = [...new Set([n.q, ...n.hist.map((x) => x[0])])].filter((q) => q <= at).slice(-6).map((q) => run.events[q - 1]);
    try {
      const events = await Promise.all(positions.map((p) => app.station.event(p[1])));
      if (chosen !== n) return;
      const parts = [];
      for (const [i, e] of events.entries()) {
        const d = e.data || {};
        const kind = positions[i][3];
        if (n.type === 'turn') parts.push(await textOf(d), ...(d.calls || []).map((c) => h('div', { class: 'sub' }, h('h4', {}, c.tool_name), inputs(c.input))));
        if (n.type === 'call' && kind === 'turn.finished') {
          const c = (d.calls || []).find((x) => x.id === n.id);
          if (c) parts.push(h('h4', {}, 'Arguments'), c.input_ref ? inputs(await app.station.text(c.input_ref)) : inputs(c.input));
        }
        if (n.type === 'call' && kind === 'call.requested') parts.push(h('h4', {}, 'Arguments'), inputs(d.input));
        if (kind === 'call.allowed' && d.edited) parts.push(h('h4', {}, 'Arguments as a person edited them'), inputs(d.input));
        if (kind === 'call.refused') parts.push(h('h4', {}, 'Refused'), h('p', { class: 'bad' }, d.reason, d.rule ? ` (rule ${d.rule})` : ''), h('p', { class: 'dim' }, d.hint || ''));
        if (kind === 'call.started') parts.push(h('p', { class: 'dim' }, `attempt ${d.attempt} · sandbox ${d.sandbox} · ${d.runner}`));
        if (kind === 'call.finished' || kind === 'call.failed' || kind === 'check.passed' || kind === 'check.failed') {
          const text = d.output_ref ? await app.station.text(d.output_ref).catch((x) => `${d.output || ''}\n(${x.message})`) : d.output || '';
          if (d.error) parts.push(h('p', { class: 'bad' }, d.error, d.hint ? ` – ${d.hint}` : ''));
          if (text) parts.push(h('h4', {}, `Output${d.exit_code !== undefined ? ` · exit ${d.exit_code}` : ''}`), isDiff(text) ? diff(text) : code(text, 'output'));
        }
        if (kind === 'step.finished' || kind === 'run.completed' || kind === 'run.failed' || kind === 'child.finished') {
          parts.push(d.output ? h('div', { class: 'text' }, linked(d.output)) : '', d.error ? h('p', { class: 'bad' }, d.error) : '');
        }
      }
      if (chosen !== n) return;
      const raw = h('details', {}, h('summary', {}, 'Events as they are stored'));
      raw.addEventListener('toggle', () => { if (raw.open && raw.children.length === 1) raw.append(...events.map((e) => code(JSON.stringify(e, null, 2), 'event'))); });
      fill(into, parts, raw);
    } catch (e) { if (chosen === n) fill(into, h('p', { class: 'bad' }, `Cannot be read: ${e.message}`)); }
  }

  async function textOf(d) {
    const text = d.text_ref ? await app.station.text(d.text_ref).catch((e) => `${d.text || ''}\n(${e.message})`) : d.text || '';
    return text ? h('div', { class: 'text' }, linked(text)) : h('p', { class: 'dim' }, 'no text');
  }

  const steer = (action, label, when) => {
    const element = h('button', { hidden: true, class: action === 'stop' ? 'danger' : '', on: { click: async () => {
      element.disabled = true;
      fill(said, `Asking to ${action}…`);
      try { await app.station.control(id, action); fill(said); } catch (e) { fill(said, h('span', { class: 'bad' }, e.code === 'denied' ? 'You may not steer runs: an operator gives the right to dispatch.' : e.message)); }
      element.disabled = false;
    } } }, label);
    return { element, when };
  };
  const buttons = [steer('pause', 'Pause', ['running']), steer('resume', 'Resume', ['paused']), steer('stop', 'Stop', ['running', 'paused', 'created'])];

  slider.addEventListener('input', () => {
    at = Number(slider.value);
    follow = at >= run.last;
    history.replaceState(null, '', follow ? `#/run/${id}` : `#/run/${id}?at=${at}`);
    draw();
  });
  const move = (by) => { follow = false; at = Math.max(1, Math.min(run.last, at + by)); follow = at >= run.last; draw(); };

  const element = h('div', { class: 'screen runview' },
    h('div', { class: 'runhead' }, h('div', { class: 'bar' }, h('a', { href: '#/runs', class: 'crumb' }, 'Runs'), title, buttons.map((b) => b.element), said), facts,
      h('div', { class: 'slider' }, slider, toEnd, where)),
    h('div', { class: 'split' }, list.element, detail));

  const take = (e, seq, kind) => { const ok = run.add(e, seq, kind); if (ok) live.stored(kind, e.data || {}, e.sequence); return ok; };

  // read takes what the log has and was not seen.
  async function read() {
    if (reading) { again = true; return; }
    reading = true;
    try {
      do {
        again = false;
        await app.station.events(id, run.position, (e, seq, kind) => { take(e, seq, kind); later(); }, () => !stopped);
      } while (again && !stopped);
      fill(said);
    } catch (e) { fill(said, h('span', { class: 'bad' }, `The log cannot be read: ${e.message}`)); }
    reading = false;
    draw();
  }

  const stops = [app.conn.subscribe(app.station.subject(`run.${id}.stream`), (m) => {
    let e;
    try { e = m.json(); } catch (x) { return; }
    if (reading) { again = true; return; }
    const kind = (m.header('Nats-Subject').split('.evt.')[1]) || '';
    if (take(e, Number(m.header('Nats-Sequence')), kind)) later(); else read();
  })];
  let stopLive = app.station.live(id, (m) => { if (live.take(m)) later(); });
  read();

  return { element, title: id, changed() {}, run,
    focus: () => list.element.focus({ preventScroll: true }),
    again: () => { stopLive(); stopLive = app.station.live(id, (m) => { if (live.take(m)) later(); }); return read(); },
    stop() { stopped = true; clearTimeout(timer); stops.forEach((s) => s()); stopLive(); list.stop(); },
    key(k) {
      if (card && card.key(k)) return true;
      const r = list.selected;
      if (k === 'l') { follow = true; draw(); list.end(); return true; }
      if (k === '[') { move(-1); return true; }
      if (k === ']') { move(1); return true; }
      if (k === '/') { slider.focus(); return true; }
      if (k === 'ArrowLeft' && r && r.n && r.n.kids.length) { fold(r.n, true); return true; }
      if (k === 'ArrowRight' && r && r.n && r.n.kids.length) { fold(r.n, false); return true; }
      if (k === 'Escape' && chosen) { show(undefined); list.element.focus(); return true; }
      if (k === 'Enter' && r && r.n && r.n.child) { app.go(`#/run/${r.n.child}`); return true; }
      if (k === 'Enter' && r) { show(r); detail.focus(); return true; }
      return list.key(k);
    } };
}
