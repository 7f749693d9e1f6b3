import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { styleText } from 'node:util';
import { serve } from 'srvx';
import type { ServerRequest } from 'srvx';

import { unusable } from './database.ts';
import { Failure } from '../cli/arguments.ts';
import { dataDir } from '../cli/local-server.ts';
import { signInUrl } from './sign-in-link.ts';
import { printable } from '../cli/terminal.ts';
import { keepRelaying } from '../lib/bus/relay/keep-relaying.ts';
import { database, relayedSubscribers, subscribers } from '../lib/components/database.ts';
import { config, relays } from '../lib/components/postbud.ts';
import { keepPerforming } from '../lib/edge/cron/keep-performing.ts';
import { InvalidConfiguration, readConfig } from '../lib/platform/config.ts';
import { migrate } from '../lib/bus/migrations/migrate.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { Problem, problemResponse } from '../lib/platform/http/problem.ts';
import { logTo } from '../lib/platform/log.ts';
import type { LogLine } from '../lib/platform/log.ts';
import { demo } from './demo.ts';
import { developmentRoutes } from './development-routes.ts';
import type { DevelopmentRoutes } from './development-routes.ts';
import { keepPrivate, generatePartners, generateSecrets, publish } from './development.ts';
import { greeting, nextSteps } from './greeting.ts';
import { requireLocalHost } from './local-names.ts';
import { requireRightVariables } from './right-variables.ts';
import { createRouter } from './router.ts';
import { SECOND } from '../lib/platform/time.ts';
import { serveSite } from './site-server.ts';
import { listenNear, NO_STAND_INS, startStandIns } from './stand-ins.ts';

/**
 * `npm start`: serves the functions of `api/` behind the routes of `vercel.json`, with a database and a relay that runs
 * until the server stops.
 *
 * With the embedded database, which holds only a developer's data, it also starts stand-ins, sends the demo's traffic
 * and answers `/dev/…`, where the demo makes and watches it. With `DATABASE_URL` it does none of that.
 */
async function start(): Promise<void> {
  logToConsole();
  requireRightVariables();
  // Not `config()`, which is read once: the secrets are not generated yet.
  const { port, demo: isDemoWanted, database: where } = readConfig();
  const isEmbedded = where.kind === 'embedded';
  const folder = isEmbedded ? folderOf(where.dataDir) : null;
  process.umask(0o077);
  requireOwnFolder(dataDir());
  if (folder !== null) requireOwnFolder(folder);
  const standIns = isEmbedded ? await startStandIns(port === 0 ? 0 : port + 2) : NO_STAND_INS;
  const route = createRouter(new URL('../', import.meta.url));
  let open: (routes: DevelopmentRoutes) => void = () => undefined;
  const opened = new Promise<DevelopmentRoutes>((resolve) => (open = resolve));
  const answer = async (request: ServerRequest) => {
    requireLocalHost(request);
    const dev = await opened;
    return (await dev(request)) ?? (await route(request)) ?? nothingAt(request);
  };
  const server = serve({
    port,
    hostname: 'localhost',
    silent: true,
    fetch: async (request) =>
      await answer(request).catch((error: unknown) => {
        if (error instanceof Problem) return problemResponse(error, randomUUID());
        throw error;
      }),
  });
  // First, so that a port in use is found before a database is created.
  await server.ready();
  const url = `http://localhost:${new URL(server.url ?? '').port}`;
  const generated = { ...generateSecrets(dataDir()), ...(isEmbedded && generatePartners(dataDir(), url)) };
  const db = await database();
  await migrate(db).catch((error: unknown) => {
    throw 'url' in where ? unusable(error, new URL(where.url)) : error;
  });
  if (folder !== null) keepPrivate(folder);
  const accountingSecret = process.env['SUBSCRIBER_ACCOUNTING_SECRET'] ?? '';
  const isAttached = (topic: string, name: string) =>
    subscribers().some((one) => one.name === name && one.handlers.has(topic));
  open(
    isEmbedded
      ? developmentRoutes({ db, accountingSecret, standIns, url: () => url, isAttached })
      : async () => null,
  );
  publish(dataDir(), url, generated);
  const site = await listenNear(port === 0 ? 0 : port + 1, (free) => serveSite(free, url));
  console.log(greeting(url, standIns, generated));

  const stopped = new AbortController();
  if (relays()) {
    void relayForever(db, stopped.signal);
    void keepPerforming({ db, subscribers: subscribers(), settings: config, signal: stopped.signal });
  } else console.log('RELAY=off: this server does not relay. Events wait for a server that does.\n');
  const end = () => {
    stopped.abort();
    void server.close(true).then(() => process.exit(0));
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end);
  // npm starts a shell, which passes no signal on: it is gone once npm was told to end.
  const { ppid: shell } = process;
  if (process.env['npm_lifecycle_event'] === 'start')
    setInterval(() => process.ppid !== shell && end(), SECOND).unref();

  if (isEmbedded && isDemoWanted) {
    console.log('Sending the demo’s traffic (to start without it, set DEMO=off).\n');
    // The demo lists its requests itself.
    logToConsole(false);
    await demo({ url, variables: generated }, console.log);
    logToConsole();
  }
  // Beside a real database a token in a terminal, or in a log of it, would open somebody's data.
  const consoleUrl = isEmbedded ? await signInUrl(url) : `${url}/platform/event-bus`;
  console.log(nextSteps(site.url, consoleUrl, standIns));
}

/** Writes log lines to the console, with or without one for each request. */
function logToConsole(withRequests = true): void {
  logTo((line) => {
    if (withRequests || line.message !== 'request') console.log(inWords(line));
  });
}

/** The folder of an embedded database's files; null in memory. */
function folderOf(where: string): string | null {
  return where.startsWith('memory://') ? null : where.replace(/^file:\/\//, '');
}

/** Checks the folder at the start: the embedded database would report it only with its first failing statement. */
function requireOwnFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
    accessSync(path, constants.W_OK);
    keepPrivate(path);
  } catch {
    throw new InvalidConfiguration(
      'DATA_DIR',
      `must be a folder that you can write to, which ${path} is not`,
    );
  }
}

async function relayForever(db: Database, signal: AbortSignal): Promise<void> {
  // It throws at the end if every relay failed; the log has every error.
  await keepRelaying({ db, subscribers: relayedSubscribers(), until: Infinity, signal }).catch(
    () => undefined,
  );
}

/** Fields of every line, which are not repeated as `name=value`. */
const SHOWN = new Set(['level', 'at', 'message', 'requestId']);

/** Writes a log line for a person: a request with its status, or a message with its fields. */
function inWords(line: LogLine): string {
  const { level, at, message, method, route, path, status, durationMs } = line;
  const fields = Object.entries(line).filter(([name, value]) => !SHOWN.has(name) && value !== undefined);
  const words =
    message === 'request'
      ? `${method} ${String(printable(route ?? path))} → ${status} in ${durationMs} ms`
      : `${message} ${fields.map(([name, value]) => `${name}=${String(printable(value))}`).join(' ')}`;
  return styleText(
    level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim',
    `${at.slice(11, 19)} ${words}`,
  );
}

function nothingAt(request: Request): Response {
  const { pathname } = new URL(request.url);
  return problemResponse(
    new Problem('not_found', { detail: `There is nothing at ${pathname}.` }),
    randomUUID(),
  );
}

try {
  await start();
} catch (error) {
  if (error instanceof InvalidConfiguration) console.error(`Postbud can't start: ${error.message}`);
  else if (error instanceof Failure)
    console.error(`Postbud can't start: ${error.message}\n${error.advice ?? ''}`);
  else if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
    console.error(`Postbud can't start: port ${config().port} is in use. Set PORT to another one.`);
  } else throw error;
  process.exitCode = 1;
  process.exit();
}
