import process from 'node:process';
import { z } from 'zod';

import { dataDir, readLocalServer } from '../cli/local-server.ts';
import type { LocalServer } from '../cli/local-server.ts';
import { cutTo, paneOf } from '../cli/terminal.ts';
import { sleep } from '../lib/platform/time.ts';
import { journey, journeyTable } from './journeys.ts';
import type { Journey } from './journeys.ts';
import { sendTraffic } from './traffic.ts';

const newest = z.object({ seq: z.number() });
const mails = z.array(z.object({ to: z.string(), subject: z.string() }));

/** How long the demo waits for its events to be delivered. */
const PATIENCE_MS = 30_000;

/** Sends the demo's traffic to a local server and shows each event's deliveries. */
export async function demo(server: LocalServer, write: (text: string) => void): Promise<void> {
  const pane = paneOf(process.stdout);
  const { seq } = newest.parse(await get(server, '/dev/newest'));
  const sent = await sendTraffic(server);
  write('Requests and their answers:\n');
  for (const { what, status, answer } of sent) {
    const line = `  ${String(status)}  ${what.padEnd(34)} ${answer}`;
    write(pane.columns === null ? line : cutTo(pane.columns, line));
  }
  const mail = mails.parse(await get(server, '/dev/mails')).at(-1);
  if (mail) write(`  mail  to ${mail.to}: ${mail.subject}`);
  const journeys = await arrived(server, seq);
  write('\nEvents and their deliveries (ms: from the event’s record to its handler’s end):\n');
  write(journeyTable(journeys, pane, Date.now()));
  write(`\n${summary(journeys)}\n`);
  if (journeys.some(({ state }) => state === 'dead_lettered')) {
    write('To see the dead letters: npx postbud dead-letters\n');
  }
}

/** Waits until all deliveries have ended, except for failing ones, those behind them and those that nobody takes. */
async function arrived(server: LocalServer, seq: number): Promise<Journey[]> {
  const giveUpAt = Date.now() + PATIENCE_MS;
  let settledFor = 0;
  for (;;) {
    const journeys = z.array(journey).parse(await get(server, `/dev/journeys?since=${seq}`));
    const open = journeys.filter(
      ({ state, isHeldBack, isUnattached }) => state === 'pending' && !isHeldBack && !isUnattached,
    );
    settledFor = open.length === 0 && journeys.length > 0 ? settledFor + 1 : 0;
    // A subscriber may have emitted the next event with the delivery that ended last.
    if (settledFor >= 3 || Date.now() > giveUpAt) return journeys;
    await sleep(100);
  }
}

function summary(journeys: readonly Journey[]): string {
  const events = new Set(journeys.map(({ eventId }) => eventId)).size;
  const count = (state: string) => journeys.filter((row) => row.state === state).length;
  const times = journeys.flatMap(({ deliveredAfterMs }) => deliveredAfterMs ?? []).toSorted((a, b) => a - b);
  const median = times[Math.floor(times.length / 2)];
  return (
    `${events} events, ${journeys.length} deliveries: ${count('delivered')} delivered` +
    (median === undefined ? '' : ` (median ${median.toFixed(1)} ms)`) +
    `, ${count('failing')} failing, ${count('pending')} pending, ${count('dead_lettered')} dead-lettered.`
  );
}

async function get({ url }: LocalServer, path: string): Promise<unknown> {
  const response = await fetch(new URL(path, url));
  if (!response.ok) throw new Error(`the local server answered ${response.status} to ${path}`);
  return await response.json();
}

/** @returns null without an answer. */
async function statusOf(url: URL): Promise<number | null> {
  return await fetch(url).then(
    ({ status }) => status,
    () => null,
  );
}

/** `npm run demo`. */
async function main(): Promise<void> {
  const server = readLocalServer(dataDir());
  const status = server && (await statusOf(new URL('/dev/newest', server.url)));
  if (!server || status !== 200) {
    console.error(
      status === 404
        ? `The server at ${server?.url} uses the database of DATABASE_URL, and the demo needs an embedded one. Start a server without DATABASE_URL: npm start`
        : 'No local server is running. Start one in another terminal: npm start',
    );
    process.exitCode = 1;
    return;
  }
  await demo(server, (text) => console.log(text));
}

if (import.meta.filename === process.argv[1]) await main();
