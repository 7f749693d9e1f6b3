import { createInterface } from 'node:readline';

// A contender runs in a process of its own and does what the bench asks for, one line of JSON at a time.

/**
 * Answers orders from the standard input until it ends.
 *
 * @param {Record<string, (order: any) => Promise<unknown>>} operations by name.
 */
export async function serve(operations) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { operation, order } = JSON.parse(line);
    try {
      const answer = await operations[operation](order);
      process.stdout.write(`${JSON.stringify({ answer: answer ?? null })}\n`);
    } catch (error) {
      process.stdout.write(`${JSON.stringify({ error: String(error?.stack ?? error) })}\n`);
    }
  }
  process.exit(0);
}

/** Runs `work` and says how long it took, and how much of this process. */
export async function measured(work) {
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const found = await work();
  const ms = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ...found, ms, cpuMs: (user + system) / 1000 };
}

/**
 * A handler that does nothing but see whether each lane comes in order.
 *
 * @param {number} expected resolves `done` after so many calls.
 */
export function counter(expected) {
  let calls = 0;
  let outOfOrder = 0;
  let finish;
  const done = new Promise((resolve) => (finish = resolve));
  const last = new Map();
  return {
    done,
    outOfOrder: () => outOfOrder,
    handle({ lane, number }) {
      if (number <= (last.get(lane) ?? 0)) outOfOrder += 1;
      else last.set(lane, number);
      calls += 1;
      if (calls === expected) finish();
    },
  };
}

/** Calls `look` until it says that nothing is left. */
export async function until(look) {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Business transactions in parallel, one connection for each producer, until the time is up.
 *
 * @param {(client: import('pg').Client, number: number) => Promise<void>} emit what comes between insert and commit.
 */
export async function produce(pg, url, { producers, seconds }, emit) {
  const clients = Array.from({ length: producers }, () => new pg.Client(url));
  await Promise.all(clients.map((client) => client.connect()));
  await clients[0].query(
    'create table if not exists business (id bigint generated always as identity primary key, note text)',
  );
  let number = 0;
  const run = async (client, isOver) => {
    while (!isOver()) {
      number += 1;
      await client.query('begin');
      await client.query('insert into business (note) values ($1)', ['booked']);
      await emit(client, number);
      await client.query('commit');
    }
  };
  const phase = async (length) => {
    const endsAt = performance.now() + length;
    await Promise.all(clients.map((client) => run(client, () => performance.now() >= endsAt)));
  };
  await phase(300);
  number = 0;
  const found = await measured(async () => {
    await phase(seconds * 1000);
    return { count: number };
  });
  await Promise.all(clients.map((client) => client.end()));
  return found;
}

/** Runs `send` so many times a second, each at its own moment. */
export async function paced({ count, perSecond }, send) {
  const startedAt = performance.now();
  const sent = [];
  for (let number = 0; number < count; number += 1) {
    const wait = startedAt + (number * 1000) / perSecond - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    sent.push(send(number));
  }
  await Promise.all(sent);
}

/** Like an event of the bus: what the catalog gives as an example. */
export function payloadOf(number) {
  return {
    bookingId: 'bk_01J9ZK3QF4T7',
    resourceId: 'rs_7421',
    userId: 'us_1188',
    startsAt: '2026-12-04T17:00:00Z',
    endsAt: '2026-12-04T19:00:00Z',
    purpose: 'Handball, girls 14',
    state: 'requested',
    number,
  };
}
