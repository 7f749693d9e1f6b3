import { misused } from './failure.ts';

/** Whether a text looks like the id of an incident, a UUID. */
export const isIncidentId = (written: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(written);

/** @throws Failure for text that can't be the id of an incident. */
export function requireIncidentId(written: string): void {
  if (isIncidentId(written)) return;
  throw misused(
    `'${written}' is not the id of an incident.`,
    'Copy one from npx postbud incidents, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
  );
}
