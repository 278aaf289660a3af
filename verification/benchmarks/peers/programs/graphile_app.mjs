// graphile-worker, run as a library; the same commands as common.py.
import { createRequire } from "node:module";
import { ATTEMPTS, chunks, CONNECTIONS, handlers, payload, POISONED, produce } from "./common.mjs";

const require = createRequire(`${process.env.PEER_HOME}/`);
const { makeWorkerUtils, run, Logger } = require("graphile-worker");

const connectionString = process.env.DATABASE_URL;
const logger = new Logger(
  () => (level, message) => level === "error" && !message.includes(POISONED) && console.error(message),
);

const [verb, argument] = process.argv.slice(2);
if (verb === "work") {
  const preset = { worker: { connectionString, logger, ...JSON.parse(argument) } };
  const runner = await run({ preset, taskList: handlers });
  await runner.promise;
} else {
  const utils = await makeWorkerUtils({ connectionString, maxPoolSize: CONNECTIONS, logger });
  if (verb === "install") await utils.migrate();
  if (verb === "fill") {
    for (const keys of chunks(Number(argument))) {
      await utils.addJobs(keys.map((key) => ({ identifier: "noop", payload: payload(key) })));
    }
  }
  if (verb === "produce") {
    await produce(JSON.parse(argument), (handler, key) =>
      utils.addJob(handler, payload(key), { maxAttempts: ATTEMPTS }),
    );
  }
  await utils.release();
}
