/** The events that the lanes need and the page of a session has not loaded: those of the newest turn, and of sub-agents. */

const PAGE = 500;
/** Events of a turn, and sub-agents, that are loaded: what is older is not drawn. */
const MOST_EVENTS = 40_000;
const MOST_SESSIONS = 200;

/**
 * Read what is missing. What comes is complete for each session up to the moment at which it was read, so that events that
 * came meanwhile continue it.
 * @param {(method: string, params: object) => Promise<any>} call asks the server
 * @param {string} id the session
 * @param {Record<string, any>[]} loaded what is there already; in place of an event that was too large it has a reference
 * @returns {Promise<Record<string, any>[]>} in the order in which they are to be fed, before those that are loaded
 */
export async function loadRecord(call, id, loaded) {
  const own = [];
  for (const event of loaded) {
    if (event.session_id === id && typeof event.seq === "number") own.push(event);
    if (event.type === "elided" && event.href.includes(`/${id}/`)) {
      own.push(...(await call("events", { session_id: id, after: event.seq - 1, limit: 1 })).events);
    }
  }
  return [...(await earlierEvents(call, id, own)), ...own, ...(await subAgentEvents(call, id))];
}

/** The session's events before *own*, from the beginning of the newest turn. */
async function earlierEvents(call, id, own) {
  const turn = own.findLast((event) => event.turn_id)?.turn_id;
  const begins = (events) => events.some((event) => event.type === "turn_started" && event.turn_id === turn);
  let [first, events] = [own[0]?.seq ?? 1, []];
  while (turn !== undefined && first > 1 && events.length < MOST_EVENTS && !begins(own) && !begins(events)) {
    const after = Math.max(0, first - 1 - PAGE);
    const page = (await call("events", { session_id: id, after, limit: PAGE })).events.filter((event) => event.seq < first);
    events = [...page, ...events];
    first = after + 1;
  }
  return events;
}

async function subAgentEvents(call, id) {
  const [sessions, events] = [[id], []];
  for (let n = 0; n < sessions.length && sessions.length <= MOST_SESSIONS; n += 1) {
    // The newest come first.
    for (const row of (await childrenOf(call, sessions[n])).reverse()) {
      sessions.push(row.id);
      events.push(...(await allEvents(call, row.id)));
    }
  }
  return events;
}

async function childrenOf(call, id) {
  try {
    return (await call("session.list", { parent: id, limit: MOST_SESSIONS })).rows;
  } catch (error) {
    // A store in memory has no lists: then only those that run now are drawn.
    if (error.kind === "unsupported") return [];
    throw error;
  }
}

async function allEvents(call, id) {
  const all = [];
  for (let more = true; more && all.length < MOST_EVENTS; ) {
    const page = await call("events", { session_id: id, after: all.at(-1)?.seq ?? 0, limit: PAGE });
    all.push(...page.events);
    more = page.more && page.events.length > 0;
  }
  return all;
}
