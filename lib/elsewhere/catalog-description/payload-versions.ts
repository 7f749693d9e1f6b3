import * as z from 'zod';

import type { Topic } from '../../bus/catalog/topic.ts';
import { jsonSchemaOf } from '../../platform/json-schema.ts';
import type { JsonSchema } from '../../platform/json-schema.ts';
import { breaksBetween } from './payload-compatibility.ts';
import type { Break } from './payload-compatibility.ts';

/** The payload schema of each version of each topic, as kept in `docs/payload-versions.json`. */
export type PayloadVersions = z.output<typeof payloadVersions>;

export const payloadVersions = z.record(
  z.string(),
  z.record(
    z.string().regex(/^[1-9]\d*$/),
    z.custom<JsonSchema>((schema) => typeof schema === 'object'),
  ),
);

/** A topic whose payload changed in a way that its version does not allow. */
export interface VersionBreak {
  readonly topic: string;
  /** Several lines: the change, the side it breaks, and the remedy. */
  readonly message: string;
}

/**
 * Brings the kept payload schemas up to date with the catalog.
 *
 * A kept schema only takes compatible changes: a break is reported and changes nothing, so that writing the file again
 * cannot hide it. Older versions stay, because their events may be replayed.
 *
 * @param kept the file's schemas.
 * @returns the schemas that the file should have, and the breaks that forbid writing it.
 */
export function updatedVersions(
  kept: PayloadVersions,
  catalog: Readonly<Record<string, Topic>>,
): { readonly versions: PayloadVersions; readonly breaks: readonly VersionBreak[] } {
  const gone = Object.keys(kept).filter((topic) => !Object.hasOwn(catalog, topic));
  const versions: PayloadVersions = {};
  const breaks = gone.map(removalOf);
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

/** Explains what is wrong with a topic. @returns null where its version allows its payload. */
function complaint(
  topic: string,
  row: Topic,
  known: PayloadVersions[string],
  current: JsonSchema,
): string | null {
  const { version } = row;
  const latest = Math.max(0, ...Object.keys(known).map(Number));
  if (version < latest) {
    return `${topic} went back from version ${latest} to ${version}. Set version: ${latest + 1}, because events of both are stored.`;
  }
  if (version > latest + 1 && latest > 0) {
    return `${topic} skips from version ${latest} to ${version}. Set version: ${latest + 1}.`;
  }
  const was = known[version];
  const broken = was ? breaksBetween(was, current) : [];
  return broken.length === 0 ? earlierComplaint(topic, row, known) : explain(topic, row, broken);
}

/** Handlers read the versions that are stored, so their types come from schemas of the same versions. */
function earlierComplaint(
  topic: string,
  { version, earlier = {} }: Topic,
  known: PayloadVersions[string],
): string | null {
  const stored = Object.keys(known).filter((one) => Number(one) < version);
  const missing = stored.find((one) => !Object.hasOwn(earlier, one));
  if (missing !== undefined) {
    return `${topic} has events of version ${missing}, and no schema for them: add earlier: { ${missing}: … }, the payload as it was, to its catalog row.\n  Once none of its events is left, remove version ${missing} from docs/payload-versions.json by hand instead.`;
  }
  for (const [one, payload] of Object.entries(earlier)) {
    const was = known[one];
    if (!was || !stored.includes(one))
      return `${topic} has earlier: { ${one}: … }, which is no earlier version of it. Remove it.`;
    if (breaksBetween(was, jsonSchemaOf(payload, 'draft-07')).length > 0)
      return `${topic} has in earlier: { ${one}: … } another payload than docs/payload-versions.json. Set it to the payload as it was.`;
  }
  return null;
}

function explain(topic: string, { version, subscribers }: Topic, breaks: readonly Break[]): string {
  const lines = breaks.map(({ pointer, what, broken }) => {
    const victims =
      broken === 'subscribers'
        ? `its subscribers (${subscribers.join(', ')}), which were written for the older payload`
        : 'stored events, which may be replayed, and producers that still run the older code';
    return `  ${pointer || 'The payload'} ${what}: breaks ${victims}.`;
  });
  return [
    `The payload of ${topic} changed in a way that version ${version} does not allow:`,
    ...lines,
    `  Undo the change (only optional fields may be added), or set version: ${version + 1} in its catalog row, keep the`,
    `  payload as it was under earlier: { ${version}: … }, and make its subscribers read both versions.`,
  ].join('\n');
}

function removalOf(topic: string): VersionBreak {
  return {
    topic,
    message: `${topic} is no longer in the catalog: this breaks its subscribers, and its stored events have no schema.\n  Put it back, or, once none of its events is left, remove it from docs/payload-versions.json by hand.`,
  };
}
