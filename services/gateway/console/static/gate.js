// A gate: what is asked, and its answer. Nothing can be answered before what is asked was read and is shown, and the
// answer names it by its hash.
import { asksFor } from './fold.js';
import { h, fill, inputs, diff, took, linked } from './dom.js';

// unread is how long, in milliseconds, a gate is shown before keys answer it.
const unread = 600;

// proof says how it is known who answered.
const proof = (assurance) => ({ subject: 'proven by the NATS user', signature: 'proven by a signature', asserted_by_gateway: 'as the gateway says' }[assurance] || 'not proven');

// proposalOf shows the action that waits.
function proposalOf(g, input) {
  const p = g.proposal || {};
  if (g.scope === 'call') return [h('h4', {}, 'Arguments'), inputs(input)];
  const { run, agent_digest: digest, output_hash: hash, ...rest } = p;
  return [h('h4', {}, 'What is asked'), inputs(rest)];
}

// argumentsLeftOut reads the arguments of a call that are too long for the proposal, which has their hash.
async function argumentsLeftOut(app, g) {
  for (const e of await app.station.ofKind(g.run, 'turn.finished')) {
    const c = (e.data.calls || []).find((x) => x.id === g.call);
    if (c) return c.input_ref ? JSON.parse(await app.station.text(c.input_ref)) : c.input;
  }
  throw new Error('the log does not have them');
}

// argumentsOf is what can be edited: the arguments of a call.
const argumentsOf = (g) => (g.scope === 'call' && g.proposal && g.proposal.input && typeof g.proposal.input === 'object' ? g.proposal.input : undefined);

// gateCard shows a gate with its answers. It returns the element, and keys that work while it is chosen.
export function gateCard(app, g) {
  const status = h('div', { class: 'answer', role: 'status' });
  const preview = h('div', {});
  const reason = h('input', { type: 'text', placeholder: 'reason (optional)', 'aria-label': 'reason of the answer', maxlength: '1000' });
  const editable = argumentsOf(g);
  const edit = h('textarea', { class: 'code', rows: '8', spellcheck: 'false', 'aria-label': 'arguments as JSON' });
  const editor = h('div', { hidden: true }, h('p', { class: 'dim' }, 'Approve with these arguments. They are checked and judged as any call.'), edit);
  // What is not shown cannot be answered.
  let busy = g.scope === 'call' && !(g.proposal && g.proposal.input !== undefined);
  const asked = h('div', {}, busy ? h('p', { class: 'dim' }, 'Reading the arguments…') : proposalOf(g, (g.proposal || {}).input));

  async function answer(decision) {
    if (busy || g.status) return;
    const out = { decision, proposal_hash: g.hash };
    if (reason.value.trim()) out.reason = reason.value.trim();
    if (decision === 'approve' && !editor.hidden) {
      try {
        const value = JSON.parse(edit.value);
        if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('it is no object');
        if (JSON.stringify(value) !== JSON.stringify(editable)) out.edited_input = value;
      } catch (e) { fill(status, h('p', { class: 'bad' }, `The arguments are no JSON object: ${e.message}`)); edit.focus(); return; }
    }
    busy = true;
    buttons.forEach((b) => { b.disabled = true; });
    fill(status, h('p', { class: 'dim' }, 'Sending…'));
    try {
      const e = await app.answer(g.run, g.id, out);
      const d = e.data || {};
      if (d.votes && d.approvers && d.votes < d.approvers) {
        fill(status, h('p', { class: 'good' }, `Recorded: ${d.votes} of ${d.approvers} approvals.`));
      } else {
        g.status = decision === 'approve' ? 'approved' : 'rejected';
        fill(status, h('p', { class: decision === 'approve' ? 'good' : 'warn' }, decision === 'approve' ? 'Approved: the run goes on.' : 'Rejected: the run is paused.',
          d.by ? ` Recorded: ${d.by}, ${proof(d.assurance)}.` : ''));
      }
    } catch (e) {
      const hint = e.code === 'denied' ? ': you may not answer gates here. An operator gives the right (inspan user add NAME --may approve, or a token with gates:answer); with a key, the name must be yours' : '';
      fill(status, h('p', { class: 'bad', role: 'alert' }, `Not answered: ${e.message}${hint}`));
    } finally {
      busy = false;
      buttons.forEach((b) => { b.disabled = Boolean(g.status); });
    }
  }

  const startEdit = () => {
    if (!editable || g.status) return;
    editor.hidden = !editor.hidden;
    if (!editor.hidden) { if (!edit.value) edit.value = JSON.stringify(editable, null, 2); edit.focus(); }
  };
  const approve = h('button', { class: 'primary', on: { click: () => answer('approve') } }, 'Approve ', h('kbd', {}, 'a'));
  const reject = h('button', { class: 'danger', on: { click: () => answer('reject') } }, 'Reject ', h('kbd', {}, 'r'));
  const change = editable && h('button', { on: { click: startEdit } }, 'Edit arguments ', h('kbd', {}, 'e'));
  const buttons = [approve, reject, change].filter(Boolean);

  if (busy) {
    buttons.forEach((b) => { b.disabled = true; });
    argumentsLeftOut(app, g).then((input) => {
      fill(asked, proposalOf(g, input));
      busy = false;
      buttons.forEach((b) => { b.disabled = false; });
    }, (e) => fill(asked, h('p', { class: 'bad' }, `The arguments cannot be shown: ${e.message}`)));
  }
  let previewed = false;
  // showPreview shows what the call would change, once it is known.
  function showPreview(p) {
    if (previewed) return;
    previewed = true;
    if (!p.diff) { fill(preview, h('p', { class: 'dim' }, p.reason ? `No preview: ${p.reason}` : '')); return; }
    fill(preview, h('p', { class: 'dim' }, 'Loading the changes…'));
    app.station.text(p.diff).then((t) => fill(preview, h('h4', {}, p.truncated ? 'What it would change (cut)' : 'What it would change'), diff(t)),
      (e) => fill(preview, h('p', { class: 'dim' }, `The changes cannot be shown: ${e.message}`)));
  }
  if (g.preview) showPreview(g.preview);


  reason.addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); answer('reject'); } });
  const open = !g.status;
  const shown = performance.now();
  const element = h('section', { class: 'card gate', 'aria-label': 'gate' },
    h('p', { class: 'lead' }, linked(asksFor(g))),
    h('p', { class: 'dim' }, g.reason || '', g.rule ? ` · rule ${g.rule}` : '', g.approvers > 1 ? ` · ${g.approvers} approvers` : '',
      open && g.opened ? ` · waits for ${took(Date.now() - g.opened)}` : '', open && g.expires ? ` · until ${new Date(g.expires).toLocaleString()}${g.onExpiry ? `, then ${g.onExpiry}` : ''}` : ''),
    asked, preview, editor,
    open ? h('div', { class: 'actions' }, approve, reject, change, reason) : h('p', {}, `${g.status}${g.by ? ` by ${g.by}` : ''}${g.assurance ? `, ${proof(g.assurance)}` : ''}${g.why ? `: ${g.why}` : ''}`),
    status);
  return { element,
    preview: showPreview,
    key(k) {
      if (!open) return false;
      // A key that was meant for the gate before this one does nothing.
      if (['a', 'r', 'e'].includes(k) && performance.now() - shown < unread) return true;
      if (k === 'a') { answer('approve'); return true; }
      if (k === 'r') {
        // The first r asks for a reason, Enter or the button sends.
        if (document.activeElement !== reason) { reason.placeholder = 'why? Enter rejects, Escape goes back'; reason.focus(); }
        return true;
      }
      if (k === 'e') { startEdit(); return Boolean(editable); }
      return false;
    } };
}

// gateOf makes a gate out of its event.
export function gateOf(run, event) {
  const d = event.data || {};
  return { id: d.gate_id, run, description: d.description, reason: d.reason, rule: d.rule, scope: d.scope, proposal: d.proposal, hash: d.proposal_hash,
    opened: Date.parse(event.time), expires: d.expires_at, onExpiry: d.on_expiry, approvers: d.approvers, step: d.step_id, call: d.call_id };
}
