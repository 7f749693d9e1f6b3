import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import * as shape from '../kit/shapes.ts';
import { blockedLane } from './detail-statement.ts';
import { readIncident } from './detail.ts';
import { incidentId } from './incident.ts';

/** As many deliveries as a form has room for. */
export const MOST_SKIPPED = 1000;

export const skipPreview = z
  .object({
    generatedAt: shape.instant,
    incidentId,
    topic: shape.topic.nullable(),
    subscriber: z.string(),
    lastError: shape.lastError,
    lanes: z
      .array(blockedLane)
      .max(MOST_SKIPPED)
      .meta({ description: 'Its blocked lanes, each with the delivery that would be skipped.' }),
    waiting: shape.count.meta({
      description: 'Deliveries behind them; at most 100 of each lane are counted.',
    }),
    haltedLanes: shape.count.meta({
      description: 'Lanes that a dead letter halts. A skip leaves them as they are.',
    }),
  })
  .meta({ id: 'SkipPreview', description: 'The effect of a skip. Nothing was skipped.' });
export type SkipPreview = z.output<typeof skipPreview>;

/** Reads what a skip of all that hold the blocked lanes of an incident would do. @returns null for an unknown one. */
export async function previewSkip(db: Database, id: string): Promise<SkipPreview | null> {
  const found = await readIncident(db, id, [], MOST_SKIPPED);
  if (!found) return null;
  const { generatedAt, incidentId: of, topic, subscriber, lastError, lanes, haltedLanes } = found;
  const behind = lanes.reduce((sum, { waiting }) => sum + waiting - 1, 0);
  return { generatedAt, incidentId: of, topic, subscriber, lastError, lanes, waiting: behind, haltedLanes };
}
