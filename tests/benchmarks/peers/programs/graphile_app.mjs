// graphile-worker, run as a library; the same commands as common.py.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.env.PEER_HOME}/`);
const { makeWorkerUtils, run, Logger } = require("graphile-worker");

const connectionString = process.env.DATABASE_URL;
const logger = new Logger(() => (level, message) => level === "error" && !/poisoned/.test(message) && console.error(message));
const LONG = 600_000;

function payload(key) {
  return { key, carrier: "UA", origin: "EWR", dest: "IAH", tail: "N14228", flight: 1545, hour: 5 };
}

function mark(event, key) {
  appendFileSync(process.env.MARKS, `${event} ${key} ${process.pid} ${process.hrtime.bigint()}\n`);
}

const taskList = {
  noop: async () => {},
  mark: async ({ key }) => mark("started", key),
  poison: async ({ key }) => {
    mark("poisoned", key);
    throw new Error("poisoned");
  },
  hold: async ({ key }) => {
    const first = !existsSync(process.env.MARKS) || !readFileSync(process.env.MARKS, "utf8").includes("held");
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

async function produce(utils, plan) {
  const queue = messages(plan);
  async function client() {
    for (let next = queue.next(); !next.done; next = queue.next()) {
      const [key, handler, due] = next.value;
      if (due > performance.now()) await sleep(due - performance.now());
      await utils.addJob(handler, payload(key), { maxAttempts: 3 });
      if ((plan.handler ?? "noop") !== "noop") mark("sent", key);
    }
  }
  await Promise.all(Array.from({ length: plan.clients ?? 1 }, client));
}

async function fill(utils, count) {
  for (let first = 0; first < count; first += 1000) {
    const keys = Array.from({ length: Math.min(1000, count - first) }, (_, index) => first + index);
    await utils.addJobs(keys.map((key) => ({ identifier: "noop", payload: payload(key) })));
  }
}

const [verb, argument] = process.argv.slice(2);
if (verb === "work") {
  const runner = await run({ preset: { worker: { connectionString, logger, ...JSON.parse(argument) } }, taskList });
  await runner.promise;
} else {
  const utils = await makeWorkerUtils({ connectionString, maxPoolSize: 8, logger });
  if (verb === "install") await utils.migrate();
  if (verb === "fill") await fill(utils, Number(argument));
  if (verb === "produce") await produce(utils, JSON.parse(argument));
  await utils.release();
}
