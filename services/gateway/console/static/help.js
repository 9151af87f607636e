// The documents: pages in Markdown, made into elements, and a search over them. The text is that of this version, and is
// read no differently for that: no markup of it becomes an element by itself.
import { h, fill, safe } from './dom.js';

const base = '/console/docs/';

// inline makes elements of a line: code, bold, emphasis and links.
function inline(text, from) {
  const out = [];
  let at = 0;
  for (const m of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|!?\[([^\]]*)\]\(([^)\s]+)\)/g)) {
    out.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1] !== undefined) out.push(h('code', {}, m[1]));
    else if (m[2] !== undefined) out.push(h('strong', {}, inline(m[2], from)));
    else if (m[3] !== undefined) out.push(h('em', {}, inline(m[3], from)));
    else if (m[0].startsWith('!')) out.push(m[4]);
    else out.push(link(m[4], m[5], from));
  }
  out.push(text.slice(at));
  return out;
}

// link leads to another page of the documents, or elsewhere; what leads to neither is its text.
function link(text, to, from) {
  const [file, anchor = ''] = to.split('#');
  if (/^https?:/.test(to)) return safe(to) ? h('a', { href: to, rel: 'noopener noreferrer', target: '_blank' }, inline(text, from)) : text;
  const name = file ? resolve(file, from) : from;
  if (!/^[a-z0-9/-]+(\.md)?$/i.test(name) || name.startsWith('adr/') || name === 'events.md' || (file && !file.endsWith('.md'))) return h('span', {}, inline(text, from));
  return h('a', { href: `#/help/${encodeURIComponent(name.replace(/\.md$/, ''))}${anchor ? `?at=${encodeURIComponent(anchor)}` : ''}` }, inline(text, from));
}

// resolve is a path as a page has it, from the folder of the documents.
function resolve(file, from) {
  const parts = from.split('/').slice(0, -1);
  for (const p of file.split('/')) if (p === '..') parts.pop(); else if (p !== '.') parts.push(p);
  return parts.join('/');
}

// slug is what a link to a heading names it by.
export function slug(text) { return text.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replace(/ /g, '-'); }

const cells = (line) => line.replace(/^\s*\||\|\s*$/g, '').split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\\|/g, '|'));
const item = /^(\s*)([-*]|\d+\.) +(.*)$/;

// markdown makes elements of a page.
export function markdown(text, from) {
  const lines = text.replace(/<!--[\s\S]*?-->/g, '').split('\n');
  const out = [];
  let i = 0;
  const paragraph = () => {
    const all = [];
    while (i < lines.length && lines[i].trim() && !/^(#|```|\s*\||>)/.test(lines[i]) && !item.test(lines[i])) all.push(lines[i++].trim());
    return all.join(' ');
  };
  // list reads the items that are indented at least so far.
  const list = (indent) => {
    const ordered = /\d/.test(item.exec(lines[i])[2]);
    const e = h(ordered ? 'ol' : 'ul', {});
    while (i < lines.length) {
      const m = item.exec(lines[i]);
      if (!m || m[1].length < indent) break;
      if (m[1].length > indent) { e.lastChild.append(list(m[1].length)); continue; }
      i++;
      const rest = paragraph();
      e.append(h('li', {}, inline(rest ? `${m[3]} ${rest}` : m[3], from)));
      while (i < lines.length && !lines[i].trim() && i + 1 < lines.length && item.test(lines[i + 1])) i++;
    }
    return e;
  };
  while (i < lines.length) {
    const line = lines[i];
    const head = /^(#{1,6}) +(.*)$/.exec(line);
    if (!line.trim()) i++;
    else if (head) { out.push(h(`h${head[1].length}`, { id: `s-${slug(head[2])}` }, inline(head[2], from))); i++; }
    else if (line.startsWith('```')) {
      const all = [];
      for (i++; i < lines.length && !lines[i].startsWith('```'); i++) all.push(lines[i]);
      i++;
      out.push(h('pre', { class: 'code', tabindex: '0' }, all.join('\n')));
    } else if (/^\s*\|/.test(line)) {
      const rows = [];
      for (; i < lines.length && /^\s*\|/.test(lines[i]); i++) rows.push(cells(lines[i]));
      const body = rows.filter((r, n) => n > 0 && !(n === 1 && r.every((c) => /^:?-+:?$/.test(c))));
      out.push(h('div', { class: 'wide', tabindex: '0' }, h('table', {}, h('thead', {}, h('tr', {}, rows[0].map((c) => h('th', {}, inline(c, from))))),
        h('tbody', {}, body.map((r) => h('tr', {}, r.map((c) => h('td', {}, inline(c, from)))))))));
    } else if (item.test(line)) out.push(list(item.exec(line)[1].length));
    else if (line.startsWith('>')) {
      const all = [];
      for (; i < lines.length && lines[i].startsWith('>'); i++) all.push(lines[i].replace(/^> ?/, ''));
      out.push(h('blockquote', {}, inline(all.join(' '), from)));
    } else {
      const all = paragraph();
      out.push(h('p', {}, inline(all || lines[i++], from)));
    }
  }
  return out;
}

export function helpScreen(app, page, query) {
  const field = h('input', { type: 'search', placeholder: 'Search the documentation', 'aria-label': 'search the documentation', value: query.get('q') || '' });
  const said = h('span', { class: 'dim', role: 'status' });
  const text = h('article', { class: 'doc', tabindex: '-1' });
  const screen = { title: 'Help', stop: () => { clearTimeout(later); later = 0; }, changed: () => {}, focus: () => text.focus({ preventScroll: true }),
    key: (k) => { if (k === '/') { field.focus(); field.select(); return true; } return false; } };
  let later = 0;
  const show = async () => {
    try {
      const r = await fetch(`${base}${page}.md`);
      if (!r.ok) throw new Error(r.status === 404 ? `there is no page ${page}` : r.statusText);
      fill(text, markdown(await r.text(), page));
      const title = text.querySelector('h1');
      if (title) { screen.title = title.textContent; app.changed(); }
      const at = query.get('at') && text.querySelector(`[id="${CSS.escape(`s-${query.get('at')}`)}"]`);
      if (at) at.scrollIntoView(); else text.scrollTop = 0;
    } catch (e) { fill(text, h('p', { class: 'bad', role: 'alert' }, `The page cannot be read: ${e.message}`)); }
  };
  const find = async () => {
    const q = field.value.trim();
    history.replaceState(null, '', `#/help/${encodeURIComponent(page)}${q ? `?q=${encodeURIComponent(q)}` : ''}`);
    if (!q) { fill(said, ''); await show(); return; }
    try {
      const hits = await (await fetch(`${base}search?q=${encodeURIComponent(q)}`)).json();
      if (field.value.trim() !== q) return;
      fill(said, hits.length === 0 ? 'nothing found' : `${hits.length} sections`);
      fill(text, h('ul', { class: 'hits' }, hits.map((s) => h('li', {}, h('a', { href: `#/help/${encodeURIComponent(s.page)}?at=${encodeURIComponent(slug(s.heading))}` }, s.heading || s.page),
        h('span', { class: 'dim' }, ` ${s.title}`), h('p', {}, s.excerpt)))));
    } catch (e) { fill(said, `the search failed: ${e.message}`); }
  };
  field.addEventListener('input', () => { clearTimeout(later); later = setTimeout(find, 150); });
  screen.element = h('div', { class: 'screen' }, h('div', { class: 'bar' }, h('a', { href: '#/help/index' }, 'All pages'), field, said), text);
  if (query.get('q')) find(); else show();
  return screen;
}
