import { hidePersonalData } from './personal.ts';

/**
 * Names the subject of an event for lists: the first id in its payload that is not personal data.
 *
 * @returns for example `booking bkg_48213`; null where the payload has no id that may be shown.
 */
export function subjectOf(topic: string, payload: unknown, version: number): string | null {
  const { payload: shown, isValid } = hidePersonalData(topic, payload, version);
  if (!isValid || typeof shown !== 'object' || shown === null) return null;
  for (const [name, value] of Object.entries(shown)) {
    const [, what] = /^(\w+)Id$/.exec(name) ?? [];
    if (what && typeof value === 'string' && !value.startsWith('[hidden')) return `${inWords(what)} ${value}`;
  }
  return null;
}

/** `providerEvent` → `provider event`. */
function inWords(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
