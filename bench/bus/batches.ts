import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { atLeast, measured } from '../figures.ts';
import type { Figure } from '../figures.ts';
import { startContender } from './contender.ts';
import { inTurns } from './turns.ts';
import type { Bench } from './turns.ts';
import { singleTopic } from './workload.ts';

const ANSWERS_AFTER_MS = 50;
const SECONDS = 8;
/** More events than are delivered in that time. */
const EVENTS = 30_000;
const WARM_UP_SECONDS = 1;
const GOAL = 50;

/** Measures one lane to a slow subscriber that runs elsewhere. */
export async function benchBatches(bench: Bench): Promise<Figure[]> {
  const contender = await startContender(bench.runtime, 'ours', await bench.server.createDatabase());
  const elsewhere = await startSubscriber();
  try {
    const order = { url: elsewhere.url, topic: singleTopic };
    const deliver = (isBatch: boolean) => async () => {
      await contender.call('reset');
      await contender.call('fill', { events: 40, topics: [singleTopic] });
      await contender.call('elsewhere', { ...order, isBatch, seconds: WARM_UP_SECONDS });
      await contender.call('fill', { events: EVENTS, topics: [singleTopic] });
      const seconds = Math.max(2, SECONDS * bench.scale);
      const found = await contender.call<{ delivered: number; ms: number }>('elsewhere', {
        ...order,
        isBatch,
        seconds,
      });
      return (found.delivered * 1000) / found.ms;
    };
    const found = await inTurns(bench, [
      { label: 'one by one', run: deliver(false) },
      { label: 'in batches', run: deliver(true) },
    ]);
    const title = `one lane to a subscriber that answers after ${ANSWERS_AFTER_MS} ms`;
    return [
      measured(`${title}, one by one`, found['one by one']!, '/s'),
      measured(`${title}, in batches`, found['in batches']!, '/s'),
      { what: 'events in the largest batch', figure: String(elsewhere.largest()), goal: '' },
      atLeast(
        `${title}: batches relative to one by one`,
        found['in batches']!.median / found['one by one']!.median,
        GOAL,
      ),
    ];
  } finally {
    elsewhere.stop();
    await contender.stop();
  }
}

async function startSubscriber() {
  let largest = 1;
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (data: Buffer) => (body += data.toString()));
    request.on('end', () => {
      const events: unknown = JSON.parse(body);
      if (Array.isArray(events)) largest = Math.max(largest, events.length);
      setTimeout(() => response.writeHead(204).end(), ANSWERS_AFTER_MS);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    largest: () => largest,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
