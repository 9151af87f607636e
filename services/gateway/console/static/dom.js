// Elements. Text becomes text nodes and nothing else: what models, tools and strangers wrote is never read as markup.

// h makes an element. Properties: class, on (listeners by event), and attributes; false and undefined are left out.
export function h(tag, props, ...kids) {
  const svg = tag === 'svg' || tag === 'path';
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === false || v === null) continue;
    if (k === 'on') for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (k === 'value') e.value = v;
    else if (k === 'checked') e.checked = v;
    else if (k === 'href') { const to = safe(v); if (to) e.setAttribute('href', to); } else e.setAttribute(k, v === true ? '' : v);
  }
  put(e, kids);
  return e;
}

// put adds texts and elements; nothing is added for false and undefined.
export function put(e, kids) {
  for (const k of kids.flat(Infinity)) {
    if (k === undefined || k === null || k === false) continue;
    e.append(k instanceof Node ? k : document.createTextNode(String(k)));
  }
  return e;
}

export function fill(e, ...kids) { e.replaceChildren(); return put(e, kids); }

// safe lets addresses through that a click may follow: places of the console, files that it made, and web pages.
export function safe(to) {
  const text = String(to);
  if (/^#\//.test(text) || /^blob:/.test(text)) return text;
  try { return ['http:', 'https:'].includes(new URL(text).protocol) ? text : ''; } catch (e) { return ''; }
}

const address = /https?:\/\/[^\s<>"'`()\\]+/g;

// linked is a text whose web addresses can be followed, without telling where from.
export function linked(text) {
  const out = [];
  let at = 0;
  for (const m of String(text).matchAll(address)) {
    const to = safe(m[0].replace(/[.,;:!?]+$/, ''));
    if (!to) continue;
    const shown = m[0].slice(0, to.length);
    out.push(text.slice(at, m.index), h('a', { href: to, rel: 'noopener noreferrer nofollow', target: '_blank' }, shown));
    at = m.index + shown.length;
  }
  out.push(text.slice(at));
  return out;
}

// List shows many rows of one height, of which only those in sight have elements.
export class List {
  // options: label, role and itemRole, row(item, index) returns an element, open(item), name(item) is what stays selected.
  constructor(options) {
    Object.assign(this, options);
    this.items = [];
    this.at = -1;
    this.space = h('div', { class: 'space', role: 'presentation' });
    this.element = h('div', { class: `list ${options.class || ''}`, role: options.role || 'listbox', tabindex: '0', 'aria-label': options.label },
      this.space);
    this.element.addEventListener('scroll', () => this.draw(), { passive: true });
    this.element.addEventListener('focus', () => { if (this.at < 0 && this.items.length) this.select(0); });
    this.sizes = new ResizeObserver(() => { this.size = 0; this.draw(); });
    this.sizes.observe(this.element);
    this.id = `list${List.count = (List.count || 0) + 1}`;
  }

  stop() { this.sizes.disconnect(); }

  height() {
    if (!this.size) this.size = parseFloat(getComputedStyle(this.element).getPropertyValue('--row')) || 40;
    return this.size;
  }

  set(items) {
    const was = this.at >= 0 && this.items[this.at] !== undefined ? this.name(this.items[this.at]) : undefined;
    this.items = items;
    if (was !== undefined) {
      const now = this.name(items[this.at] === undefined ? {} : items[this.at]) === was ? this.at : items.findIndex((i) => this.name(i) === was);
      this.at = now >= 0 ? now : Math.min(this.at, items.length - 1);
    }
    this.draw();
  }

  draw() {
    const row = this.height();
    const height = this.element.clientHeight || 600;
    this.space.style.height = `${this.items.length * row}px`;
    const from = Math.max(0, Math.floor(this.element.scrollTop / row) - 4);
    const to = Math.min(this.items.length, Math.ceil((this.element.scrollTop + height) / row) + 4);
    const rows = [];
    for (let i = from; i < to; i++) {
      const e = this.row(this.items[i], i);
      e.classList.add('row');
      e.style.transform = `translateY(${i * row}px)`;
      e.id = `${this.id}-${i}`;
      e.setAttribute('role', this.itemRole || 'option');
      e.setAttribute('aria-selected', i === this.at ? 'true' : 'false');
      e.setAttribute('aria-setsize', this.items.length);
      e.setAttribute('aria-posinset', i + 1);
      e.addEventListener('click', (ev) => { if (!ev.target.closest('a,button')) { this.select(i); this.open(this.items[i]); } });
      rows.push(e);
    }
    this.space.replaceChildren(...rows);
    if (this.at >= from && this.at < to) this.element.setAttribute('aria-activedescendant', `${this.id}-${this.at}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  get selected() { return this.items[this.at]; }

  select(i) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(this.items.length - 1, i));
    const row = this.height();
    const top = this.at * row;
    const e = this.element;
    if (top < e.scrollTop) e.scrollTop = top;
    else if (top + row > e.scrollTop + e.clientHeight) e.scrollTop = top + row - e.clientHeight;
    this.draw();
    if (this.moved) this.moved(this.items[this.at]);
  }

  end() { this.element.scrollTop = this.element.scrollHeight; }

  // atEnd reports whether the last rows are in sight.
  atEnd() { const e = this.element; return e.scrollHeight - e.scrollTop - e.clientHeight < 2 * this.height(); }

  key(k) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height()) - 1);
    const to = { j: this.at + 1, ArrowDown: this.at + 1, k: this.at - 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page,
      Home: 0, End: this.items.length - 1, G: this.items.length - 1 }[k];
    if (to !== undefined) { this.select(to); return true; }
    if (k === 'Enter' && this.selected !== undefined) { this.open(this.selected); return true; }
    return false;
  }
}

export function time(ms) {
  if (!ms || Number.isNaN(ms)) return '';
  const d = new Date(ms);
  const clock = d.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  return d.toDateString() === new Date().toDateString() ? clock : `${d.toLocaleDateString([], { month: 'short', day: 'numeric' })} ${clock}`;
}

export function took(ms) {
  if (ms === undefined || ms < 0 || Number.isNaN(ms)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${Math.round(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
}

export const count = (n) => (n < 1000 ? String(n || 0) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`);
export const money = (micro) => (micro ? `$${(micro / 1e6).toFixed(micro < 1e4 ? 4 : 2)}` : '');

export const pill = (status) => h('span', { class: `pill s-${/^[a-z-]+$/.test(status) ? status : 'other'}` }, status || '–');

// diff colours a patch; other texts stay as they are.
export function diff(text) {
  const lines = String(text).split('\n');
  const shown = lines.slice(0, 2000).map((l) => {
    const kind = /^(\+\+\+|---|diff |index |Index:)/.test(l) ? 'file' : /^@@/.test(l) ? 'hunk' : l[0] === '+' ? 'add' : l[0] === '-' ? 'del' : '';
    return h('span', { class: `dl ${kind}` }, l, '\n');
  });
  if (lines.length > shown.length) shown.push(h('span', { class: 'dl hunk' }, `… ${lines.length - shown.length} more lines`));
  return h('pre', { class: 'code diff', tabindex: '0', 'aria-label': 'changes' }, shown);
}

export const isDiff = (text) => /^(diff --git |--- |Index: |@@ |\*\*\* Begin Patch)/m.test(text) && /^[+-]/m.test(text);

// code shows a text as it is, cut where it is very long.
export function code(text, label) {
  const t = String(text);
  const most = 200000;
  return h('pre', { class: 'code', tabindex: '0', 'aria-label': label }, linked(t.slice(0, most)), t.length > most ? `\n… ${t.length - most} more characters` : '');
}

// inputs shows what a call is given: edits as changes, the rest as names and values.
export function inputs(input) {
  let value = input;
  if (typeof value === 'string') { try { value = JSON.parse(value); } catch (e) { return code(value, 'arguments'); } }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return code(JSON.stringify(value, null, 2), 'arguments');
  const out = [];
  const rest = { ...value };
  if (typeof value.old_string === 'string' && typeof value.new_string === 'string') {
    delete rest.old_string;
    delete rest.new_string;
    const part = (t, sign) => (t === '' ? [] : t.split('\n').map((l) => sign + l));
    out.push(diff([...part(value.old_string, '-'), ...part(value.new_string, '+')].join('\n')));
  }
  for (const [k, v] of Object.entries(rest)) {
    const text = typeof v === 'string' ? v : JSON.stringify(v, null, 2);
    out.unshift(h('div', { class: 'arg' }, h('span', { class: 'name' }, k),
      isDiff(text) ? diff(text) : text.length < 80 && !text.includes('\n') ? h('code', {}, text) : code(text, k)));
  }
  return h('div', { class: 'args' }, out.length ? out : h('span', { class: 'dim' }, 'no arguments'));
}
