import { expect, test } from 'vitest';

import { hoursChart } from '../../lib/console/overview/hours-chart.ts';

const generatedAt = '2026-02-21T09:35:00.000Z';

/** A day without deliveries but those of the last hour. */
const dayOf = (delivered: number, deadLettered: number) => ({
  generatedAt,
  hours: {
    delivered: [...Array<number>(23).fill(0), delivered],
    deadLettered: [...Array<number>(23).fill(0), deadLettered],
  },
});

test('the chart of the last 24 hours has an axis, and an hour’s numbers in words', () => {
  const chart = String(hoursChart(dayOf(1204, 3)));
  expect(chart).toMatch(/<text[^>]*>2,000<\/text\s*>/);
  expect(chart).toMatch(
    /<title data-at="2026-02-21T09:00:00.000Z" data-to="weekday">\s*Sat 09:00: 1,204 delivered, 3 dead-lettered\s*<\/title>/,
  );
  expect(chart.match(/<rect\s+class="done"/g)).toHaveLength(1);
  expect(chart.match(/<rect\s+class="dead"/g)).toHaveLength(1);
  expect(chart.match(/<rect\s+class="over"/g)).toHaveLength(24);
  expect(chart.match(/data-to="axis"/g)).toHaveLength(4);
});

test('nothing is drawn of a day without deliveries', () => {
  expect(hoursChart(dayOf(0, 0))).toBeNull();
});
