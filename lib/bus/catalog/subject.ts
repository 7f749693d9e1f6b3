import { hidePersonalData } from './personal-data.ts';

/**
 * Names the subject of an event for lists: the first id that its schema names and that is not personal data. Most payloads
 * of a tenant have the tenant's id too, so it is the subject only where there is no other.
 *
 * @returns for example `booking bkg_48213`; null where the payload has no id that may be shown.
 */
export function subjectOf(topic: string, payload: unknown, version: number): string | null {
  const { payload: shown, isValid } = hidePersonalData(topic, payload, version);
  if (!isValid || typeof shown !== 'object' || shown === null) return null;
  const subjects = Object.entries(shown).flatMap(([name, value]) => {
    const [, what] = /^(\w+)Id$/.exec(name) ?? [];
    const isShown = what && typeof value === 'string' && !value.startsWith('[hidden');
    return isShown ? [`${inWords(what)} ${value}`] : [];
  });
  return subjects.find((subject) => !subject.startsWith('tenant ')) ?? subjects[0] ?? null;
}

/** `providerEvent` → `provider event`. */
function inWords(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
