import { describe, expect, test } from 'vitest';

import { forms } from '../../lib/console/actions.ts';
import type { EventList } from '../../lib/console/events/fields.ts';
import { eventsDoc } from '../../lib/console/events/views.ts';
import { drawPage } from '../../lib/console/kit/doc.ts';
import type { PageContext } from '../../lib/console/kit/layout.ts';
import { HOME } from '../../lib/console/kit/links.ts';

const NOW = '2026-11-19T13:32:07.000Z';

const context = (path: string): PageContext => ({
  operator: { subject: 'kari', name: 'kari', scopes: new Set(['event-bus:read']), via: 'cookie' },
  environment: 'Local',
  url: new URL(`http://localhost${HOME}${path}`),
  badges: null,
  names: new Map(),
  actions: forms,
  handling: () => ({ maxAttempts: 5 }),
});

const EMPTY: EventList = {
  generatedAt: NOW,
  filters: {},
  items: [],
  nextCursor: null,
  lookedBackTo: null,
  isComplete: true,
};

const FOUND: EventList = {
  ...EMPTY,
  filters: { ...EMPTY.filters, q: 'pi_7' },
  items: [
    {
      eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
      topic: 'payment.captured',
      subject: 'booking bkg_7',
      state: 'failing',
      createdAt: NOW,
      foundBy: ['payload /paymentIntentId'],
    },
  ],
};

const draw = (view: EventList, path = '/events') => String(drawPage(eventsDoc(view), context(path)));

describe('the search box', () => {
  const box = (page: string) => /<form class="find"[^]*?<\/form>/.exec(page)?.[0];

  test('the box is on every page, and leads to the events', () => {
    const page = draw(FOUND, '/dead-letters?q=pay');
    expect(box(page)).toContain(`method="get" action="${HOME}/events"`);
    // What filters another page is not a search for events.
    expect(box(page)).toContain('value=""');
  });

  test('the box keeps what was searched', () => {
    expect(box(draw(FOUND, '/events?q=pi_7'))).toContain('value="pi_7"');
  });
});

describe('the list of events', () => {
  test('an event links to its page, with its state and what it was found by', () => {
    const page = draw(FOUND);
    expect(page).toContain(`href="${HOME}/events/019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77"`);
    for (const words of ['payment.captured', 'booking bkg_7', 'failing', 'payload /paymentIntentId'])
      expect(page).toContain(words);
  });

  test('a search says that it left out events', () => {
    expect(draw({ ...FOUND, isComplete: false })).toContain('The index does not have all events yet');
    expect(draw(FOUND)).not.toContain('The index');
  });

  test('an empty list says why it is empty, and what to do', () => {
    const of = (filters: Partial<EventList['filters']>) =>
      draw({ ...EMPTY, filters: { ...EMPTY.filters, ...filters } });
    expect(of({})).toContain('No events yet');
    expect(of({ q: 'pi_7' })).toContain('No event found');
    expect(of({ topic: 'payment.captured' })).toContain('No event matches these filters');
    const budget = { nextCursor: 'abc', lookedBackTo: '2026-11-18T09:00:00.000Z' };
    expect(draw({ ...EMPTY, ...budget })).toMatch(/Looked back to[^]*>Older</);
  });

  test('the pages of a list link to each other, with the filters', () => {
    const page = draw({ ...FOUND, nextCursor: 'next' }, '/events?topic=payment.captured&cursor=this');
    expect(page).toContain(`href="${HOME}/events?topic=payment.captured"`);
    expect(page).toContain(`href="${HOME}/events?topic=payment.captured&amp;cursor=next"`);
  });
});
