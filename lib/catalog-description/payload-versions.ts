import * as z from 'zod';

import type { Topic } from '../catalog/topic.ts';
import { jsonSchemaOf } from '../json-schema.ts';
import type { JsonSchema } from '../json-schema.ts';
import { breaksBetween } from './payload-compatibility.ts';
import type { Break } from './payload-compatibility.ts';

/** Each topic's payload in each of its versions, as `docs/payload-versions.json` keeps them. */
export type PayloadVersions = z.output<typeof payloadVersions>;

export const payloadVersions = z.record(
  z.string(),
  z.record(
    z.string().regex(/^[1-9]\d*$/),
    z.custom<JsonSchema>((schema) => typeof schema === 'object'),
  ),
);

/** A topic whose payload is another than its version says. */
export interface VersionBreak {
  readonly topic: string;
  /** What broke, for whom, and what to do, on lines of its own. */
  readonly message: string;
}

/**
 * Brings the kept payload schemas up to date with the catalog.
 *
 * What was kept of a version only ever gains what is compatible with it: a break is told and changes nothing, so that
 * writing the file anew can't hide it. Older versions stay, since events of theirs may be replayed.
 *
 * @param kept as the file has them.
 * @returns what the file should say, and why it can't be written if there is any break.
 */
export function updatedVersions(
  kept: PayloadVersions,
  catalog: Readonly<Record<string, Topic>>,
): { readonly versions: PayloadVersions; readonly breaks: readonly VersionBreak[] } {
  const gone = Object.keys(kept).filter((topic) => !Object.hasOwn(catalog, topic));
  const versions: PayloadVersions = {};
  const breaks = gone.map(removed);
  for (const [topic, row] of Object.entries(catalog)) {
    const known = kept[topic] ?? {};
    const current = jsonSchemaOf(row.payload, 'draft-07');
    const message = complaint(topic, row, known, current);
    versions[topic] = message === null ? { ...known, [row.version]: current } : known;
    if (message !== null) breaks.push({ topic, message });
  }
  for (const topic of gone) versions[topic] = kept[topic] ?? {};
  return { versions, breaks };
}

/** @returns null where the payload is what its version allows. */
function complaint(
  topic: string,
  row: Topic,
  known: PayloadVersions[string],
  current: JsonSchema,
): string | null {
  const { version } = row;
  const latest = Math.max(0, ...Object.keys(known).map(Number));
  if (version < latest) {
    return `${topic} went back to version ${version} from ${latest}. Write version: ${latest + 1}: events of both are stored.`;
  }
  if (version > latest + 1 && latest > 0) {
    return `${topic} has version ${version}, and the last was ${latest}. Write version: ${latest + 1}.`;
  }
  const was = known[version];
  const broken = was ? breaksBetween(was, current) : [];
  return broken.length === 0 ? null : explained(topic, row, broken);
}

function explained(topic: string, { version, subscribers }: Topic, breaks: readonly Break[]): string {
  const lines = breaks.map(({ pointer, what, broken }) => {
    const victims =
      broken === 'subscribers'
        ? `its subscribers (${subscribers.join(', ')}), written for the payload as it was`
        : 'events that are stored and may be replayed, and producers that still run the older code';
    return `  ${pointer || 'The payload'} ${what}: breaks ${victims}.`;
  });
  return [
    `${topic} has changed in a way that version ${version} does not allow:`,
    ...lines,
    `  Take it back (optional fields may be added), or write version: ${version + 1} in its catalog entry and have its`,
    '  subscribers read both.',
  ].join('\n');
}

function removed(topic: string): VersionBreak {
  return {
    topic,
    message: `${topic} is no longer in the catalog: breaks its subscribers, and events of it that are stored have no schema.\n  Put it back, or, once no event of it is left, take it out of docs/payload-versions.json by hand.`,
  };
}
