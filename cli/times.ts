import { OSLO } from '../lib/console/kit/instants.ts';

/** Names the zone of the times above it: whoever reads a terminal or a file may be in another one. */
export const TIMES = `Times are ${OSLO}.`;

/** Names the zone of a single time, in a sentence. */
export const inZone = (time: string) => `${time} ${OSLO}`;
