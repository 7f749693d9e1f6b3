import { fold } from './readable.ts';
import type { Span } from './readable.ts';
import { Prefixes, Substrings } from './substrings.ts';

/**
 * Finds known personal data in a message: whole texts, three words in a row of a longer one, each word of a name, and
 * numbers in any grouping.
 *
 * A message is short, and what is known may be a megabyte. So the message is indexed, and each known text is read once:
 * the time is that of reading them, whatever the message says.
 *
 * @param message a text from `readable`.
 * @param known the texts as the payload has them.
 */
export function knownSpans(message: string, known: readonly string[]): Span[] {
  if (known.length === 0) return [];
  const said = saidIn(message);
  const sought = soughtIn(known, said);
  const isInId = new Uint8Array(message.length);
  for (const { index } of message.matchAll(UUID)) isInId.fill(1, index, index + UUID_LENGTH);
  const others = [...wordsFound(message, said, sought), ...numbersFound(said, sought)].filter(
    ({ start, end }) => !isInId.subarray(start, end).includes(1),
  );
  return [...phrasesFound(said, sought), ...others, ...cutsFound(said, sought)];
}

/** What a message has, as known texts are compared with it. */
interface Said {
  readonly tokens: readonly Token[];
  readonly spellings: ReadonlySet<string>;
  readonly words: readonly Token[];
  /** The spellings of the words, also without the `s` at their end. */
  readonly wordSpellings: ReadonlySet<string>;
  readonly numbers: readonly NumberFound[];
  /** The words and numbers that the message may have cut. */
  readonly cuts: readonly Token[];
}

interface Token extends Span {
  readonly text: string;
}

interface NumberFound extends Span {
  readonly digits: string;
}

/** What known texts have in common with a message. */
interface Sought {
  /** Up to three tokens, joined by spaces. */
  readonly phrases: Set<string>;
  readonly words: Set<string>;
  readonly numbers: Substrings;
  readonly tokens: Prefixes;
  readonly cutNumbers: Substrings;
}

function saidIn(message: string): Said {
  const tokens = tokensIn(message, TOKEN);
  const words = tokensIn(message, WORD);
  return {
    tokens,
    spellings: new Set(tokens.map(({ text }) => spellingOf(text))),
    words,
    wordSpellings: new Set(words.flatMap(({ text }) => wordSpellingsOf(text))),
    numbers: numbersIn(message),
    cuts: cutsIn(message, tokens),
  };
}

function tokensIn(message: string, pattern: RegExp): Token[] {
  return Array.from(message.matchAll(pattern), ({ 0: text, index }) => ({
    text,
    start: index,
    end: index + text.length,
  }));
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
const WORD = /\p{L}+/gu;
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

const TWO_SPELLINGS = /aa|ae|oe/;

/**
 * Gives one spelling to words with letters that people write in two ways: Ødegård is also Oedegaard, and Bærum is
 * Barum. A word that would become too short or a word of error messages stays as it is: Aas is not `as`.
 *
 * @param word folded.
 */
function spellingOf(word: string): string {
  if (!TWO_SPELLINGS.test(word)) return word;
  const short = word.replaceAll(/aa|ae/g, 'a').replaceAll('oe', 'o');
  return short.length >= SHORTEST && !COMMON.has(short) ? short : word;
}

/** The spellings by which a word of a message is a known one: a name may be in the genitive. */
function wordSpellingsOf(word: string): string[] {
  return word.endsWith('s') ? [spellingOf(word), spellingOf(word.slice(0, -1))] : [spellingOf(word)];
}

function soughtIn(known: readonly string[], { spellings, wordSpellings, numbers, cuts }: Said): Sought {
  const sought: Sought = {
    phrases: new Set(),
    words: new Set(),
    numbers: new Substrings(numbers.map(({ digits }) => digits)),
    tokens: new Prefixes(cuts.map(({ text }) => spellingOf(text))),
    cutNumbers: new Substrings(cuts.map(({ text }) => digitsOf(text))),
  };
  for (const text of new Set(known)) {
    for (const word of namesIn(text)) {
      const spelling = spellingOf(word);
      if (wordSpellings.has(spelling)) sought.words.add(spelling);
    }
    if (text.trim().length < SHORTEST) continue;
    const folded = fold(text);
    const written = folded.match(TOKEN) ?? [];
    const tokens = TWO_SPELLINGS.test(folded) ? written.map(spellingOf) : written;
    for (const phrase of phrasesOf(tokens, spellings)) sought.phrases.add(phrase);
    if (cuts.length > 0) for (const token of tokens) sought.tokens.read(token);
    if (numbers.length === 0 && cuts.length === 0) continue;
    for (const { digits } of numbersIn(folded)) {
      sought.numbers.read(digits);
      sought.cutNumbers.read(`47${digits}`);
    }
  }
  return sought;
}

/** Fewer digits in a row are a year, a status or an hour. */
const SHORTEST_NUMBER = 5;

/** Lists the phrases of a known text that a message with these spellings may have. */
function phrasesOf(tokens: readonly string[], spellings: ReadonlySet<string>): string[] {
  if (tokens.length <= 3) {
    const [first = ''] = tokens;
    const isShortNumber = tokens.length === 1 && /^\d+$/.test(first) && first.length < SHORTEST_NUMBER;
    return isShortNumber || !tokens.every((token) => spellings.has(token)) ? [] : [tokens.join(' ')];
  }
  const phrases: string[] = [];
  let inARow = 0;
  for (let index = 0; index < tokens.length; index += 1) {
    inARow = spellings.has(tokens[index]!) ? inARow + 1 : 0;
    if (inARow < 3) continue;
    const phrase = tokens.slice(index - 2, index + 1).join(' ');
    if (phrase.length > 2 * SHORTEST) phrases.push(phrase);
  }
  return phrases;
}

function phrasesFound({ tokens }: Said, { phrases }: Sought): Span[] {
  return tokens.flatMap((token, index) =>
    [1, 2, 3].flatMap((count) => {
      const taken = tokens.slice(index, index + count);
      return phrases.has(taken.map(({ text }) => spellingOf(text)).join(' '))
        ? [{ start: token.start, end: taken.at(-1)!.end }]
        : [];
    }),
  );
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
  const written = firstWordsOf(text, WORDS_IN_NAME + 1);
  const isName = written.length <= WORDS_IN_NAME && NAME_LIKE.test(text);
  if (!isName && !CAPITAL.test(text)) return [];
  const words = (
    isName ? written : (text.match(PIECE) ?? []).filter((piece) => CAPITAL.test(piece)).flatMap(wordsOf)
  )
    .filter((word) => isName || /^\p{Lu}/u.test(word))
    .map(fold)
    .filter((word) => word.length >= (isName ? SHORTEST_NAME : SHORTEST) && !COMMON.has(word));
  if (!isName || written.length === 1) return words;
  const joined = fold(written.join(''));
  return joined.length > LONG_WORD ? [...words, joined] : words;
}

const CAPITAL = /\p{Lu}/u;

/** What stands between spaces and the signs between words. */
const PIECE = /[^\s,;:()/"_&]+/gu;

function firstWordsOf(text: string, most: number): string[] {
  const words: string[] = [];
  for (const [piece] of text.matchAll(PIECE)) {
    words.push(...wordsOf(piece).slice(0, most - words.length));
    if (words.length === most) break;
  }
  return words;
}

function wordsOf(piece: string): string[] {
  const [bare] = /\p{L}[\p{L}\p{M}\p{Cf}'’.-]*/u.exec(piece) ?? [];
  return bare && !/[\d@]/.test(piece) ? bare.split(/[.'’-]/) : [];
}

function wordsFound(message: string, said: Said, { words }: Sought): Span[] {
  return said.words.filter(({ text, start, end }) => {
    const around = `${message[start - 1] ?? ''}${message[end] ?? ''}`;
    const isInId = (text.length < SHORTEST ? /[\d_./=-]/ : /\d/).test(around);
    return (!isInId || text.length >= LONG_WORD) && wordSpellingsOf(text).some((one) => words.has(one));
  });
}

/** Finds numbers of six digits or more, in any grouping, without Norway's country code. */
function numbersIn(text: string): NumberFound[] {
  return Array.from(text.matchAll(/\d(?:[ ().+/-]{0,3}\d){5,}/g), ({ 0: found, index }) => ({
    start: index,
    end: index + found.length,
    digits: digitsOf(found).replace(/^(?:00)?47(?=\d{8}$)/, ''),
  }));
}

function digitsOf(text: string): string {
  return text.replaceAll(/\D/g, '');
}

function numbersFound(said: Said, { numbers }: Sought): Span[] {
  const compared = numbers.compared();
  return said.numbers.filter(({ digits }) => {
    const { isPart, hasPart } = compared(digits);
    return isPart || hasPart;
  });
}

/** Shorter messages are not cut without a mark. */
const CUT_FROM = 1000;

/** Characters of a number in groups. */
const OF_A_NUMBER = /[\d ().+/-]/;

/** Lists where a message may end within a word or a number: messages are cut to a length, or before three dots. */
function cutsIn(message: string, tokens: readonly Token[]): Token[] {
  const isLong = message.length >= CUT_FROM;
  let tail = message.length;
  while (tail > 0 && OF_A_NUMBER.test(message[tail - 1]!)) tail -= 1;
  const cuts: Token[] = [];
  for (const token of tokens) {
    const isAtEnd = token.end === message.length;
    if ((isAtEnd || message.startsWith('...', token.end)) && Array.from(token.text).length >= SHORTEST) {
      if (!isAtEnd || isLong) cuts.push(token);
      continue;
    }
    const from = Math.max(token.start, tail);
    const digit = message.slice(from, token.end).search(/\d/);
    if (digit === -1 || message.length - from - digit < SHORTEST) continue;
    const [start, end] = [from + digit, message.length];
    return isLong ? [...cuts, { text: message.slice(start), start, end }] : cuts;
  }
  return cuts;
}

function cutsFound({ cuts }: Said, { tokens, cutNumbers }: Sought): Span[] {
  const compared = cutNumbers.compared();
  return cuts.filter(({ text }) => {
    const digits = digitsOf(text);
    return tokens.isPrefix(spellingOf(text)) || (digits.length >= SHORTEST && compared(digits).isPart);
  });
}
