import { expect, vi } from 'vitest';

import { startProxy } from '../chaos/proxy.ts';
import { test } from '../support/bus-test.ts';
import { numbers } from '../support/bus.ts';
import { approved, deployed, stored, structured } from '../support/posted-events.ts';

// What is written is kept from the beginning of each test on.
test.beforeEach(({ output }) => void output.text());
test.afterEach(() => {
  vi.unstubAllEnvs();
});

test('a thousand at once, half of them twice, with the database away for two seconds, are recorded once each, and in the order in which each producer sent them', async ({
  bus,
}) => {
  const address = new URL(bus.url);
  const proxy = await startProxy(Number(address.port));
  address.port = `${proxy.port}`;
  const endpoint = await deployed({ DATABASE_URL: address.href });
  const send = async (id: string): Promise<boolean> => {
    for (;;) {
      const response = await endpoint.fetch(structured(approved(id)));
      const { events } = (await response.json()) as { events?: { duplicate: boolean }[] };
      if (response.status === 200) return events![0]!.duplicate;
      expect(response.status).toBe(503);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    }
  };
  const duplicates: boolean[] = [];
  // Ten senders, each with a hundred of its own one after the other, of which every second one is sent twice at once.
  const sender = async (of: number) => {
    for (const number of numbers(1, 100)) {
      const id = `s${of}-${String(number).padStart(3, '0')}`;
      duplicates.push(...(await Promise.all(number % 2 === 0 ? [send(id), send(id)] : [send(id)])));
      if (of === 1 && number === 30) proxy.stall(2000);
      if (of === 1 && number === 60) proxy.cut();
    }
  };
  await Promise.all(numbers(1, 10).map((number) => sender(number)));
  const keys = (await stored(bus)).map(({ dedupe_key: key }) => key);
  expect(keys).toHaveLength(1000);
  for (const of of numbers(1, 10)) {
    const own = keys.filter((key) => key.startsWith(`s${of}-`));
    expect(own).toEqual(own.toSorted());
  }
  // What the cut hit may have been recorded without an answer, and then every answer says duplicate.
  expect(duplicates.filter((isDuplicate) => isDuplicate).length).toBeGreaterThanOrEqual(500);
  proxy.close();
});
