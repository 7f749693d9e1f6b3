import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../bus/catalog/subject.ts';

/** Lists do not read longer payloads. */
export const LISTED_PAYLOAD_BYTES = 16 * 1024;

/** Read beside a delivery in a list: what names its subject, and what its error is masked with. */
export interface BesideListed {
  /** Null if it is long. */
  readonly payload: unknown;
  readonly version: number;
  /** The last failed attempt. */
  readonly last: { readonly kind?: string; readonly message?: string } | null;
}

/** Names the subject of a delivery, and masks the personal data in its error. */
export function listedOf<Found extends BesideListed>(
  topic: string,
  { payload, version, last, ...found }: Found,
) {
  // A long payload was not read, so its personal data is unknown.
  if (payload === null) return { ...found, subject: null, lastError: null };
  const texts = personalTexts(topic, payload, version);
  const masked = (text: string) => maskPersonalData(text, texts);
  return {
    ...found,
    subject: subjectOf(topic, payload, version),
    lastError:
      last?.kind === undefined ? null : { kind: masked(last.kind), message: masked(last.message ?? '') },
  };
}
