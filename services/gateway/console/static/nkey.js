// Keys of NATS users (NKeys). The seed is turned into a key that signs and cannot be read out again; the page keeps
// nothing else of it.

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const prefixSeed = 18 << 3;
const prefixUser = 20 << 3;

function decode32(text) {
  const out = [];
  let bits = 0;
  let value = 0;
  for (const c of text) {
    const i = alphabet.indexOf(c);
    if (i < 0) throw new Error('this is no key of a user: want SU and 56 more characters');
    value = (value << 5) | i;
    bits += 5;
    if (bits >= 8) { bits -= 8; out.push((value >> bits) & 255); value &= (1 << bits) - 1; }
  }
  return Uint8Array.from(out);
}

function encode32(bytes) {
  let out = '';
  let bits = 0;
  let value = 0;
  for (const b of bytes) {
    value = (value << 8) | b;
    bits += 8;
    while (bits >= 5) { bits -= 5; out += alphabet[(value >> bits) & 31]; value &= (1 << bits) - 1; }
  }
  return bits ? out + alphabet[(value << (5 - bits)) & 31] : out;
}

function crc16(bytes) {
  let crc = 0;
  for (const b of bytes) {
    crc ^= b << 8;
    for (let i = 0; i < 8; i++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

const url64 = (bytes) => btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
const of64 = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));

// fromSeed makes the key of a user out of a seed, as inspan user add writes it.
export async function fromSeed(text) {
  const found = /SU[A-Z2-7]{56}/.exec(text);
  if (!found) throw new Error('this is no key of a user: want SU and 56 more characters, as inspan user add writes it');
  if (!globalThis.crypto || !crypto.subtle) {
    throw new Error('keys work only at https:// and at the address 127.0.0.1 or localhost: open the console there');
  }
  const raw = decode32(found[0]);
  const sum = raw[raw.length - 2] | (raw[raw.length - 1] << 8);
  const kind = ((raw[0] & 7) << 5) | (raw[1] >> 3);
  if ((raw[0] & 0xf8) !== prefixSeed || kind !== prefixUser || crc16(raw.subarray(0, -2)) !== sum) {
    throw new Error('this key is damaged: a character of it is wrong');
  }
  const pkcs8 = new Uint8Array(48);
  pkcs8.set([0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]);
  pkcs8.set(raw.subarray(2, 34), 16);
  let whole;
  try { whole = await crypto.subtle.importKey('pkcs8', pkcs8, 'Ed25519', true, ['sign']); } catch (e) {
    throw new Error('this browser does not know keys of this kind (Ed25519): take a newer one, or sign in with a token');
  }
  const { x } = await crypto.subtle.exportKey('jwk', whole);
  const key = await crypto.subtle.importKey('pkcs8', pkcs8, 'Ed25519', false, ['sign']);
  pkcs8.fill(0);
  raw.fill(0);
  const head = new Uint8Array(35);
  head[0] = prefixUser;
  head.set(of64(x), 1);
  const crc = crc16(head.subarray(0, 33));
  head[33] = crc & 255;
  head[34] = crc >> 8;
  return userKey(encode32(head), key);
}

// userKey signs with a key of the browser.
export function userKey(name, key) {
  return { public: name, key,
    sign: async (nonce) => url64(new Uint8Array(await crypto.subtle.sign('Ed25519', key, new TextEncoder().encode(nonce)))) };
}
