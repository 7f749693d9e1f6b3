import * as z from 'zod';

/** An instant in UTC. */
export const instant = z.iso.datetime();

export const count = z.int().nonnegative();

/** In each state that still needs something. */
export const counts = { pending: count, failing: count, deadLettered: count };

export const state = z
  .enum(['pending', 'failing', 'dead_lettered', 'delivered'])
  .meta({ id: 'State', description: 'Of a delivery; of an event it is the worst of its deliveries.' });

/** Not only those of the catalog: events that were stored by another version may be of one that is gone. */
export const topic = z.string();

export const lastError = z
  .object({
    kind: z.string().meta({ description: 'The error’s code or class, for example `timeout`, `http_503`.' }),
    message: z.string().meta({ description: 'Personal data in it is masked.' }),
  })
  .meta({ id: 'LastError', description: 'What an attempt failed with.' });

export const errorGroup = z
  .string()
  .meta({ description: 'Names the dead letters of one subscription that failed in the same way.' });
