import type { Failure } from './failure.ts';
import { unknownName } from './nearest.ts';

// The catalog is imported where a name seems wrong: its schemas take a while to load.

/** Says that the server does not know a topic, and which was probably meant. */
export async function unknownTopic(written: string): Promise<Failure> {
  const { catalog } = await import('../lib/catalog/catalog.ts');
  return unknownName('topic', written, Object.keys(catalog), 'npx postbud topics --all lists the topics.');
}

/** Explains why nothing matches a subscriber; null if the catalog has it, or none was given. */
export async function unknownSubscriber(written: string | undefined): Promise<string | null> {
  if (written === undefined) return null;
  const { topics } = await import('../lib/catalog/catalog.ts');
  const known = [...new Set<string>(topics().flatMap(([, { subscribers }]) => subscribers))];
  return known.includes(written) ? null : unknownName('subscriber', written, known).message;
}
