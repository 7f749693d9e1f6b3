import * as z from 'zod';

import * as shape from '../kit/shapes.ts';

export const renamed = z
  .object({
    subscriber: z.string().meta({ description: 'The former name.' }),
    to: z.string(),
    topics: z.array(
      z.object({
        topic: shape.topic,
        waiting: shape.count.meta({ description: 'Deliveries that waited, with events not fanned out yet.' }),
        deadLettered: shape.count.meta({ description: 'Dead letters.' }),
        duplicates: shape.count.meta({
          description: 'Those of events that the new name has a delivery of already: they are dismissed.',
        }),
        moved: shape.count,
        dismissed: shape.count,
        left: shape.count,
      }),
    ),
    duplicates: shape.count,
    moved: shape.count,
    dismissed: shape.count,
    left: shape.count.meta({
      description:
        'What there was no time for, or has come meanwhile. Send the request again; the cron continues too.',
    }),
  })
  .meta({
    id: 'Renamed',
    description: 'What stood under the former name when the request came, by topic, and what became of it.',
  });
export type Renamed = z.output<typeof renamed>;

export const retirement = z
  .object({
    subscriber: z.string(),
    topic: shape.topic.nullable().meta({ description: 'Only this topic; null: all of them.' }),
    topics: z.array(
      z.object({
        topic: shape.topic,
        waiting: shape.count.meta({ description: 'Deliveries that wait, with events not fanned out yet.' }),
        deadLettered: shape.count,
      }),
    ),
    matched: shape.count,
  })
  .meta({ id: 'Retirement', description: 'What a retirement would dismiss. Nothing was dismissed.' });
export type Retirement = z.output<typeof retirement>;

export const retired = z
  .object({
    subscriber: z.string(),
    topics: z.array(shape.topic),
    dismissed: shape.count,
    left: shape.count.meta({
      description:
        'Deliveries that there was no time for, or that are not fanned out yet. Send the request again.',
    }),
  })
  .meta({ id: 'Retired', description: 'The retired subscriptions.' });
