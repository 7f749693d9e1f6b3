import { createHash } from 'node:crypto';

import * as z from 'zod';

import type { Topic } from '../../bus/catalog/topic.ts';
import { jsonSchemaOf } from '../../platform/json-schema.ts';

/** The catalog of a version, as kept in `docs/catalog-version.json`. */
export type CatalogVersion = z.output<typeof catalogVersion>;

const topicVersion = z.object({
  version: z.number(),
  producer: z.string(),
  subscribers: z.array(z.string()),
  /** Of its payload, its order, its description and its example. */
  rest: z.string(),
});

export const catalogVersion = z.object({
  /** Of the package whose catalog it is: major and minor. */
  version: z.string(),
  /** Of all topics: two branches that both change some conflict in this line. */
  fingerprint: z.string(),
  topics: z.record(z.string(), topicVersion),
});

/** Describes a catalog. @param version the package's, for example 1.4.0. */
export function catalogVersionOf(catalog: Readonly<Record<string, Topic>>, version: string): CatalogVersion {
  const topics = Object.fromEntries(
    Object.entries(catalog).map(([name, row]) => {
      const { payload, orderedBy, description, example, producer, subscribers } = row;
      const rest = fingerprintOf([jsonSchemaOf(payload, 'draft-07'), orderedBy, description, example]);
      return [name, { version: row.version, producer, subscribers: [...subscribers], rest }];
    }),
  );
  return { version: version.replace(/\.\d+$/, ''), fingerprint: fingerprintOf(topics), topics };
}

/** Says what a catalog changed, a line for each topic. */
export function changesBetween(
  { topics: was }: CatalogVersion,
  { topics: is }: CatalogVersion,
): readonly string[] {
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].toSorted();
  return names.flatMap((name) => {
    const [before, after] = [was[name], is[name]];
    if (before === undefined) return `\`${name}\` is new.`;
    if (after === undefined) return `\`${name}\` is gone.`;
    const changes = [
      ...(after.version === before.version ? [] : [`has version ${after.version}`]),
      ...(after.producer === before.producer ? [] : [`is emitted by ${after.producer}`]),
      ...after.subscribers.filter((one) => !before.subscribers.includes(one)).map((one) => `goes to ${one}`),
      ...before.subscribers
        .filter((one) => !after.subscribers.includes(one))
        .map((one) => `no longer goes to ${one}`),
    ];
    if (after.version === before.version && after.rest !== before.rest)
      changes.push('has other fields, or another description');
    return changes.length === 0 ? [] : `\`${name}\` ${changes.join(', ')}.`;
  });
}

function fingerprintOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12);
}
