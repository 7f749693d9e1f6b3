import * as z from 'zod';

import * as shape from '../kit/shapes.ts';

export const standing = z.object({
  topic: shape.topic,
  waiting: shape.count.meta({ description: 'Deliveries that wait, with events that await their places.' }),
  deadLettered: shape.count,
});

export const retirement = z
  .object({
    subscriber: z.string(),
    topic: shape.topic.nullable().meta({ description: 'Only this topic; null: all of them.' }),
    topics: z.array(standing),
    matched: shape.count,
  })
  .meta({ id: 'Retirement', description: 'What a retirement would dismiss. Nothing was dismissed.' });
export type Retirement = z.output<typeof retirement>;

export const retired = z
  .object({
    subscriber: z.string(),
    topics: z.array(shape.topic),
    dismissed: shape.count.meta({ description: 'Deliveries that waited, and dead letters.' }),
  })
  .meta({ id: 'Retired', description: 'The retired subscriptions.' });
