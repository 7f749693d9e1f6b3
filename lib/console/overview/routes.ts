import { answered, HTML_TYPE } from '../../platform/http/operation.ts';
import { alertsLine } from '../alerts/page.ts';
import { alertTargets, targetsOf } from '../alerts/read.ts';
import { readOpenIncidents } from '../incidents/open.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { overviewPage } from './page.ts';
import { overview, readOverview } from './read.ts';

const NO_HOURS = {
  delivered: Array.from({ length: 24 }, () => 0),
  deadLettered: Array.from({ length: 24 }, () => 0),
};

/** A topic with a lane that waits for a retry, as examples show it. */
export const TROUBLED_TOPIC = {
  topic: 'payment.dispute.closed',
  producer: 'payments',
  inCatalog: true,
  pending: 0,
  failing: 1,
  deadLettered: 2,
  oldestDueAgeSeconds: null,
  nextRetryAt: '2026-02-21T09:35:00.000Z',
  awaitingPlace: 0,
  heldBackSince: null,
  heldBackBy: null,
  hours: NO_HOURS,
  subscribers: [
    {
      subscriber: 'accounting',
      inCatalog: true,
      neededVersion: null,
      pending: 0,
      failing: 1,
      deadLettered: 2,
      attached: true,
      paused: false,
      pause: null,
      outage: null,
      haltedLanes: 0,
      oldestDueAgeSeconds: null,
      nextRetryAt: '2026-02-21T09:35:00.000Z',
      lastDeliveredAt: '2026-02-20T16:02:11.480Z',
      lastFailedAt: '2026-02-21T09:30:00.120Z',
    },
  ],
};

export const showOverview = operatorRoute({
  id: 'readOverview',
  path: HOME,
  scope: 'event-bus:read',
  summary: 'See how many events are in each state, and why deliveries wait',
  answer: overview
    .extend({ alerts: alertTargets })
    .meta({ id: 'Overview', description: 'The bus at one moment.' }),
  examples: {
    'as-json': {
      summary: 'The overview',
      answer: answered(),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: async ({ bus }) => {
    const db = await bus.database();
    const [counts, open] = await Promise.all([
      readOverview(db, bus.subscribers(), undefined, bus.relays()),
      readOpenIncidents(db),
    ]);
    return { ...counts, ...open, alerts: targetsOf(bus.alerts()) };
  },
  page: (view, context) => overviewPage(view, context, alertsLine(view.alerts)),
});

export const overviewRoutes = [showOverview];
