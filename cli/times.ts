import { shownZone, timeText } from '../lib/console/kit/instants.ts';

/** The zone of this terminal: that of `TZ`, or of the machine. */
export function ownZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Names the zone of the times above it: whoever reads a terminal or a file may be in another one. */
export const times = () => `Times are ${shownZone()}.`;

/** Names the zone of a single time, in a sentence. */
export const inZone = (time: string) => `${time} ${shownZone()}`;

/** `from 00:41:10 to 00:43:02 Europe/Oslo`, or `at` where both are the same. */
export function spanWords(from: string, to: string, now: string): string {
  const [start, end] = [timeText(from, now), timeText(to, now)];
  return start === end ? `at ${inZone(start)}` : `from ${start} to ${inZone(end)}`;
}
