import { createInterface } from 'node:readline';

// A contender runs in a process of its own and answers the bench's orders, one line of JSON each.

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

/** Runs `work`. Returns its time and this process's share of it. */
export async function measured(work) {
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const found = await work();
  const ms = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ...found, ms, cpuMs: (user + system) / 1000 };
}

/**
 * A handler that only checks the order of each lane.
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

/** Calls `look` until nothing is left. */
export async function until(look) {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Business transactions in parallel, one connection for each producer, until the time is up.
 *
 * @param {(client: import('pg').Client, number: number) => Promise<void>} emit the work between insert and commit.
 */
export async function producing(pg, url, { producers, seconds }, emit) {
  const clients = Array.from({ length: producers }, () => new pg.Client(url));
  await Promise.all(clients.map((client) => client.connect()));
  await clients[0].query(
    'create table if not exists business (id bigint generated always as identity primary key, note text)',
  );
  const found = await produced(
    clients.map((client) => async (number) => {
      await client.query('begin');
      await client.query('insert into business (note) values ($1)', ['booked']);
      await emit(client, number);
      await client.query('commit');
    }),
    seconds,
  );
  await Promise.all(clients.map((client) => client.end()));
  return found;
}

/**
 * Counts the transactions of several producers.
 *
 * @param {readonly ((number: number) => Promise<void>)[]} producers each runs one transaction.
 */
export async function produced(producers, seconds) {
  let number = 0;
  const run = async (transact, isOver) => {
    while (!isOver()) {
      number += 1;
      await transact(number);
    }
  };
  const phase = async (length) => {
    const endsAt = performance.now() + length;
    await Promise.all(producers.map((transact) => run(transact, () => performance.now() >= endsAt)));
  };
  // Warms connections and their plans.
  await phase(300);
  number = 0;
  return await measured(async () => {
    await phase(seconds * 1000);
    return { count: number };
  });
}

/** Milliseconds of the clock that all processes of this machine share. */
export const clock = () => Number(process.hrtime.bigint() / 1000n) / 1000;

/**
 * Steady traffic: events sent at an even pace, each in a transaction of its own. Records when each was handled.
 *
 * @param {(topics: any[], handle: (key: string | number) => void) => Promise<() => Promise<void>>} start handlers of
 *   all subscriptions, each of which calls `handle` with the event's key first. Returns a function to stop them.
 * @param {(topic: any, committing: (key: string | number) => void) => Promise<void>} send one transaction, which calls
 *   `committing` right before it sends its commit.
 */
export function traffic(start, send) {
  let handled = [];
  let stop = async () => {};
  return {
    async listen({ topics }) {
      handled = [];
      stop = await start(topics, (key) => handled.push([key, clock()]));
    },
    async send({ count, perSecond, afterMs, topics }) {
      const sent = [];
      await paced({ count, perSecond, afterMs }, (number) =>
        send(topics[number % topics.length], (key) => sent.push([key, clock()])),
      );
      return { sent };
    },
    seen: async () => handled.length,
    async quiet() {
      await stop();
      return { handled };
    },
  };
}

/** Runs `send` so many times a second, each at its own moment. @param afterMs when it begins. */
export async function paced({ count, perSecond, afterMs = 0 }, send) {
  const startedAt = performance.now() + afterMs;
  const sent = [];
  for (let number = 0; number < count; number += 1) {
    const wait = startedAt + (number * 1000) / perSecond - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    sent.push(send(number));
  }
  await Promise.all(sent);
}

/** The catalog's example payload, as an event of Postbud has it. */
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
