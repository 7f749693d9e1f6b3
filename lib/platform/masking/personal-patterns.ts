import type { Span } from './readable.ts';

/**
 * Finds what looks like personal data: e-mail addresses, national ids, telephone numbers, accounts and cards.
 *
 * Libraries for telephone numbers mistake amounts and ids of eight digits for one, and miss others.
 *
 * @param text a text from `readable`: lower case, with plain spaces and dashes.
 */
export function patternSpans(text: string): Span[] {
  return PATTERNS.flatMap(({ pattern, isOne }) =>
    [...text.matchAll(pattern)]
      .filter(([found]) => isOne?.(found) ?? true)
      .map(({ 0: found, index }) => ({ start: index, end: index + found.length })),
  );
}

interface Pattern {
  readonly pattern: RegExp;
  /** Rejects matches of the pattern that are something else. */
  readonly isOne?: (found: string) => boolean;
}

/** Never within a word, an id or a dotted number: `pi_91234567`, UUIDs and IP addresses stay. */
const whole = (pattern: string) => new RegExp(`(?<![\\w-]|\\d\\.)(?:${pattern})(?!\\w|-\\w|\\.\\d)`, 'gu');

/** Norway's country code, however written: `+47`, `(+47)`, `0047`, `47`. */
const NORWAY = String.raw`\(?(?:(?:\+|00) ?)?47\)?[ .-]{0,3}(?:\(0\) ?)?`;

/** Eight digits in a grouping that people use; pairs with dots between them are IP addresses. */
const GROUPED = [
  String.raw`\(?\d{3}\)?[ ./_-]{1,3}\d{2}[ ./_-]{1,3}\d{3}`,
  String.raw`\(?\d{2}\)?[ -]{1,3}\d{2}[ -]{1,3}\d{2}[ -]{1,3}\d{2}`,
  String.raw`\d{4} {1,3}\d{4}|\d{3}-\d{3}-\d{2}`,
].join('|');

const PATTERNS: readonly Pattern[] = [
  { pattern: /[\p{L}\p{N}._%+-]{1,64}(?:@| ?[([]at[)\]] ?)[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/gu },
  // Eleven digits, the date of birth first. Check digits are ignored: a mistyped id still identifies somebody.
  { pattern: whole(String.raw`\d{2}[ ./-]?\d{2}[ ./-]?\d{2}[ ./_-]{0,3}\d{3}[ ./-]?\d{2}`) },
  { pattern: whole(String.raw`\d{2}[ ./-]\d{2}[ ./-](?:19|20)\d{2}[ ./_-]{0,3}\d{5}`) },
  { pattern: whole(`(?:${NORWAY})?(?:${GROUPED})`), isOne: (found) => !isIpAddress(found) },
  // Landlines without groups look like amounts: only the words before them tell the difference.
  { pattern: whole(String.raw`(?:${NORWAY})?[49]\d{7}|(?:\(\+?|\+|00)47\)?[ .-]{0,3}\d{8}`) },
  // Also within the name of a field: `phoneNumber`, `citizen_mobile`, `fnr_`.
  {
    pattern:
      /(?<=(?:(?<!\p{L})(?:tlf|tel|mob|sms)|telefon|telephone|phone|mobile?)(?:[ _-]?(?:number|nummer|nr|no))?[\W_]{0,4})\d(?:[ ().-]{0,2}\d){7}(?!\w)/gu,
  },
  {
    pattern:
      /(?<=(?:(?<!\p{L})(?:fnr|nin|pnr|ssn)|fodselsn(?:ummer|r)|personn(?:ummer|r)|national[ _-]?id)[\W_]{0,4})\d(?:[ ./_-]{0,2}\d){10}(?!\w)/gu,
  },
  // Other countries' codes, with a plus or with two zeros and a space.
  { pattern: /(?<![\w-])(?:\(?\+\d{1,3}\)?|00\d{1,3}[ .-])(?:[ ./()-]{0,3}\d){6,14}(?![\w-])/gu },
  { pattern: whole(String.raw`\d{4}[ .]\d{2}[ .]\d{5}`) },
  {
    pattern: whole(String.raw`[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?`),
    isOne: isIban,
  },
  {
    pattern: whole(String.raw`[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{4}|3\d{3}[ -]?\d{6}[ -]?\d{5}`),
    isOne: isCard,
  },
];

function isIpAddress(found: string): boolean {
  return /^(?:\d{1,3}\.){3}\d{1,3}$/.test(found) && found.split('.').every((part) => Number(part) < 256);
}

/** @see https://www.iso.org/standard/81090.html ISO 13616: the number, letters as 10 to 35, is 1 modulo 97. */
function isIban(found: string): boolean {
  const iban = found.replaceAll(/[ -]/g, '');
  // A UUID or a trace id whose check digits fit by chance. Only Saint Lucia's IBANs are as long, and these begin with LC.
  if (/^[\da-f]{32}$/.test(iban)) return false;
  const digits = Array.from(iban.slice(4) + iban.slice(0, 4))
    .map((letter) => Number.parseInt(letter, 36))
    .join('');
  return BigInt(digits) % 97n === 1n;
}

/** ISO/IEC 7812: Luhn's check digit. */
function isCard(found: string): boolean {
  const digits = Array.from(found.replaceAll(/\D/g, ''), Number).toReversed();
  const sum = digits.reduce((total, digit, index) => {
    const weighed = index % 2 === 1 ? digit * 2 : digit;
    return total + (weighed > 9 ? weighed - 9 : weighed);
  }, 0);
  return sum % 10 === 0;
}
