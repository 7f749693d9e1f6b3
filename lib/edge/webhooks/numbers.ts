/**
 * Whether `JSON.parse` keeps every number of a JSON text: its value has the same digits, whatever the spelling (`1.50`,
 * `1e2`). It rounds without a word what a double can't hold, and Node 20 does not hand the source to a reviver.
 *
 * @param json valid JSON.
 */
export function keepsNumbers(json: string): boolean {
  for (const [found] of json.matchAll(TEXT_OR_NUMBER)) if (!isKept(found)) return false;
  return true;
}

/** Writes `1e999` for each number that `JSON.parse` would change: it becomes `Infinity`, which no JSON text can mean. */
export function markChangedNumbers(json: string): string {
  return json.replaceAll(TEXT_OR_NUMBER, (found) => (isKept(found) ? found : '1e999'));
}

/** A text too, since it may have a number in it. */
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs;

/** Beyond it, integers have neighbours that a double can't tell from them. */
const LARGEST_INTEGER = 2 ** 53;

/** A double keeps any 15 digits. */
const ALWAYS_KEPT = /^(?:"|-?(?:\d{1,15}|(?=.{1,16}$)\d+\.\d+)$)/;

function isKept(found: string): boolean {
  if (ALWAYS_KEPT.test(found)) return true;
  const value = Number(found);
  if (!Number.isFinite(value)) return false;
  if (/^-?\d+$/.test(found) && Math.abs(value) > LARGEST_INTEGER) return false;
  return canonical(found) === canonical(String(value));
}

/** Writes a number as its digits and an exponent of ten, so that equal numbers are equal texts. */
function canonical(literal: string): string {
  const [mantissa = '', power = '0'] = literal.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = whole + fraction;
  let [start, end] = [0, digits.length];
  while (digits[start] === '0') start += 1;
  if (start === end) return '0';
  while (digits[end - 1] === '0') end -= 1;
  const sign = literal.startsWith('-') ? '-' : '';
  return `${sign}${digits.slice(start, end)}e${Number(power) - fraction.length + digits.length - end}`;
}
