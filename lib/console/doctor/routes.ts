import * as z from 'zod';

import { answered, invalid } from '../../platform/http/operation.ts';
import { SECOND } from '../../platform/time.ts';
import { alertState, readAlerts } from '../alerts/read.ts';
import { doubtfulDirectory } from '../access/directory.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { examination, examine } from './read.ts';

/** As many as a function has time to check; `npm run doctor` checks any number. */
const MOST_EXAMINED = 20_000;
const EXAMINED = `expected a whole number from 1 to ${MOST_EXAMINED}`;

/** For each check: a function has half a minute for all of them. */
const LONGEST_CHECK_MS = 10 * SECOND;

/** The promises, and whether anybody would be notified. */
const answer = examination.extend({ alerts: alertState }).meta({
  id: 'Examination',
  description: 'The result of checking that the bus kept its promises, and where alerts go.',
});

export const examineBus = operatorRoute({
  id: 'examine',
  path: `${HOME}/doctor`,
  scope: 'event-bus:read',
  summary: 'Check that the bus kept its promises, and see where alerts go',
  query: z.object({
    events: z.coerce
      .number(EXAMINED)
      .int(EXAMINED)
      .min(1, EXAMINED)
      .max(MOST_EXAMINED, EXAMINED)
      .default(5000)
      .meta({ description: 'How many of the newest events to check.' }),
  }),
  answer,
  problems: ['validation_failed'],
  examples: {
    'the-newest': {
      summary: 'The thousand newest events',
      parameters: { events: 1000 },
      answer: answered(),
    },
    'too-many': {
      summary: 'More than a function has time for',
      parameters: { events: 1_000_000 },
      answer: invalid('events', 'too_big', EXAMINED),
    },
  },
  handle: async ({ query, bus, settings }) => {
    const db = await bus.database();
    const [examined, alerts, directory] = await Promise.all([
      examine(db, query.events, LONGEST_CHECK_MS),
      readAlerts(db, bus.alerts()),
      doubtfulDirectory(settings()),
    ]);
    return { ...examined, settings: [...examined.settings, ...directory], alerts };
  },
});

export const doctorRoutes = [examineBus];
