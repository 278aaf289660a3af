// pg-boss: one queue of the policy standard for all handlers; the same commands as common.py.
import { createRequire } from "node:module";
import { ATTEMPTS, chunks, CONNECTIONS, handlers, payload, produce } from "./common.mjs";

const require = createRequire(`${process.env.PEER_HOME}/`);
const { PgBoss } = require("pg-boss");

const QUEUE = "benchmark";
const connectionString = process.env.DATABASE_URL;

async function started(options) {
  const boss = new PgBoss({ connectionString, ...options });
  boss.on("error", console.error);
  await boss.start();
  return boss;
}

function run({ data: { handler, ...data } }) {
  return handlers[handler](data);
}

async function runAll(jobs) {
  await Promise.all(jobs.map(run));
}

async function runEach(jobs) {
  const settled = await Promise.allSettled(jobs.map(run));
  return settled.map(({ status }, index) => ({
    id: jobs[index].id,
    status: status === "fulfilled" ? "completed" : "failed",
  }));
}

async function work({ notify = false, work: options = {} }) {
  const boss = await started({ useListenNotify: notify });
  // Those who start to enqueue from here on notify.
  if (notify) await boss.updateQueue(QUEUE, { notify });
  await boss.work(QUEUE, options, options.perJobResults ? runEach : runAll);
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => boss.stop({ timeout: 5000 }));
}

const [verb, argument] = process.argv.slice(2);
if (verb === "work") {
  await work(JSON.parse(argument));
} else {
  const boss = await started({ max: CONNECTIONS, supervise: false, schedule: false });
  if (verb === "install") {
    await boss.createQueue(QUEUE, { policy: "standard", retryLimit: ATTEMPTS - 1, retryDelay: 1 });
  }
  if (verb === "fill") {
    for (const keys of chunks(Number(argument))) {
      await boss.insert(QUEUE, keys.map((key) => ({ data: { handler: "noop", ...payload(key) } })));
    }
  }
  if (verb === "produce") {
    await produce(JSON.parse(argument), (handler, key) => boss.send(QUEUE, { handler, ...payload(key) }));
  }
  await boss.stop();
}
