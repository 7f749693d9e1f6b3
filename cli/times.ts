import { OSLO, timeText } from '../lib/console/kit/instants.ts';

/** Names the zone of the times above it: whoever reads a terminal or a file may be in another one. */
export const TIMES = `Times are ${OSLO}.`;

/** Names the zone of a single time, in a sentence. */
export const inZone = (time: string) => `${time} ${OSLO}`;

/** `from 00:41:10 to 00:43:02 Europe/Oslo`, or `at` where both are the same. */
export function spanWords(from: string, to: string, now: string): string {
  const [start, end] = [timeText(from, now), timeText(to, now)];
  return start === end ? `at ${inZone(start)}` : `from ${start} to ${inZone(end)}`;
}
