// The console: signing in, the screens, and the keys.
import { h, fill } from './dom.js';
import { Connection } from './nats.js';
import { fromSeed, userKey } from './nkey.js';
import { Station } from './station.js';
import { Runs } from './runs.js';
import { runScreen } from './run.js';
import { helpScreen } from './help.js';
import { runsScreen, gatesScreen, sessionsScreen, sessionScreen, listsScreen, healthScreen } from './screens.js';

const screens = [['runs', 'Runs'], ['gates', 'Gates'], ['sessions', 'Sessions'], ['lists', 'Lists'], ['health', 'Station']];
const main = document.getElementById('main');
const nav = document.getElementById('nav');
const state = document.getElementById('state');
const notes = document.getElementById('notes');
const dialog = document.getElementById('keys');
const renewal = document.getElementById('renewal');
const app = { screen: undefined, go: (to) => { location.hash = to; }, changed: () => changed() };

// What stays for as long as the tab does, so that a reload does not sign out. A token is in sessionStorage, which ends
// with the tab and which no other page reads; a key is in the store of the browser as one that signs and that no script
// reads out.
const kept = {
  get: () => { try { return JSON.parse(sessionStorage.getItem('inspan') || 'null'); } catch (e) { return null; } },
  set: (v) => { try { if (v) sessionStorage.setItem('inspan', JSON.stringify(v)); else sessionStorage.removeItem('inspan'); } catch (e) { /* not kept */ } },
  db: (mode, f) => new Promise((resolve) => {
    const open = indexedDB.open('inspan', 1);
    open.onupgradeneeded = () => open.result.createObjectStore('keys');
    open.onerror = () => resolve(undefined);
    open.onsuccess = () => {
      const ask = f(open.result.transaction('keys', mode).objectStore('keys'));
      ask.onsuccess = () => { resolve(ask.result); open.result.close(); };
      ask.onerror = () => { resolve(undefined); open.result.close(); };
    };
  }),
};

function address() { return `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/console/nats`; }

async function about(token) {
  const r = await fetch('/console/about', { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: 'no-store' });
  const v = await r.json();
  if (!r.ok) {
    const e = new Error(r.status === 401 ? 'the station does not know this token, or it has ended: inspan token add NAME makes one' : [v.detail || v.title, v.hint].filter(Boolean).join(': '));
    e.ended = r.status === 401;
    throw e;
  }
  return v;
}

// enter connects, and shows the console.
async function enter(login, name) {
  let first = true;
  const conn = new Connection(address(), login, (s, why) => {
    if (first) return;
    connection(s, why);
    if (s === 'connected') resume();
  });
  const connecting = conn.open();
  connecting.catch(() => {}); // what is wrong with a token is said better by the other answer
  const what = await about(login.token);
  await connecting;
  first = false;
  Object.assign(app, { conn, about: what, name: name || what.token || '', login, station: new Station(conn, what) });
  app.answer = async (run, gate, out) => {
    if (login.token && !what.person) return app.station.answer(run, gate, { ...out, by: app.name });
    if (app.name) return app.station.answer(run, gate, out, app.name);
    return app.station.answer(run, gate, out);
  };
  app.runs = new Runs(app.station);
  app.runs.on(changed);
  app.runs.opened.add((gate, row) => note(gate, row));
  app.runs.load().catch((e) => say(`The runs cannot be read: ${e.message}`));
  connection('connected');
  document.body.classList.add('in');
  route();
}

// resume reads what happened while there was no connection.
function resume() {
  app.runs.load().catch(() => {});
  if (app.screen && app.screen.again) Promise.resolve(app.screen.again()).catch(() => {});
}

function connection(s, why) {
  state.className = `state ${s}`;
  if (s !== 'connected' && app.about.person) about(app.login.token).catch((e) => { if (e.ended) renew(); });
  fill(state, s === 'connected' ? `${app.about.station}${app.name ? ` · ${app.name}` : ''}` : s === 'refused' ? `not let in: ${why}` : 'connecting again…');
}

// atProvider has a person sign in at the identity provider, which sends the page back here with a code. The tab keeps
// which attempt is its own; the gateway keeps what proves it in a cookie that no script reads.
async function atProvider() {
  const { url } = await post('/console/signin', {});
  const to = new URL(url);
  if (!/^https?:$/.test(to.protocol)) throw new Error('the address of the identity provider is none');
  sessionStorage.setItem('inspan-signin', JSON.stringify({ state: to.searchParams.get('state'), hash: location.hash }));
  location.assign(to.href);
}

async function post(path, body) {
  const r = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), cache: 'no-store' });
  const v = await r.json();
  if (!r.ok) throw new Error([v.detail || v.title, v.hint].filter(Boolean).join(': '));
  return v;
}

// cameBack ends the sign-in that the identity provider sent the page back from, and returns its token; undefined where
// there is none. The code leaves the address at once.
async function cameBack() {
  const q = new URLSearchParams(location.search);
  if (!q.has('state')) return undefined;
  let mine = null;
  try { mine = JSON.parse(sessionStorage.getItem('inspan-signin') || 'null'); sessionStorage.removeItem('inspan-signin'); } catch (e) { /* none */ }
  history.replaceState(null, '', location.pathname + ((mine && mine.hash) || ''));
  if (!mine || !mine.state || mine.state !== q.get('state')) throw new Error('this tab has begun no sign-in with this answer: sign in again');
  if (!q.get('code')) throw new Error(`the identity provider refuses: ${(/^[a-z_]{1,40}$/.exec(q.get('error') || '') || ['no reason given'])[0].replaceAll('_', ' ')}`);
  return (await post('/console/signin/done', { code: q.get('code'), state: q.get('state') })).token;
}

// renew asks for another token where that of a person has ended. What is shown stays; the next connection takes it.
function renew() {
  if (renewal.open) return;
  const token = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', 'aria-label': 'token' });
  const said = h('p', { role: 'alert', class: 'bad' });
  fill(renewal, h('form', { on: { submit: async (e) => {
    e.preventDefault();
    const t = token.value.trim();
    try {
      const v = await about(t);
      if (v.token !== app.name) throw new Error(`this is the token of ${v.token}: sign out first`);
    } catch (x) { fill(said, x.message); return; }
    app.login.token = t;
    kept.set({ token: t });
    renewal.close();
  } } }, h('h2', {}, 'Your token has ended'), h('p', { class: 'dim' }, 'The station does not let you in any more. Take a new one from your identity provider.'), said,
  h('label', { class: 'field' }, h('span', {}, 'Token'), token), h('button', { class: 'primary', type: 'submit' }, 'Go on'),
  app.about.sign_in ? h('button', { type: 'button', on: { click: () => atProvider().catch((x) => fill(said, x.message)) } }, 'Sign in again') : '',
  h('button', { type: 'button', on: { click: signOut } }, 'Sign out')));
  renewal.showModal();
  token.focus();
}

function say(text) { fill(document.getElementById('said'), text); }

function note(gate, row) {
  const place = location.hash.startsWith('#/gates') || location.hash.startsWith(`#/run/${gate.run}`);
  say(`A gate waits: ${gate.what}`);
  if (place) return;
  const e = h('div', { class: 'toast', role: 'alert' }, h('a', { href: '#/gates' }, h('strong', {}, 'A person must decide'), h('span', {}, gate.what), h('span', { class: 'dim' }, row.task)),
    h('button', { 'aria-label': 'dismiss', on: { click: () => e.remove() } }, '×'));
  notes.append(e);
  while (notes.children.length > 3) notes.firstChild.remove();
  setTimeout(() => e.remove(), 15000);
}

function changed() {
  const waiting = app.runs.gates().length;
  document.title = `${waiting ? `(${waiting}) ` : ''}${app.screen ? app.screen.title : 'Console'} · Inspan`;
  const badge = nav.querySelector('.badge');
  if (badge) { badge.hidden = !waiting; fill(badge, waiting, h('span', { class: 'sr' }, ' wait')); }
  if (app.screen) app.screen.changed();
}

function route() {
  if (!app.conn) return;
  if (app.screen) app.screen.stop();
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [place, raw = ''] = path.split('/');
  const id = (() => { try { return decodeURIComponent(raw); } catch (e) { return ''; } })();
  const good = /^[A-Za-z0-9_-]{1,64}$/.test(id);
  const query = new URLSearchParams(search);
  if (place === 'run' && good) app.screen = runScreen(app, id, query);
  else if (place === 'session' && good) app.screen = sessionScreen(app, id);
  else if (place === 'gates') app.screen = gatesScreen(app);
  else if (place === 'sessions') app.screen = sessionsScreen(app);
  else if (place === 'lists') app.screen = listsScreen(app, query);
  else if (place === 'help') app.screen = helpScreen(app, /^[a-z0-9-]+(\/[a-zA-Z0-9-]+)?$/.test(id) ? id : 'index', query);
  else if (place === 'health') app.screen = healthScreen(app);
  else app.screen = runsScreen(app, query);
  fill(main, app.screen.element);
  const now = { run: 'runs', session: 'sessions', help: 'help' }[place] || (screens.some(([s]) => s === place) ? place : 'runs');
  fill(nav, screens.map(([to, text], i) => h('a', { href: `#/${to}`, 'aria-current': to === now ? 'page' : undefined, title: `key ${i + 1}` }, text, to === 'gates' ? h('span', { class: 'badge', hidden: true }) : '')));
  changed();
  app.screen.focus();
}

function themes(next) {
  const all = ['auto', 'light', 'dark'];
  let now = 'auto';
  try { now = localStorage.getItem('inspan-theme') || 'auto'; } catch (e) { /* the default */ }
  if (!all.includes(now)) now = 'auto';
  if (next) {
    now = all[(all.indexOf(now) + 1) % all.length];
    try { localStorage.setItem('inspan-theme', now); } catch (e) { /* for this page only */ }
  }
  document.documentElement.dataset.theme = now;
  fill(document.getElementById('theme'), `Theme: ${now}`);
}

async function signOut() {
  kept.set(null);
  if (app.login && app.login.key) await kept.db('readwrite', (s) => s.clear());
  location.reload();
}

function signIn(problem) {
  document.body.classList.remove('in');
  const said = h('p', { role: 'alert', class: 'bad' }, problem || '');
  const field = (label, input, hint) => h('label', { class: 'field' }, h('span', {}, label), input, hint ? h('span', { class: 'dim' }, hint) : '');
  const token = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false' });
  const name = h('input', { type: 'text', autocomplete: 'username', spellcheck: 'false' });
  const key = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false' });
  const file = h('input', { type: 'file', 'aria-label': 'file of the key' });
  file.addEventListener('change', async () => { if (file.files[0] && file.files[0].size < 4096) { key.value = (await file.files[0].text()).trim(); if (!name.value) name.value = (file.files[0].name.match(/([A-Za-z0-9_]+)\.nk$/) || [])[1] || ''; } });
  const go = (make) => async (e) => {
    e.preventDefault();
    fill(said, '');
    const button = e.target.querySelector('button[type=submit]');
    button.disabled = true;
    try { await make(); } catch (x) { fill(said, `Not signed in: ${x.message}`); }
    button.disabled = false;
  };
  const form = (title, what, make, ...fields) => h('form', { class: 'card', on: { submit: go(make) } }, h('h2', {}, title), h('p', { class: 'dim' }, what), fields, h('button', { class: 'primary', type: 'submit' }, 'Sign in'));
  const byToken = form('With a token', ['What ', h('code', {}, 'inspan token add NAME'), ' printed, whose answers to gates are recorded as a claim, or a token of your identity provider.'], async () => {
    const t = token.value.trim();
    if (!t) throw new Error('enter the token');
    if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,2}$/.test(t)) throw new Error('this is no token: it is one word that begins with inspan_, or three with dots between');
    await enter({ token: t });
    kept.set({ token: t });
  }, field('Token', token));
  const byKey = form('With your key', ['The file that ', h('code', {}, 'inspan user add NAME'), ' wrote. Answers to gates prove who you are.'], async () => {
    if (!name.value.trim()) throw new Error('enter the name of the user that the key is of');
    const made = await fromSeed(key.value);
    key.value = '';
    await enter({ key: made }, name.value.trim());
    await kept.db('readwrite', (s) => s.put({ name: app.name, public: made.public, key: made.key }, 'key'));
    kept.set({ key: true });
  }, field('Name', name), field('Key', key, 'SU…; it stays in this browser'), file);
  const ways = h('div', { class: 'ways' }, byToken, byKey);
  fill(main, h('div', { class: 'signin' }, h('h1', {}, 'Inspan console'), said, ways));
  about().then((v) => {
    if (!v.sign_in) return;
    ways.prepend(form('With your identity provider', ['You sign in at ', h('code', {}, new URL(v.sign_in).host), ' and come back here.'], atProvider));
  }).catch(() => {}); // the other ways say what is wrong
  (problem ? said : token).focus();
}

const keys = [['j / k', 'next, previous row'], ['Enter', 'open'], ['Escape', 'back'], ['1 … 5', 'runs, gates, sessions, lists, station'], ['/', 'filter; in a run: the time slider'], ['n', 'new run'],
  ['a', 'approve the gate'], ['r', 'reject the gate: asks for a reason, Enter sends'], ['e', 'edit the arguments'], ['[ / ]', 'one event back, forward'], ['l', 'back to live'], ['← / →', 'close, open a branch'], ['i', 'write in a session'], ['t', 'theme'], ['h', 'documentation'], ['?', 'these keys']];

function help() {
  if (dialog.open) { dialog.close(); return; }
  fill(dialog, h('p', {}, h('a', { href: '#/help', on: { click: () => dialog.close() } }, 'Documentation')), h('h2', {}, 'Keys'), h('dl', { class: 'keylist' }, keys.map(([k, what]) => [h('dt', {}, h('kbd', {}, k)), h('dd', {}, what)])), h('form', { method: 'dialog' }, h('button', {}, 'Close')));
  dialog.showModal();
}

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
  const typing = e.target.closest && e.target.closest('input, textarea, select');
  if (typing) {
    if (e.key === 'Escape') { e.target.blur(); if (app.screen && !app.screen.chat) app.screen.focus(); e.preventDefault(); }
    return;
  }
  if (dialog.open) { if (e.key === '?') help(); return; }
  if (e.key === '?') { help(); e.preventDefault(); return; }
  if (e.key === 't') { themes(true); return; }
  if (!app.conn) return;
  if (e.key === 'h') { app.go('#/help'); return; }
  if (e.key === 'Enter' && e.target.closest('a, button, summary')) return;
  const n = Number(e.key);
  if (n >= 1 && n <= screens.length) { app.go(`#/${screens[n - 1][0]}`); e.preventDefault(); return; }
  if (app.screen && app.screen.key(e.key)) { e.preventDefault(); return; }
  if (e.key === 'Escape') { const [, place] = location.hash.split('/'); if (place === 'run') app.go('#/runs'); if (place === 'session') app.go('#/sessions'); }
});
addEventListener('hashchange', route);
document.addEventListener('visibilitychange', () => { if (!document.hidden && app.conn) app.conn.look(); });
document.getElementById('theme').addEventListener('click', () => themes(true));
document.getElementById('help').addEventListener('click', help);
document.getElementById('out').addEventListener('click', signOut);
themes(false);

(async () => {
  try {
    const token = await cameBack();
    if (token) {
      await enter({ token });
      kept.set({ token });
      return;
    }
  } catch (e) { signIn(`Not signed in: ${e.message}`); return; }
  const was = kept.get();
  if (!was) { // the tab that signed in is closed
    kept.db('readwrite', (s) => s.clear());
    signIn();
    return;
  }
  try {
    if (was.token) await enter({ token: was.token });
    else {
      const k = await kept.db('readonly', (s) => s.get('key'));
      if (!k) { kept.set(null); signIn(); return; }
      await enter({ key: userKey(k.public, k.key) }, k.name);
    }
  } catch (e) { signIn(`Not signed in: ${e.message}`); }
})();
