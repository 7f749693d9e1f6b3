import { fold } from '../../lib/platform/masking/readable.ts';
import type { Span } from '../../lib/platform/masking/readable.ts';

// What masking finds, by comparing each word and number of a message with each of the known texts. It defines what
// `lib/platform/masking/known-texts.ts` must find, which looks at each of them once.

/**
 * Finds known personal data in a message: whole texts, three words in a row of a longer one, each word of a name, and
 * numbers in any grouping.
 *
 * @param message a text from `readable`.
 * @param known the texts as the payload has them.
 */
export function knownSpans(message: string, known: readonly string[]): Span[] {
  if (known.length === 0) return [];
  const sought = soughtIn(known);
  const tokens = [...message.matchAll(TOKEN)].map(({ 0: text, index }) => ({
    text,
    start: index,
    end: index + text.length,
  }));
  const phrases = tokens.flatMap((token, index) =>
    [1, 2, 3].flatMap((count) => {
      const taken = tokens.slice(index, index + count);
      return sought.phrases.has(taken.map(({ text }) => spellingOf(text)).join(' '))
        ? [{ start: token.start, end: taken.at(-1)!.end }]
        : [];
    }),
  );
  const ids = [...message.matchAll(UUID)].map(({ index }) => ({ start: index, end: index + UUID_LENGTH }));
  const others = [...wordsFound(message, sought), ...numbersFound(message, sought)].filter(
    (span) => !ids.some(({ start, end }) => span.start < end && start < span.end),
  );
  return [...phrases, ...others, ...cutOff(message, sought)];
}

interface Known {
  /** Up to three tokens, joined by spaces. */
  readonly phrases: Set<string>;
  readonly words: Set<string>;
  readonly numbers: Set<string>;
  readonly tokens: Set<string>;
}

/** Shorter texts occur within unrelated words. */
const SHORTEST = 3;

/** Shorter names, such as Li and Bø, count only as words of their own. */
const SHORTEST_NAME = 2;

/** Shorter words next to a digit are parts of ids more often than of names. */
const LONG_WORD = 5;

/** Texts up to this length may be names; longer ones are sentences. */
const WORDS_IN_NAME = 5;

const TOKEN = /[\p{L}\p{N}]+/gu;
const UUID = /(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])/g;
const UUID_LENGTH = 36;

/** Names, and words before an `@`, that also occur in error messages: alone they identify nobody. */
const COMMON: ReadonlySet<string> = new Set(
  `admin and are art bank bent but can dag day den det dig end error even event failed for fra from har has her him his
   ikke info kan key kontakt mail max may med men min name new not odd off old one our per post set she som support test
   the this til two type use user val var was will with you
   am an as at av be by da de di do du ei en er et go gå ha he hi id if in io ip is it ja jo la me mr ms my ne no nr nå
   of og ok om on or os pr på se so så to tv uk un up us ut vi vs we`
    .split(/\s+/)
    .map(fold),
);

/**
 * Gives one spelling to words with letters that people write in two ways: Ødegård is also Oedegaard, and Bærum is
 * Barum. A word that would become too short or a word of error messages stays as it is: Aas is not `as`.
 *
 * @param word folded.
 */
function spellingOf(word: string): string {
  const short = word.replaceAll(/aa|ae/g, 'a').replaceAll('oe', 'o');
  return short.length >= SHORTEST && !COMMON.has(short) ? short : word;
}

function soughtIn(known: readonly string[]): Known {
  const sought: Known = { phrases: new Set(), words: new Set(), numbers: new Set(), tokens: new Set() };
  for (const text of new Set(known)) {
    for (const word of namesIn(text)) sought.words.add(spellingOf(word));
    if (text.trim().length < SHORTEST) continue;
    const tokens = (fold(text).match(TOKEN) ?? []).map(spellingOf);
    for (const phrase of phrasesOf(tokens)) sought.phrases.add(phrase);
    for (const token of tokens) sought.tokens.add(token);
    for (const number of numbersIn(fold(text))) sought.numbers.add(number.digits);
  }
  return sought;
}

/** Fewer digits in a row are a year, a status or an hour. */
const SHORTEST_NUMBER = 5;

function phrasesOf(tokens: readonly string[]): string[] {
  const [first = ''] = tokens;
  if (tokens.length === 1) return /^\d+$/.test(first) && first.length < SHORTEST_NUMBER ? [] : tokens.slice();
  if (tokens.length <= 3) return [tokens.join(' ')];
  return tokens
    .slice(2)
    .map((_, index) => tokens.slice(index, index + 3).join(' '))
    .filter(({ length }) => length > 2 * SHORTEST);
}

/** A person's or an organization's name, or a part of one: without digits and without punctuation of programs. */
const NAME_LIKE = /^[\p{L}\p{M}\s\u00ad\u200b-\u200d.,'’"&()/-]+$/u;

/** Lists the words that may name someone: every word of a short text, the capitalized words of a longer one. */
function namesIn(text: string): string[] {
  const [local, domain] = text.split('@');
  if (local && domain && !/\s/.test(text)) {
    return (fold(local).match(/\p{L}+/gu) ?? []).filter(
      (word) => word.length >= SHORTEST && !COMMON.has(word),
    );
  }
  const written = text.split(/[\s,;:()/"_&]+/u).flatMap((word) => {
    const [bare] = /\p{L}[\p{L}\p{M}\p{Cf}'’.-]*/u.exec(word) ?? [];
    return bare && !/[\d@]/.test(word) ? bare.split(/[.'’-]/) : [];
  });
  const isName = NAME_LIKE.test(text) && written.length <= WORDS_IN_NAME;
  const words = (isName ? written : written.filter((word) => /^\p{Lu}/u.test(word)))
    .map(fold)
    .filter((word) => word.length >= (isName ? SHORTEST_NAME : SHORTEST) && !COMMON.has(word));
  const joined = fold(written.join(''));
  return isName && written.length > 1 && joined.length > LONG_WORD ? [...words, joined] : words;
}

function wordsFound(message: string, { words }: Known): Span[] {
  return [...message.matchAll(/\p{L}+/gu)].flatMap(({ 0: word, index }) => {
    const isKnown =
      words.has(spellingOf(word)) || (word.endsWith('s') && words.has(spellingOf(word.slice(0, -1))));
    const end = index + word.length;
    const around = `${message[index - 1] ?? ''}${message[end] ?? ''}`;
    const isInId = (word.length < SHORTEST ? /[\d_./=-]/ : /\d/).test(around);
    return isKnown && (!isInId || word.length >= LONG_WORD) ? [{ start: index, end }] : [];
  });
}

/** Finds numbers of six digits or more, in any grouping, without Norway's country code. */
function numbersIn(text: string): (Span & { readonly digits: string })[] {
  return [...text.matchAll(/\d(?:[ ().+/-]{0,3}\d){5,}/g)].map(({ 0: found, index }) => ({
    start: index,
    end: index + found.length,
    digits: found.replaceAll(/\D/g, '').replace(/^(?:00)?47(?=\d{8}$)/, ''),
  }));
}

function numbersFound(message: string, sought: Known): Span[] {
  const numbers = [...sought.numbers];
  return numbersIn(message).filter(({ digits }) =>
    numbers.some((number) => digits.includes(number) || number.includes(digits)),
  );
}

/** Shorter messages are not cut without a mark. */
const CUT_FROM = 1000;

/** Messages are cut to a length, so one may end within a word or a number. */
function cutOff(message: string, { tokens, numbers }: Known): Span[] {
  const ends = [...message.matchAll(/[\p{L}\p{N}]{3,}(?=\.\.\.|$)|\d[\d ().+/-]{2,}$/gu)];
  return ends.flatMap(({ 0: cut, index }) => {
    const end = index + cut.length;
    const isCut = end < message.length || message.length >= CUT_FROM;
    const digits = cut.replaceAll(/\D/g, '');
    const isKnown =
      [...tokens].some((token) => token.startsWith(spellingOf(cut))) ||
      (digits.length >= SHORTEST && [...numbers].some((number) => `47${number}`.includes(digits)));
    return isCut && isKnown ? [{ start: index, end }] : [];
  });
}
