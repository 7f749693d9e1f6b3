import { topics } from '../bus/catalog/catalog.ts';
import { InvalidConfiguration } from '../platform/config.ts';
import type { RemoteProducer } from '../platform/config.ts';
import { nearest } from '../platform/nearest.ts';
import { producerVariable } from '../platform/remote-producers.ts';

/** The components that the catalog has as a topic's producer. */
export const producerNames: ReadonlySet<string> = new Set(topics().map(([, { producer }]) => producer));

/** Finds the producers with a secret that the catalog does not have. @returns an error for each, with the nearest name. */
export function unknownProducers(producers: readonly RemoteProducer[]): InvalidConfiguration[] {
  const known = [...producerNames].toSorted();
  return producers
    .filter(({ name }) => !producerNames.has(name))
    .map(({ name }) => {
      const meant = nearest(name, known);
      const suggestion = meant === null ? '' : ` (did you mean ${meant}?)`;
      return new InvalidConfiguration(
        producerVariable(name),
        `must have a producer of the catalog in its name, not ${name}${suggestion}: ${known.join(', ')}`,
      );
    });
}
