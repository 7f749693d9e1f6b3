import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { styleText } from 'node:util';

import { serve } from 'srvx';
import type { ServerRequest } from 'srvx';

import { InvalidConfiguration, providers, readable, readConfig, wrongVariables } from '../lib/config.ts';
import { duties, perform } from '../lib/cron/duties.ts';
import { migrate } from '../lib/db/connect.ts';
import type { Database } from '../lib/db/connect.ts';
import { notFound, Problem, problemResponse } from '../lib/http/problem.ts';
import { logTo } from '../lib/log.ts';
import type { LogLine } from '../lib/log.ts';
import { config, database, relays, subscribers } from '../lib/postbud.ts';
import { keepRelaying } from '../lib/relay/keep-relaying.ts';
import { remoteSubscriber } from '../lib/subscribers/http.ts';
import { MINUTE, sleep } from '../lib/time.ts';
import { unusable } from '../cli/database.ts';
import { EXIT, Failure } from '../cli/failure.ts';
import { demo } from './demo.ts';
import { developmentRoutes } from './development-routes.ts';
import type { DevelopmentRoutes } from './development-routes.ts';
import { dataDir, keepPrivate, makeUpPlayers, makeUpSecrets, publish } from './development.ts';
import { requireLocalHost } from './local-names.ts';
import { createRouter } from './router.ts';
import { signInUrl } from './sign-in-url.ts';
import { serveSite } from './site-server.ts';
import { near, NO_STAND_INS, startStandIns } from './stand-ins.ts';
import type { StandIns } from './stand-ins.ts';

/**
 * `npm start`: the functions of `api/` behind the routes of `vercel.json`, a database, and a relay that never stops.
 *
 * Beside the embedded database, which is nobody's but the developer's, it plays who is missing, sends the demo's
 * traffic, and has `/dev/…`, where the demo makes and watches it. With `DATABASE_URL` it does none of that.
 */
async function start(): Promise<void> {
  logTo((line) => console.log(inWords(line)));
  requireRightVariables();
  // Not `config()`, which is read once: the secrets are still to be made up.
  const { port, demo: isDemoWanted, database: where } = readConfig();
  const isEmbedded = where.kind === 'embedded';
  const folder = isEmbedded ? folderOf(where.dataDir) : null;
  process.umask(0o077);
  requireOwnFolder(dataDir());
  if (folder !== null) requireOwnFolder(folder);
  const madeUp = { ...makeUpSecrets(dataDir()), ...(isEmbedded && makeUpPlayers(dataDir(), port)) };
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
  // First, so that a port that is taken is found before a database is made.
  await server.ready();
  const db = await database();
  await migrate(db).catch((error: unknown) => {
    throw 'url' in where ? unusable(error, new URL(where.url)) : error;
  });
  if (folder !== null) keepPrivate(folder);
  const accountingSecret = process.env['SUBSCRIBER_ACCOUNTING_SECRET'] ?? '';
  open(isEmbedded ? developmentRoutes(db, accountingSecret, standIns) : async () => null);
  const url = `http://localhost:${new URL(server.url ?? '').port}`;
  publish(dataDir(), url, madeUp);
  const site = await near(port === 0 ? 0 : port + 1, serveSite);
  const operatorUrl = await signInUrl(url);
  console.log(banner({ url, siteUrl: `${site.url}/?api=${url}`, operatorUrl, standIns, madeUp }));

  const stopped = new AbortController();
  if (relays()) {
    void relayForever(db, stopped.signal);
    void performForever(db, stopped.signal);
  } else console.log('RELAY=off: this server does not relay. Events wait for one that does.\n');
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      stopped.abort();
      void server.close(true).then(() => process.exit(0));
    });
  }

  if (isEmbedded && isDemoWanted) {
    console.log('The demo’s traffic, sent once at the start (DEMO=off leaves it out):\n');
    await demo({ url, variables: madeUp }, console.log);
    console.log('Next: npm run demo in a second terminal sends it again, and npx postbud shows the bus.\n');
  }
}

/** A function does without what it does not need; a person who starts a server is told of everything at once. */
function requireRightVariables(): void {
  const wrong = wrongVariables();
  for (const component of readConfig().remoteSubscribers) {
    readable(
      () => remoteSubscriber(component),
      (error) => wrong.some(({ variable }) => variable === error.variable) || wrong.push(error),
    );
  }
  if (wrong.length === 0) return;
  throw new Failure(EXIT.usage, wrong.map(({ message }) => message).join('\n  '));
}

/** Where an embedded database has its files; null in memory. */
function folderOf(where: string): string | null {
  return where.startsWith('memory://') ? null : where.replace(/^file:\/\//, '');
}

/** The embedded database would say so in terms of the first statement that fails. */
function requireOwnFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
    accessSync(path, constants.W_OK);
    keepPrivate(path);
  } catch {
    throw new InvalidConfiguration('DATA_DIR', `must be a folder that you may write to, unlike ${path}`);
  }
}

async function relayForever(db: Database, signal: AbortSignal): Promise<void> {
  // It throws when it ends, should it never have worked; the log has all that went wrong.
  await keepRelaying({ db, subscribers: subscribers(), until: Infinity, signal }).catch(() => undefined);
}

/** What the platform’s cron does besides relaying, as often. */
async function performForever(db: Database, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await perform(duties, db);
    await sleep(MINUTE, signal);
  }
}

/** What every line has, or what a request's line says in its own way. */
const TOLD = new Set(['level', 'at', 'message', 'requestId']);

/** A log line for a person: what a request was and how it went, or the message with what it says of itself. */
function inWords(line: LogLine): string {
  const { level, at, message, method, route, path, status, durationMs } = line;
  const fields = Object.entries(line).filter(([name, value]) => !TOLD.has(name) && value !== undefined);
  const told =
    message === 'request'
      ? `${method} ${route ?? path} → ${status} in ${durationMs} ms`
      : `${message} ${fields.map(([name, value]) => `${name}=${String(value)}`).join(' ')}`;
  return styleText(
    level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim',
    `${at.slice(11, 19)} ${told}`,
  );
}

function nothingAt(request: Request): Response {
  const { pathname } = new URL(request.url);
  return problemResponse(notFound('not_found', `There is nothing at ${pathname}.`), randomUUID());
}

interface Greeting {
  readonly url: string;
  readonly siteUrl: string;
  readonly operatorUrl: string;
  readonly standIns: StandIns;
  readonly madeUp: Readonly<Record<string, string>>;
}

function banner({ url, siteUrl, operatorUrl, standIns, madeUp }: Greeting): string {
  const { database: where } = config();
  const isEmbedded = where.kind === 'embedded';
  const database = isEmbedded
    ? `embedded Postgres in ${where.dataDir}/ (DATABASE_URL=postgres://… takes another)`
    : `${where.kind === 'neon' ? 'Neon' : 'Postgres'} from DATABASE_URL: no stand-ins, no demo and no /dev/…, as in a deployment`;
  const attached = [...new Set(subscribers().map(({ name }) => name))];
  const lines = [
    '',
    `Postbud listens on ${url}`,
    '',
    `  database     ${database}`,
    `  relay        every 5 seconds and on every emit, for ${isEmbedded ? `${attached.length} subscribers` : `${attached.join(', ')}; what is for others waits`}`,
    `  webhooks     POST ${providers.map((provider) => `/webhooks/${provider}`).join(', ')}`,
    '  cron         GET  /api/cron/relay',
    '  operators    GET  /platform/event-bus, and what is beneath it',
    `  chat         POST /api/chat, ${chatWords(standIns)}`,
    `  mail         of POST /api/inquiry and of notifications, ${mailWords(standIns)}`,
    '  health       GET  /api/health',
  ];
  if (Object.keys(madeUp).length > 0) {
    const width = Math.max(...Object.keys(madeUp).map((name) => name.length));
    lines.push(
      '',
      `Made up for development (kept in ${dataDir()}/development.json; set them yourself to choose):`,
      '',
    );
    for (const [name, value] of Object.entries(madeUp)) lines.push(`  ${name.padEnd(width)}  ${value}`);
  }
  lines.push(
    '',
    'Open:',
    '',
    `  ${operatorUrl}`,
    '    the operators’ console: sign in with the token that is filled in (npm run token mints others)',
    `  ${siteUrl}`,
    '    a marketing site on another origin: chat, send an inquiry',
  );
  if (standIns.mailUrl) lines.push(`  ${standIns.mailUrl}`, '    the mails that were sent');
  lines.push(
    '',
    'Try:',
    '',
    `  curl -i -X POST ${url}/webhooks/cardpayments -d '{}' -H 'content-type: application/json'`,
  );
  if (isEmbedded) lines.push('  npm run demo');
  lines.push('  npx postbud topics', '');
  return lines.join('\n');
}

function chatWords({ chat }: StandIns): string {
  if (chat) return 'answered by a stand-in (ANTHROPIC_API_KEY takes the real one)';
  return config().chat.apiKey ? 'answered by Anthropic' : 'which answers 503 without ANTHROPIC_API_KEY';
}

function mailWords({ mailUrl }: StandIns): string {
  if (mailUrl) return 'to a stand-in (SENDGRID_API_KEY takes the real one)';
  return config().mail
    ? 'through SendGrid'
    : 'which nobody is sent without SENDGRID_API_KEY, FROM_EMAIL and ADMIN_EMAIL';
}

try {
  await start();
} catch (error) {
  if (error instanceof InvalidConfiguration) console.error(`Postbud can't start: ${error.message}`);
  else if (error instanceof Failure)
    console.error(`Postbud can't start: ${error.message}\n${error.advice ?? ''}`);
  else if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
    console.error(
      `Postbud can't start: something listens on port ${config().port} already. Set PORT to another one.`,
    );
  } else throw error;
  process.exitCode = 1;
  process.exit();
}
