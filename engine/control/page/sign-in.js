// Who is signed in here: with a link once, and after that by a proof, also after a restart of the server.
//
// While the server is away, any program of its machine may take its port, and gets what this page sends there. So the page
// sends a proof over a challenge, and nothing else before the server has proven in turn that it is the one that signed this
// browser in. The secret is a key that no script can read, kept by the browser for this origin: a page that such a program
// serves can't take it away either.

import { LinkClosed } from "./client/errors.js";
import { ASKING_ONCE_MS, LOST, post, REFUSED } from "./client/links.js";

export const FOREIGN = "Another program answers at this address.";

const DATABASE = "engine";
const STORE = "sign-in";
const NAME = "browser";
const HMAC = { name: "HMAC", hash: "SHA-256" };
// Where the browser has no such keys (over plain HTTP from another machine), the server's key is kept for this tab; it ends
// with the server.
const KEY = "engine.key";

/** Return the ticket of a link in the address, and take it out of the address and of the history; null: there is none. */
export function takeTicket() {
  const match = /^#k=([\w-]+)/.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", `${location.pathname}#/`);
  return match[1];
}

/** Whether this browser was signed in, and may still be. */
export async function isSignedIn() {
  return sessionStorage.getItem(KEY) !== null || (await load()) !== null;
}

/** Return what `connect` asks for a key each time it connects. *ticket*: of a link that was just opened. */
export function signInWith(ticket) {
  let unused = ticket;
  return async (place) => {
    let refused = new LinkClosed(REFUSED, "this browser is not signed in");
    if (unused) {
      try {
        const answer = await post(place, "v1/login", JSON.stringify({ ticket: unused }), AbortSignal.timeout(ASKING_ONCE_MS));
        await keep(answer);
        unused = null;
        return answer.key;
      } catch (error) {
        if (error.code !== REFUSED) throw error;
        // A link that was used already: what it would give may be here.
        unused = null;
        refused = error;
      }
    }
    const kept = await load();
    if (kept) return prove(place, kept);
    const key = sessionStorage.getItem(KEY);
    if (!key) throw refused;
    return key;
  };
}

/** Forget what signs this browser in. */
export async function signOut() {
  sessionStorage.removeItem(KEY);
  await inStore("readwrite", (store) => store.delete(NAME)).catch(() => {});
}

async function prove(place, { browser, secret }) {
  const { challenge } = await post(place, "v1/challenge", "{}");
  const nonce = toText(crypto.getRandomValues(new Uint8Array(32)));
  const message = (side) => new TextEncoder().encode(`${side}\n${challenge}\n${nonce}`);
  const proof = toText(new Uint8Array(await crypto.subtle.sign("HMAC", secret, message("page"))));
  const answer = await post(place, "v1/login", JSON.stringify({ browser, challenge, nonce, proof }));
  const isServer = await crypto.subtle.verify("HMAC", secret, toBytes(answer.proof ?? ""), message("server"));
  if (!isServer) throw new LinkClosed(LOST, FOREIGN);
  return answer.key;
}

/** Keep what signs this browser in. */
async function keep({ key, browser, secret: text, seconds }) {
  sessionStorage.removeItem(KEY);
  try {
    const secret = await crypto.subtle.importKey("raw", new TextEncoder().encode(text), HMAC, false, ["sign", "verify"]);
    await inStore("readwrite", (store) => store.put({ browser, secret, until: Date.now() + seconds * 1000 }, NAME));
  } catch {
    sessionStorage.setItem(KEY, key);
  }
}

async function load() {
  try {
    const kept = await inStore("readonly", (store) => store.get(NAME));
    return kept && kept.until > Date.now() ? kept : null;
  } catch {
    return null;
  }
}

/** Run a request in the store; return its result. */
async function inStore(mode, run) {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await resultOf(opening);
  try {
    return await resultOf(run(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function toText(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function toBytes(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
}
