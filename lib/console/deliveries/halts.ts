import * as z from 'zod';

import { waitingBehind } from '../../components/incidents/halts.ts';
import { instantSql } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { count, quantity } from '../kit/words.ts';

/** What a dead letter of a subscription that halts does to its lane. */
export const halts = z
  .object({
    since: shape.instant,
    waiting: shape.count.meta({ description: 'Deliveries that wait behind it.' }),
    isMore: z.boolean().meta({ description: 'Whether more deliveries wait than `waiting` counts.' }),
  })
  .meta({
    id: 'Halts',
    description:
      'The dead letter halts its lane, or its ordering key in it, until it is replayed or dismissed.',
  });
export type Halts = z.output<typeof halts>;

/** A dead letter's effect on its lane, where it halts it, with what waits behind it as far as it is counted. */
export type FoundHalt = Omit<Halts, 'isMore'>;

/** No more deliveries are counted behind a dead letter. */
const COUNTED = 10_000;

/** A `FoundHalt` as JSON, of a row of `HALTING` as `halts`. */
export const HALT = `json_build_object('since', ${instantSql('halts.dead_lettered_at')},
      'waiting', ${waitingBehind('halts', COUNTED + 1)})`;

export function haltsOf(found: FoundHalt | null): Halts | null {
  if (found === null) return null;
  const { since, waiting } = found;
  return { since, waiting: Math.min(waiting, COUNTED), isMore: waiting > COUNTED };
}

/** Says what a dead letter does to its lane, as a predicate: `halts its lane: 12 deliveries wait until …`. */
export function haltWords({ waiting, isMore }: Halts): string {
  const until = 'until it is replayed or dismissed';
  if (waiting === 0) return `halts its lane ${until}`;
  const number = isMore ? `over ${count(waiting)} deliveries` : quantity(waiting, 'delivery');
  return `halts its lane: ${number} ${waiting === 1 ? 'waits' : 'wait'} ${until}`;
}
