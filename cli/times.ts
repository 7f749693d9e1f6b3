import { shownZone } from '../lib/console/kit/instants.ts';

/** The zone of this terminal: that of `TZ`, or of the machine. */
export function ownZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Names the zone of the times above it: whoever reads a terminal or a file may be in another one. */
export const times = () => `Times are ${shownZone()}.`;

/** Names the zone of a single time, in a sentence. */
export const inZone = (time: string) => `${time} ${shownZone()}`;
