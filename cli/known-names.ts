import { misused } from './failure.ts';
import type { Failure } from './failure.ts';
import { unknownName } from './nearest.ts';

// The catalog is imported where a name seems wrong: its schemas take a while to load.

/**
 * Says that the server does not know a topic, and which was probably meant. Only the server can tell: its release, or
 * another one on its database, may have topics that this catalog lacks.
 */
export async function unknownTopic(written: string): Promise<Failure> {
  const { catalog } = await import('../lib/bus/catalog/catalog.ts');
  return unknownThere('topic', written, Object.keys(catalog), 'npx postbud topics --all lists the topics.');
}

/** As `unknownTopic`, for a subscriber. */
export async function unknownSubscriber(written: string): Promise<Failure> {
  const { subscriberNames } = await import('../lib/bus/catalog/catalog.ts');
  return unknownThere('subscriber', written, subscriberNames());
}

function unknownThere(kind: string, written: string, known: readonly string[], advice?: string): Failure {
  if (!known.includes(written)) return unknownName(kind, written, known, advice);
  return misused(`The server’s release does not have the ${kind} '${written}', which this one has.`);
}
