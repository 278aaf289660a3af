// What common.py has, for the programs that run on Node.js.
import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const LONG = 600_000;

export const CONNECTIONS = 8;
export const ATTEMPTS = 3;
export const POISONED = "poisoned";

export function payload(key) {
  return { key, carrier: "UA", origin: "EWR", dest: "IAH", tail: "N14228", flight: 1545, hour: 5 };
}

function mark(event, key) {
  appendFileSync(process.env.MARKS, `${event} ${key} ${process.pid} ${process.hrtime.bigint()}\n`);
}

export const handlers = {
  noop: async () => {},
  mark: async ({ key }) => mark("started", key),
  poison: async ({ key }) => {
    mark("poisoned", key);
    throw new Error(POISONED);
  },
  hold: async ({ key }) => {
    const first = !readFileSync(process.env.MARKS, "utf8").includes("held");
    mark("held", key);
    if (first) await sleep(LONG);
  },
};

function* messages({ handler = "noop", count = 0, rate = 0, poison_every: every = 0 }) {
  const began = performance.now();
  for (let key = 0; key < (count || Infinity); key++) {
    const due = rate ? began + ((key + Math.random()) / rate) * 1000 : 0;
    yield [key, every && key % every === Math.floor(every / 2) ? "poison" : handler, due];
  }
}

export async function produce(plan, enqueue) {
  const queue = messages(plan);
  async function client() {
    for (let next = queue.next(); !next.done; next = queue.next()) {
      const [key, handler, due] = next.value;
      if (due > performance.now()) await sleep(due - performance.now());
      await enqueue(handler, key);
      if ((plan.handler ?? "noop") !== "noop") mark("sent", key);
    }
  }
  await Promise.all(Array.from({ length: plan.clients ?? 1 }, client));
}

export function* chunks(count, size = 1000) {
  for (let first = 0; first < count; first += size) {
    yield Array.from({ length: Math.min(size, count - first) }, (_, index) => first + index);
  }
}
