import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { field, instant, shapesOf } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { statusOf } from '../kit/states.ts';

/** Of a row of `outages`. The message of its error is not shown: it may hold personal data of any event. */
export const outageFields = {
  kind: field(
    z.string().meta({ description: 'The kind of error that opened it: `unreachable`, `http_503`.' }),
    'outages.kind',
  ),
  since: instant('outages.opened_at'),
  probes: field(shape.count.meta({ description: 'Probes without an answer.' }), 'outages.probes'),
  nextProbeAt: instant('outages.next_probe_at', 'When the next delivery probes. Retry one to probe now.'),
};

/** An outage that is not over. */
export const outage = z.object(shapesOf(outageFields)).meta({
  id: 'Outage',
  description:
    'A subscriber does not answer. Its deliveries wait without using up attempts; one at a time probes.',
});
export type Outage = z.output<typeof outage>;

/** The attached subscriptions that do not wait while their subscriber does not answer, as `topic subscriber`. */
export function heedlessOf(attached: readonly AttachedSubscriber[]): ReadonlySet<string> {
  return new Set(
    attached
      .filter((one) => one.outage === 'off')
      .flatMap(({ name, handlers }) => [...handlers.keys()].map((topic) => `${topic} ${name}`)),
  );
}

/** Says how a subscriber that is not there has failed, before a time since when: `has answered 503`. */
export function silenceWords(kind: string): string {
  const status = statusOf(kind);
  if (status !== null) return `has answered ${status}`;
  if (/timeout/i.test(kind)) return 'has not answered in time';
  return kind === 'unreachable' ? 'has been unreachable' : `has failed with ${kind}`;
}
