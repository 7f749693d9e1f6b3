import { describe, expect } from 'vitest';

import { HOME, operatorRequest, test as operatorTest } from '../support/operator-test.ts';

/** Written as they are sent, since no number of JavaScript holds them all. */
const NUMBERS = [
  '2147483647',
  '2147483648',
  '3000000000',
  '9007199254740991',
  '9007199254740992',
  '9223372036854775808',
  '-1',
  '-2147483649',
  '0.5',
  '1e9',
  '1e400',
  '-1e400',
  '9'.repeat(400),
];

const test = operatorTest.extend('ask', ({ operators }) => {
  return async (path: string, body?: string, type = 'application/json') => {
    const request = await operatorRequest(HOME + path);
    const headers = { ...Object.fromEntries(request.headers), 'content-type': type };
    const init = body === undefined ? { headers } : { method: 'POST', headers, body };
    const response = await operators.fetch(new Request(request.url, init));
    const { code, issues = [] } = (await response.json()) as { code?: string; issues?: { path: string }[] };
    return { status: response.status, code, fields: [...new Set(issues.map(({ path: field }) => field))] };
  };
});

/** A number that nothing can be, or that is too large, is refused by the name of its field. */
const refused = (field: string) => ({ status: 400, code: 'validation_failed', fields: [field] });

const wanted = '"topic":"payment.captured","since":"1h"';

describe.each(NUMBERS)('the number %s', (number) => {
  test('the number is no expected count that matches, or a wrong one', async ({ ask }) => {
    const isCount = /^\d+$/.test(number) || number === '1e9' ? Number(number) < 2 ** 53 : false;
    const expected = isCount ? { status: 409, code: 'count_changed', fields: [] } : refused('expectedCount');
    expect(await ask('/replay', `{${wanted},"expectedCount":${number}}`)).toEqual(expected);
    const form = `topic=payment.captured&since=1h&expectedCount=${encodeURIComponent(number)}`;
    const asForm = await ask('/replay', form, 'application/x-www-form-urlencoded');
    expect(asForm.status).toBeOneOf([400, 409]);
    expect((await ask(`/replay?${form}`)).status).toBeOneOf([200, 400]);
  });

  test('the number is refused as a limit', async ({ ask }) => {
    expect(await ask('/replay', `{${wanted},"limit":${number}}`)).toEqual(refused('limit'));
    expect(await ask(`/replay?topic=payment.captured&since=1h&limit=${number}`)).toEqual(refused('limit'));
    expect(await ask(`/dead-letters?limit=${number}`)).toEqual(refused('limit'));
    expect(await ask(`/doctor?events=${number}`)).toEqual(refused('events'));
  });

  test('the number is answered anywhere else without an error of ours', async ({ ask }) => {
    const paths = [
      `/dead-letters/${number}-${number}`,
      `/dead-letters?q=${number}-${number}`,
      `/dead-letters?since=${number}h`,
      `/replays?limit=${number}`,
      `/replay?topic=payment.captured&since=${number}d`,
      `/replay?deliveryIds=${number}-1`,
      `/dead-letters?cursor=${cursor(['2026-11-21T00:00:00Z', number, number, 'older'])}`,
      `/replays?cursor=${cursor([number, '01a1feb1-c709-77be-a8b7-0f3083ee5689'])}`,
    ];
    for (const path of paths) {
      expect([path, (await ask(path)).status]).toEqual([path, expect.toBeOneOf([200, 400, 404])]);
    }
    for (const path of [`/deliveries/${number}-1/retry`, `/deliveries/1-${number}/skip`]) {
      expect((await ask(path, '{"reason":"x"}')).status).toBeOneOf([400, 404, 409]);
    }
  });
});

const cursor = (parts: readonly string[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');
