import * as z from 'zod';

import { probe as probeNow } from '../../bus/deliveries/operations/probe.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { action } from '../kit/action.ts';
import { HOME, subscriberPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';
import { followProbe } from './follow.ts';
import { readSubscriberHealth } from './read.ts';

export const UNKNOWN =
  'Unknown subscriber. The catalog lists the subscribers of each topic: /platform/event-bus/catalog.';

export const BY_NAME = {
  subscriber: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'expected the name of a subscriber, for example ledger')
    .meta({ description: 'A subscriber of this or of another release’s catalog.' }),
};

const probed = z
  .object({ subscriber: z.string() })
  .meta({ id: 'Probing', description: 'The subscriber whose next probe is due now.' });

/** Makes the next probe of a subscriber that does not answer due at once. */
export const probe = action({
  name: 'probe',
  id: 'probeSubscriber',
  path: `${HOME}/subscribers/{subscriber}/probe`,
  summary: 'Probe a subscriber that does not answer now',
  description:
    'One of its waiting deliveries is tried at once. If the subscriber answers, the outage is over and all follow, in order. No attempt is used up otherwise.',
  parameters: BY_NAME,
  body: shape.optionalReason,
  answer: probed,
  problems: ['not_silent'],
  unknown: UNKNOWN,
  examples: {
    'it-is-silent': {
      summary: 'A subscriber that does not answer',
      parameters: { subscriber: 'reviews' },
      json: { reason: 'Reviews is back.' },
      answer: answered(),
    },
    'it-answers': {
      summary: 'A subscriber without an outage',
      parameters: { subscriber: 'accounting' },
      json: { reason: 'Accounting is back.' },
      answer: refused('not_silent', { detail: notSilent('accounting') }),
    },
    'no-such-subscriber': {
      summary: 'A subscriber that nothing names',
      parameters: { subscriber: 'postcards' },
      json: {},
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { subscriber }, body: { reason = null }, operator, bus }) => {
    const db = await bus.database();
    if (await probeNow(db, { subscriber, by: operator.subject, reason })) return { subscriber };
    const request = { subscriber, span: 'hours', attachments: bus } as const;
    const isKnown = (await readSubscriberHealth(db, request)) !== null;
    if (isKnown) throw new Problem('not_silent', { detail: notSilent(subscriber) });
    return null;
  },
  home: ({ subscriber }) => subscriberPath(subscriber),
  button: 'Probe now',
  follow: followProbe,
});

function notSilent(subscriber: string): string {
  return `${subscriber} has no outage. Probe a delivery that holds one of its lanes instead: see its held lanes.`;
}

export const subscriberActions = [probe];
