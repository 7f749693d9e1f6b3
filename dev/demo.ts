import { z } from 'zod';

import { sleep } from '../lib/time.ts';
import { dataDir, read } from './development.ts';
import type { Development } from './development.ts';
import { journey, journeyTable } from './journeys.ts';
import type { Journey } from './journeys.ts';
import { sendTraffic } from './traffic.ts';

const newest = z.object({ seq: z.number() });
const mails = z.array(z.object({ to: z.string(), subject: z.string() }));

/** How long the demo waits for what it sent to arrive. */
const PATIENCE_MS = 30_000;

/** Sends the demo's traffic to a local server and shows, for each event, how it went with each subscriber. */
export async function demo(development: Development, write: (text: string) => void): Promise<void> {
  const { seq } = newest.parse(await get(development, '/dev/newest'));
  const sent = await sendTraffic(development);
  write('What was sent, and what came back:\n');
  for (const { what, status, answer } of sent) {
    write(`  ${String(status)}  ${what.padEnd(34)} ${answer}`);
  }
  const mail = mails.parse(await get(development, '/dev/mails')).at(-1);
  if (mail) write(`  mail  to ${mail.to}: ${mail.subject}`);
  const journeys = await arrived(development, seq);
  write('\nWhere each event has got to (ms from the event’s record to the end of the handler):\n');
  write(journeyTable(journeys, process.stdout.isTTY, Date.now()));
  write(`\n${summary(journeys)}\n`);
  if (journeys.some(({ state }) => state === 'dead_lettered')) {
    write(`To replay what is dead-lettered: ${development.url}/platform/event-bus/dead-letters\n`);
  }
}

/** Waits until nothing is on its way any more, but for what failed and what waits behind it. */
async function arrived(development: Development, seq: number): Promise<Journey[]> {
  const giveUpAt = Date.now() + PATIENCE_MS;
  let settledFor = 0;
  for (;;) {
    const journeys = z.array(journey).parse(await get(development, `/dev/journeys?since=${seq}`));
    const open = journeys.filter(({ state, isHeldBack }) => state === 'pending' && !isHeldBack);
    settledFor = open.length === 0 && journeys.length > 0 ? settledFor + 1 : 0;
    // An event that has just been delivered may have made its subscriber emit the next one.
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
    `, ${count('failing')} failing, ${count('pending')} waiting in order, ${count('dead_lettered')} dead-lettered.`
  );
}

async function get({ url }: Development, path: string): Promise<unknown> {
  const response = await fetch(new URL(path, url));
  if (!response.ok) throw new Error(`the local server answered ${response.status} to ${path}`);
  return await response.json();
}

/** @returns null where nobody answers. */
async function statusOf(url: URL): Promise<number | null> {
  return await fetch(url).then(
    ({ status }) => status,
    () => null,
  );
}

/** `npm run demo`. */
async function main(): Promise<void> {
  const development = read(dataDir());
  const status = development && (await statusOf(new URL('/dev/newest', development.url)));
  if (!development || status !== 200) {
    console.error(
      status === 404
        ? `The server at ${development?.url} uses the database of DATABASE_URL, to which the demo sends nothing. Start one without DATABASE_URL: npm start`
        : 'No local server is running here. In another terminal: npm start',
    );
    process.exitCode = 1;
    return;
  }
  await demo(development, (text) => console.log(text));
}

if (import.meta.filename === process.argv[1]) await main();
