// A worker in Node.js: it runs the messages of one queue by seven SQL functions of pgqueue, and LISTEN.
// Settings: DATABASE_URL or PGHOST, PGPORT, …; QUEUE; SLOTS: messages at the same time; LEASE_SECONDS.
import os from "node:os";
import pg from "pg";
import { Reject, handlers } from "./handlers.mjs";

const QUEUE = process.env.QUEUE ?? "default";
const SLOTS = Number(process.env.SLOTS ?? 4);
const LEASE_SECONDS = Number(process.env.LEASE_SECONDS ?? 15);
// The longest sleep: no NOTIFY is sent when a rate gives a token, or a delay is over.
const LOOK_SECONDS = Number(process.env.LOOK_SECONDS ?? 1);
const NAME = `node-${os.hostname()}-${process.pid}`;

const connection = { connectionString: process.env.DATABASE_URL, application_name: NAME };
const pool = new pg.Pool({ ...connection, max: 2 });
const ear = new pg.Client(connection); // LISTEN needs a session of its own, without a transaction pooler.
const running = new Map(); // message id → { token, abort, done }
let stopping = false;
let woken = false;
let ring = () => {};
const wake = () => ((woken = true), ring());

const call = async (sql, values) => (await pool.query(sql, values)).rows;

// Gives up: the leases end by themselves, and systemd, Kubernetes or the like starts the worker again.
const fail = (error) => {
  console.error(`${NAME} stops: ${error.message}`);
  process.exit(1);
};

const dequeue = (limit) =>
  call("SELECT * FROM pgqueue_dequeue($1, $2, make_interval(secs => $3), $4)", [QUEUE, limit, LEASE_SECONDS, NAME]);

// Each settlement names the token of the lease. The last argument leaves out a message whose lease is lost, instead of
// an error: another worker has it then, so there is nothing to do.
const settle = {
  complete: ({ id, token }, result) =>
    call("SELECT pgqueue_complete($1, $2, $3::text[]::jsonb[], true)", [[id], [token], [JSON.stringify(result ?? null)]]),
  retry: ({ id, token }, error) =>
    call("SELECT pgqueue_retry($1, $2, $3::text[]::jsonb[], p_skip_lost => true)", [[id], [token], [failure(error)]]),
  giveBack: ({ id, token }) => call("SELECT pgqueue_defer($1, $2, p_skip_lost => true)", [[id], [token]]),
  deadLetter: ({ id, token }, reason, error) =>
    call("SELECT pgqueue_dead_letter($1, $2, $3, $4::text[]::jsonb[], true)", [
      [id], [token], [reason], [failure(error)],
    ]),
};

// The admin, the CLI and the reports show type and message; keep secrets out of both.
const failure = (error) =>
  JSON.stringify({ type: error.name, message: String(error.message).slice(0, 1000), worker: NAME });

async function run(message, abort) {
  const handler = handlers[message.handler];
  if (!handler) return settle.deadLetter(message, "unknown_handler", new Error(`no handler ${message.handler}`));
  let result;
  try {
    result = await handler({ ...message, signal: abort.signal });
  } catch (error) {
    if (error instanceof Reject) return settle.deadLetter(message, "rejected", error);
    return settle.retry(message, error); // Also a cancelled message: this moves it to the archive.
  }
  return settle.complete(message, result);
}

function start(message) {
  const abort = new AbortController();
  const done = run(message, abort).catch(fail).finally(() => {
    running.delete(message.id);
    wake();
  });
  running.set(message.id, { token: message.token, abort, done });
}

// Extends all leases. A message that is not in the answer is lost.
async function heartbeat() {
  const held = [...running];
  if (held.length === 0) return;
  const rows = await call("SELECT * FROM pgqueue_heartbeat($1, $2, make_interval(secs => $3), true)", [
    held.map(([id]) => id), held.map(([, { token }]) => token), LEASE_SECONDS,
  ]);
  const kept = new Set(rows.filter((row) => !row.cancelled).map((row) => row.id));
  for (const [id, { abort }] of held) if (!kept.has(id)) abort.abort();
}

// Sleeps until a NOTIFY, the end of a message, or LOOK_SECONDS. Workers that sleep are notified, no others.
async function sleep() {
  if (!woken) {
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, LOOK_SECONDS * 1000);
      ring = () => (clearTimeout(timer), resolve());
    });
  }
  woken = false;
}
const announce = (seconds) => call("SELECT pgqueue_wait($1, $2, make_interval(secs => $3))", [NAME, [QUEUE], seconds]);

for (const word of ["SIGTERM", "SIGINT"]) process.on(word, () => ((stopping = true), wake()));
pool.on("error", fail);
ear.on("error", fail);
ear.on("notification", ({ payload }) => payload === QUEUE && wake());
await ear.connect().catch(fail);
await ear.query("LISTEN pgqueue");
const beating = setInterval(() => heartbeat().catch(fail), (LEASE_SECONDS * 1000) / 3);
console.log(`${NAME} serves the queue ${QUEUE}`);

async function serve() {
  while (!stopping) {
    let messages = running.size < SLOTS ? await dequeue(SLOTS - running.size) : [];
    if (messages.length === 0 && running.size < SLOTS) {
      await announce(LOOK_SECONDS + 1);
      messages = await dequeue(SLOTS - running.size); // What came before the announcement was not notified.
    }
    if (stopping) await Promise.all(messages.map(settle.giveBack));
    else messages.forEach(start);
    if (messages.length === 0) await sleep();
  }
  await announce(0);
  await Promise.all([...running.values()].map(({ done }) => done));
}

await serve().catch(fail);
clearInterval(beating);
await Promise.all([ear.end(), pool.end()]);
