// The handlers by name. One returns a result as JSON, throws to be tried again, or throws Reject: its message becomes a
// dead letter at once. signal is aborted when the message was cancelled, or its lease is lost.
import { setTimeout as sleep } from "node:timers/promises";

export class Reject extends Error {}

export const handlers = {
  "thumbnail.make": async ({ payload, attempts, signal }) => {
    if (!payload.image) throw new Reject("the payload has no image");
    if (attempts <= (payload.failures ?? 0)) throw new Error(`attempt ${attempts} fails, as asked`);
    await sleep((payload.seconds ?? 0) * 1000, undefined, { signal });
    return { thumbnail: `${payload.image}.small`, attempts };
  },
};
