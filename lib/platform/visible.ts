/**
 * Makes a text from elsewhere safe to show with its line breaks: characters that control a terminal, change the direction
 * of a text or cannot be seen are written as signs, such as `␛` or `⟨U+202E⟩`.
 */
export function visible(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(UNSEEN, signOf);
}

/**
 * The same for a key or a name, which has one line: a sign stands for a line break and a tab too, and for each blank of a
 * text that has nothing else.
 */
export function visibleName(text: string): string {
  const isBlank = /^\p{Zs}+$/u.test(text);
  return visible(text)
    .replaceAll(/[\n\t]/g, signOf)
    .replaceAll(/\p{Zs}/gu, (blank) => (isBlank ? (blank === ' ' ? '␣' : signOf(blank)) : blank));
}

/** Whether a text shows nothing: it is empty or all blanks, controls, fillers and characters of no width. */
export function isInvisible(text: string): boolean {
  return /^[\s\p{C}\p{Default_Ignorable_Code_Point}\u2800]*$/u.test(text);
}

/** Writes JSON that is safe to show: it also escapes the characters that JSON itself leaves as they are. */
export function printableJson(value: unknown, indent?: number): string {
  const escaped = (characters: string) =>
    Array.from(
      { length: characters.length },
      (_, index) => `\\u${characters.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join('');
  // The line breaks between fields are ours.
  return JSON.stringify(value, null, indent).replaceAll(UNSEEN, escaped);
}

/** Controls other than a line break and a tab, and characters that change how others are shown, but for emoji's joiner. */
const UNSEEN = /[^\P{Cc}\n\t]|(?!\u200D)\p{Cf}|[\p{Cs}\p{Co}\u2028\u2029]/gu;

/** Unicode has a picture for each of ASCII's controls. */
const PICTURES = 0x2400;
const DELETE = 0x7f;

function signOf(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20) return String.fromCodePoint(PICTURES + code);
  if (code === DELETE) return '␡';
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}
