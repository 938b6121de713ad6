// Folds journals: reads one as a line of JSON, a list of events, and writes the state after it, with the indexes of the
// events that could not follow.
import { createInterface } from "node:readline";
import { emptyState, fold, FoldError, statusOf } from "../../engine/control/page/client/fold.js";

for await (const line of createInterface({ input: process.stdin })) {
  let state = emptyState();
  const refused = [];
  const events = JSON.parse(line);
  for (const [index, event] of events.entries()) {
    // As after a snapshot: what the fold keeps beside the state is not there.
    if (index === events.length >> 1) state = JSON.parse(JSON.stringify(state));
    try {
      state = fold(state, event);
    } catch (error) {
      if (!(error instanceof FoldError)) throw error;
      refused.push(index);
    }
  }
  console.log(JSON.stringify({ state, status: statusOf(state), refused }));
}
