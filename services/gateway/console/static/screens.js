// The screens but that of one run. A screen is {element, title, key(k), stop(), changed(), focus()}.
import { h, fill, List, time, took, count, money, pill, linked, code } from './dom.js';
import { gateCard, gateOf } from './gate.js';
import { Run } from './fold.js';
import { Live } from './live.js';

export function runsScreen(app, query) {
  const filter = { status: query.get('status') || '', agent: query.get('agent') || '', text: query.get('q') || '' };
  const text = h('input', { type: 'search', value: filter.text, placeholder: 'Filter: task, agent, id, session', 'aria-label': 'filter runs by text' });
  const status = h('select', { 'aria-label': 'status' }, [['', 'any status'], ['running', 'running'], ['waiting', 'waits for a person'], ['paused', 'paused'],
    ['completed', 'completed'], ['failed', 'failed'], ['created', 'created']].map(([v, t]) => h('option', { value: v }, t)));
  const agent = h('select', { 'aria-label': 'agent' });
  status.value = filter.status;
  const total = h('span', { class: 'dim', role: 'status' });
  const empty = h('div', { class: 'empty', hidden: true });
  const list = new List({ label: 'runs', class: 'runs', name: (r) => r.id, open: (r) => app.go(`#/run/${r.id}`),
    row: (r) => h('div', { class: `run${r.held ? ' held' : ''}` },
      h('span', { class: 'c-status' }, r.gates.length && !['completed', 'failed'].includes(r.status) ? pill('waiting') : pill(r.status)),
      h('span', { class: 'c-task' }, h('span', { class: 'task' }, r.task || r.id), h('span', { class: 'sub dim' }, r.held ? `held: ${r.held}` : r.error || `${r.id}${r.session ? ` · ${r.session}` : ''}`)),
      h('span', { class: 'c-agent' }, r.agent), h('span', { class: 'c-num' }, `${r.turns} turns`), h('span', { class: 'c-num' }, count(r.tokens)),
      h('span', { class: 'c-num' }, money(r.cost)), h('span', { class: 'c-time dim' }, time(r.created))) });
  const agents = () => {
    const all = app.runs.agents();
    if (agents.was === all.join()) return;
    agents.was = all.join();
    fill(agent, h('option', { value: '' }, 'any agent'), all.map((a) => h('option', { value: a }, a)));
    agent.value = filter.agent;
  };
  const changed = () => {
    agents();
    const found = app.runs.find(filter);
    list.set(found);
    fill(total, app.runs.loading ? `reading… ${app.runs.rows.size}` : `${found.length} of ${app.runs.rows.size} runs`);
    empty.hidden = found.length > 0 || app.runs.loading;
    if (!empty.hidden) fill(empty, app.runs.rows.size ? 'No run matches the filter.' : ['There are no runs yet. Start one: ', h('code', {}, 'inspan run AGENT "task"'), ', or with the button above.']);
  };
  const pick = () => {
    Object.assign(filter, { text: text.value, status: status.value, agent: agent.value });
    const q = new URLSearchParams(Object.entries({ q: filter.text, status: filter.status, agent: filter.agent }).filter(([, v]) => v));
    history.replaceState(null, '', `#/runs${q.size ? `?${q}` : ''}`);
    list.element.scrollTop = 0;
    changed();
  };
  text.addEventListener('input', pick);
  status.addEventListener('change', pick);
  agent.addEventListener('change', pick);
  const start = newRun(app, {});
  const element = h('div', { class: 'screen' },
    h('div', { class: 'bar' }, text, status, agent, h('button', { on: { click: () => start.toggle() } }, 'New run ', h('kbd', {}, 'n')), total), start.element,
    h('div', { class: 'head run', 'aria-hidden': 'true' }, ['status', 'task', 'agent', 'turns', 'tokens', 'cost', 'created'].map((t, i) => h('span', { class: ['c-status', 'c-task', 'c-agent', 'c-num', 'c-num', 'c-num', 'c-time'][i] }, t))),
    list.element, empty);
  return { element, title: 'Runs', changed, stop: () => list.stop(), focus: () => list.element.focus({ preventScroll: true }),
    key: (k) => { if (k === '/') { text.focus(); text.select(); return true; } if (k === 'n') { start.toggle(); return true; } return list.key(k); } };
}

// newRun is a form that gives an agent a task.
function newRun(app, fixed) {
  const agent = h('select', { 'aria-label': 'agent' });
  const task = h('textarea', { rows: '3', placeholder: 'What is to be done?', 'aria-label': 'task' });
  const said = h('span', { role: 'status' });
  const go = h('button', { class: 'primary', type: 'submit' }, 'Start');
  const form = h('form', { class: 'card form', hidden: true, on: { submit: async (e) => {
    e.preventDefault();
    if (!task.value.trim() || !agent.value) { fill(said, 'Choose an agent and say what is to be done.'); return; }
    go.disabled = true;
    fill(said, 'Starting…');
    try { app.go(`#/run/${await app.station.start({ agent: agent.value, task: task.value, ...fixed })}`); } catch (x) { fill(said, h('span', { class: 'bad' }, `Not started: ${x.message}`)); }
    go.disabled = false;
  } } }, h('div', { class: 'bar' }, agent, go, said), task);
  return { element: form, toggle() {
    form.hidden = !form.hidden;
    if (form.hidden) return;
    task.focus();
    app.station.agents().then((all) => fill(agent, all.map((a) => a.name).sort().map((n) => h('option', { value: n }, n))), (x) => fill(said, x.message));
  } };
}

export function gatesScreen(app) {
  const list = new List({ label: 'gates that wait', class: 'gates', name: (g) => `${g.run} ${g.id}`, open: () => show(), moved: () => show(),
    row: (g) => h('div', { class: 'gaterow' }, h('span', { class: 'task' }, g.what || 'a person must decide'), h('span', { class: 'sub dim' }, `${g.row.agent} · ${g.row.task} · ${took(Date.now() - g.at)}`)) });
  const detail = h('div', { class: 'detail' });
  const empty = h('div', { class: 'empty' });
  let shown = '';
  let card;
  async function show() {
    const g = list.selected;
    const name = g ? list.name(g) : '';
    if (name === shown) return;
    shown = name;
    card = undefined;
    if (!g) { fill(detail); return; }
    fill(detail, h('p', { class: 'dim' }, 'Reading what is asked…'));
    try {
      const event = (await app.station.ofKind(g.run, 'gate.opened')).reverse().find((e) => e.data.gate_id === g.id);
      if (!event) throw new Error('the log does not have this gate');
      const gate = gateOf(g.run, event);
      if (shown !== name) return;
      card = gateCard(app, gate);
      fill(detail, h('p', {}, h('a', { href: `#/run/${g.run}` }, g.row.task || g.run), h('span', { class: 'dim' }, ` · ${g.row.agent} · ${g.run}`)), card.element);
      if (gate.scope === 'call') preview(card, gate, 0);
    } catch (e) { if (shown === name) fill(detail, h('p', { class: 'bad' }, `The gate cannot be shown: ${e.message}`)); }
  }
  // preview looks for what the call would change, which comes behind the gate.
  async function preview(of, gate, tries) {
    const all = await app.station.ofKind(gate.run, 'call.previewed').catch(() => []);
    const p = all.reverse().find((e) => e.data.gate_id === gate.id && e.data.proposal_hash === gate.hash);
    if (card !== of) return;
    if (p) of.preview({ diff: p.data.diff_ref, reason: p.data.reason, truncated: p.data.truncated });
    else if (tries < 6) setTimeout(() => { if (card === of) preview(of, gate, tries + 1); }, 400 * (tries + 1));
  }
  const changed = () => {
    const all = app.runs.gates();
    list.set(all);
    if (all.length && list.at < 0) list.select(0);
    empty.hidden = all.length > 0;
    fill(empty, app.runs.loading ? 'Reading…' : 'Nothing waits for a person. A gate appears here as soon as it opens.');
    const still = all.some((g) => list.name(g) === shown);
    if (shown && !still && card) return; // what became of it stays in sight until another is chosen
    show();
  };
  return { element: h('div', { class: 'screen split' }, h('div', { class: 'side' }, list.element, empty), detail), title: 'Gates', changed, stop: () => list.stop(),
    focus: () => list.element.focus({ preventScroll: true }),
    key: (k) => (card && card.key(k)) || (k === 'Enter' && list.selected ? (app.go(`#/run/${list.selected.run}`), true) : list.key(k)) };
}

export function sessionsScreen(app) {
  return table(app, { title: 'Sessions', label: 'sessions', read: () => app.station.sessions(), empty: 'There are no sessions. One begins with inspan chat, or when a task names one.',
    keep: (s) => s.status !== 'deleted', order: (a, b) => Date.parse(b.last_used_at) - Date.parse(a.last_used_at), name: (s) => s.session_id, open: (s) => app.go(`#/session/${encodeURIComponent(s.session_id)}`),
    row: (s) => [h('span', { class: 'task' }, s.session_id), h('span', { class: 'sub dim' }, `${s.status} · ${s.mode} · ${s.messages} messages · ${s.total_runs} runs · used ${time(Date.parse(s.last_used_at))}`)] });
}

// table is a screen that lists rows of a bucket and reads them again now and then.
function table(app, { title, label, read, empty, keep = () => true, order, name, row, open = () => {} }) {
  const none = h('div', { class: 'empty' }, 'Reading…');
  const list = new List({ label, class: 'plain', name, open, row: (i) => h('div', { class: 'gaterow' }, row(i)) });
  let stopped = false;
  let timer;
  const load = async () => {
    try {
      const all = (await read()).filter(keep).sort(order);
      if (stopped) return;
      list.set(all);
      none.hidden = all.length > 0;
      fill(none, empty);
    } catch (e) { if (!stopped) { none.hidden = false; fill(none, h('span', { class: 'bad' }, `Cannot be read: ${e.message}`)); } }
    if (!stopped) timer = setTimeout(load, 5000);
  };
  load();
  return { element: h('div', { class: 'screen' }, h('h2', {}, title), list.element, none), title, changed() {}, key: (k) => list.key(k), focus: () => list.element.focus({ preventScroll: true }),
    stop() { stopped = true; clearTimeout(timer); list.stop(); } };
}

const byName = (f) => (a, b) => (f(a) < f(b) ? -1 : 1);

export function listsScreen(app, query) {
  const kinds = {
    agents: { title: 'Agents', label: 'agents', read: () => app.station.agents(), empty: 'No agent is registered. inspan up --agents names their folder.', order: byName((a) => a.name), name: (a) => a.name,
      row: (a) => [h('span', { class: 'task' }, a.name), h('span', { class: 'sub dim' }, [a.description, a.model, (a.tools || []).join(' ')].filter(Boolean).join(' · '))] },
    work: { title: 'Work items', label: 'work items', read: () => app.station.list('harness-sessions', 'work.'), empty: 'There are no work items. inspan work add makes one.', order: byName((w) => w.work), name: (w) => w.work,
      open: (w) => w.binding && w.binding.run && app.go(`#/run/${w.binding.run}`),
      row: (w) => [h('span', { class: 'task' }, pill(w.status), ` ${(w.spec || {}).title || w.work}`), h('span', { class: 'sub dim' }, `${w.work} · ${((w.spec || {}).labels || []).join(' ')} · ${time(Date.parse(w.updated_at))}`)] },
    mail: { title: 'Mail', label: 'addresses', read: () => app.station.list('harness-sessions', 'agent.'), empty: 'There are no addresses. inspan mail register makes one.', order: byName((m) => m.address), name: (m) => m.id,
      row: (m) => [h('span', { class: 'task' }, m.address), h('span', { class: 'sub dim' }, `${(m.pending || []).length} waiting · ${(m.claimed || []).length} being read · ${(m.done || []).length} done${m.holder ? ' · an agent is at work' : ''}`)] },
    schedules: { title: 'Schedules', label: 'schedules', read: () => app.station.list('harness-sessions', 'schedule.'), empty: 'There are no schedules. inspan schedule add makes one.', keep: (s) => s.status !== 'removed', order: byName((s) => s.schedule), name: (s) => s.schedule,
      row: (s) => [h('span', { class: 'task' }, pill(s.status), ` ${s.schedule}`), h('span', { class: 'sub dim' }, `${s.spec.cron || s.spec.every || s.spec.at || ''} · fired ${s.fired} · skipped ${s.skipped}${(s.open || []).length ? ` · ${s.open.length} running` : ''}`)] },
  };
  const kind = kinds[query.get('of')] ? query.get('of') : 'agents';
  const screen = table(app, kinds[kind]);
  const tabs = h('nav', { class: 'tabs', 'aria-label': 'lists' }, Object.entries(kinds).map(([k, v]) => h('a', { href: `#/lists?of=${k}`, 'aria-current': k === kind ? 'page' : undefined }, v.title)));
  screen.element.prepend(tabs);
  return screen;
}

const consumers = (s) => [['planner', `LOG_${s}`, 'planner'], ['planner', `IN_${s}`, 'planner'], ['planner', `IN_${s}`, 'planner-apart'],
  ['planner', `IN_${s}`, 'planner-always'], ['gatekeeper', `LOG_${s}`, 'gatekeeper'], ['gatekeeper', `IN_${s}`, 'gatekeeper'],
  ['executor', `LOG_${s}`, 'executor'], ['toolrunner', `LOG_${s}`, 'toolrunner'], ['persister', `LOG_${s}`, 'persister']];

export function healthScreen(app) {
  const body = h('div', { class: 'health' }, h('p', { class: 'dim' }, 'Asking…'));
  let stopped = false;
  let timer;
  let before;
  const ask = async (subject, data) => { const v = (await app.conn.request(subject, data)).json(); if (v.error) throw new Error(v.error.description); return v; };
  const load = async () => {
    try {
      const s = app.station.name;
      const [log, pings, ...depth] = await Promise.all([ask(`$JS.API.STREAM.INFO.LOG_${s}`, ''), app.conn.gather('$SRV.PING', '', 400),
        ...consumers(s).map(([, stream, name]) => ask(`$JS.API.CONSUMER.INFO.${stream}.${name}`, ''))]);
      if (stopped) return;
      const roles = new Map();
      consumers(s).forEach(([role], i) => {
        const r = roles.get(role) || { waiting: 0, open: 0, instances: 0 };
        r.waiting += depth[i].num_pending || 0;
        r.open += depth[i].num_ack_pending || 0;
        roles.set(role, r);
      });
      for (const m of pings) { try { const r = roles.get(m.json().name.replace(/^inspan-/, '')); if (r) r.instances += 1; } catch (e) { /* not of the station */ } }
      const now = performance.now();
      const rate = before ? Math.max(0, (log.state.last_seq - before.seq) / ((now - before.at) / 1000)) : undefined;
      before = { seq: log.state.last_seq, at: now };
      const live = [...app.runs.rows.values()].filter((r) => r.status === 'running').length;
      const box = (name, value) => h('div', { class: 'stat' }, h('dt', {}, name), h('dd', {}, value));
      fill(body, h('dl', { class: 'stats' }, box('station', s), box('running', `${live} ${live === 1 ? 'run' : 'runs'}`), box('waiting for a person', `${app.runs.gates().length} ${app.runs.gates().length === 1 ? 'gate' : 'gates'}`),
        box('events', count(log.state.messages)), box('events a second', rate === undefined ? '…' : rate.toFixed(rate < 10 ? 1 : 0)), box('log', `${(log.state.bytes / (1 << 20)).toFixed(1)} MiB`),
        box('program', app.about.version || '–'), box('NATS', (app.conn.info || {}).version || '–')),
      h('h3', {}, 'Services'), h('table', {}, h('thead', {}, h('tr', {}, ['service', 'instances', 'waiting', 'at work'].map((t) => h('th', { scope: 'col' }, t)))),
        h('tbody', {}, [...roles].map(([role, r]) => h('tr', { class: r.instances ? '' : 'bad' }, h('th', { scope: 'row' }, role), h('td', {}, r.instances || 'none runs'), h('td', {}, r.waiting), h('td', {}, r.open))))));
    } catch (e) { if (!stopped) fill(body, h('p', { class: 'bad' }, `Not known: ${e.message}`)); }
    if (!stopped) timer = setTimeout(load, 2000);
  };
  load();
  return { element: h('div', { class: 'screen scroll' }, h('h2', {}, 'Station'), body), title: 'Station', changed() {}, key: () => false, focus() {}, stop() { stopped = true; clearTimeout(timer); } };
}

// sessionScreen is a session as a chat.
export function sessionScreen(app, id) {
  const talk = h('div', { class: 'talk', role: 'log', 'aria-label': 'conversation', tabindex: '0' });
  const now = h('div', { class: 'talk-now' });
  const agent = h('select', { 'aria-label': 'agent' });
  const text = h('textarea', { rows: '2', placeholder: 'Say something. Enter sends, Shift+Enter is a new line.', 'aria-label': 'message' });
  const said = h('span', { class: 'dim', role: 'status' });
  const send = h('button', { class: 'primary', type: 'submit' }, 'Send');
  let stopped = false;
  let watching;
  const bubble = (who, body, more) => h('div', { class: `msg ${who}` }, h('div', { class: 'who' }, more || who), h('div', { class: 'body' }, body));
  const down = () => { talk.scrollTop = talk.scrollHeight; };
  const load = async () => {
    const row = await app.station.row('harness-sessions', `session.${id}`);
    if (stopped) return;
    const messages = row && row.history ? await app.station.history(row.history) : [];
    if (stopped) return;
    fill(talk, messages.length > 400 ? h('p', { class: 'dim' }, `${messages.length - 400} earlier messages: inspan session history`) : '', messages.slice(-400).map((m) => {
      const who = m.role === 'user' ? 'user' : m.role === 'assistant' ? 'assistant' : 'tool';
      const kids = [];
      if (m.content) kids.push(h('div', { class: 'text' }, linked(m.content)));
      for (const c of m.tool_calls || []) kids.push(h('div', { class: 'dim' }, `→ ${c.name}`));
      for (const r of m.tool_results || []) kids.push(h('details', {}, h('summary', {}, `${r.name}${r.failed ? ' failed' : ''}`), code(r.output, 'output of the tool')));
      return bubble(who, kids, who === 'assistant' ? (m.metadata && m.metadata.agent) || 'assistant' : who);
    }), now);
    down();
    const holder = row && (row.holders || [])[0];
    if (holder && !watching) watch(holder.run, row);
    return row;
  };
  // watch shows a run of the session until it has ended and its part is in the history.
  async function watch(run, task) {
    const model = new Run(run);
    const live = new Live();
    let position = 0;
    const seenText = typeof task === 'string' ? task : '';
    const draw = () => {
      if (stopped) return;
      const turns = model.root.kids.flatMap((s) => s.kids.filter((k) => k.type === 'turn'));
      const status = model.summary(model.last).status;
      fill(now, model.about.task || seenText ? bubble('user', h('div', { class: 'text' }, linked(model.about.task || seenText))) : '',
        turns.map((t) => bubble('assistant', [t.text ? h('div', { class: 'text' }, linked(t.text)) : '', t.kids.map((c) => h('div', { class: 'dim' }, `→ ${c.title} ${c.line || ''} `, pill(model.statusAt(c, model.last))))], model.about.agent)),
        [...live.all.values()].filter((s) => s.event === 'token').map((s) => bubble('assistant', h('div', { class: 'text' }, linked(s.text), h('span', { class: 'caret' })), model.about.agent)),
        h('p', { class: 'dim' }, h('a', { href: `#/run/${run}` }, run), ' ', pill(status || 'created'), [...model.gates.values()].some((g) => !g.ended) ? h('a', { href: '#/gates' }, ' waits for a person') : ''));
      down();
    };
    const take = (e, seq, kind) => { if (model.add(e, seq, kind)) { position = model.position; live.stored(kind, e.data || {}, e.sequence); } };
    const read = async () => { try { await app.station.events(run, position, take, () => !stopped); } catch (e) { fill(said, e.message); } draw(); finish(); };
    const stops = [app.station.live(run, (m) => { if (live.take(m)) draw(); }),
      app.conn.subscribe(app.station.subject(`run.${run}.stream`), (m) => {
        let e;
        try { e = m.json(); } catch (x) { return; }
        const kind = m.header('Nats-Subject').split('.evt.')[1] || '';
        if (e.sequence === model.last + 1) { take(e, Number(m.header('Nats-Sequence')), kind); draw(); finish(); } else if (e.sequence > model.last) read();
      })];
    const end = () => { stops.forEach((s) => s()); watching = undefined; };
    watching = { run, end, read };
    function finish() {
      const { status } = model.summary(model.last);
      if (!watching || watching.run !== run || !['completed', 'failed'].includes(status)) return;
      end();
      settle(run, 0);
    }
    await read();
  }
  // settle waits until the session has the part of a run.
  async function settle(run, tries) {
    const row = await app.station.row('harness-sessions', `session.${id}`).catch(() => undefined);
    if (stopped || watching) return;
    if (row && (row.holders || []).some((x) => x.run === run) && tries < 20) { setTimeout(() => settle(run, tries + 1), 150); return; }
    fill(now);
    await load().catch((e) => fill(said, e.message));
  }
  const form = h('form', { class: 'chatbox', on: { submit: async (e) => {
    e.preventDefault();
    const task = text.value.trim();
    if (!task || !agent.value) return;
    send.disabled = true;
    fill(said, 'Sending…');
    try {
      const run = await app.station.start({ agent: agent.value, task, session_id: id });
      text.value = '';
      fill(said);
      if (!watching) watch(run, task);
    } catch (x) { fill(said, h('span', { class: 'bad' }, `Not sent: ${x.message}`)); }
    send.disabled = false;
  } } }, text, h('div', { class: 'bar' }, agent, send, said));
  text.addEventListener('keydown', (e) => { if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); form.requestSubmit(); } });
  app.station.agents().then(async (all) => {
    fill(agent, all.map((a) => a.name).sort().map((n) => h('option', { value: n }, n)));
    const last = [...app.runs.rows.values()].filter((r) => r.session === id).sort((a, b) => b.created - a.created)[0];
    if (last) agent.value = last.agent;
  }, (e) => fill(said, e.message));
  load().catch((e) => fill(said, h('span', { class: 'bad' }, `Cannot be read: ${e.message}`)));
  return { element: h('div', { class: 'screen chat' }, h('h2', {}, h('a', { href: '#/sessions' }, 'Sessions'), ' / ', id), talk, form), title: id, chat: true, changed() {}, key: (k) => { if (k === 'i') { text.focus(); return true; } return false; },
    focus: () => text.focus({ preventScroll: true }), again: () => (watching ? watching.read() : load()), stop() { stopped = true; if (watching) watching.end(); } };
}

