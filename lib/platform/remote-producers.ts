import { parsed, producersSecrets } from './environment.ts';
import type { Source } from './environment.ts';

/** A producer without the bus's database, which posts its events. Reading wrong secrets throws. */
export interface RemoteProducer {
  /** Not yet compared with the catalog. */
  readonly name: string;
  /** The keys that sign its requests by Standard Webhooks: base64 after `whsec_`. Several during a rotation. */
  readonly secrets: readonly string[];
}

/** Reads the producers with a secret. */
export function remoteProducers(source: Source): RemoteProducer[] {
  return Object.entries(source).flatMap(([variable, value]) => {
    const name = /^PRODUCER_([A-Z]+)_SECRET$/.exec(variable)?.[1]?.toLowerCase();
    if (name === undefined || !value?.trim()) return [];
    return [
      {
        name,
        get secrets() {
          return parsed(variable, producersSecrets, source) ?? [];
        },
      },
    ];
  });
}
