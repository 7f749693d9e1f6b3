import { parseArgs } from 'node:util';

import { misused } from './failure.ts';
import { unknownName } from './nearest.ts';

/** An option as it is parsed and as the help shows it. */
interface Option {
  /** A placeholder for its value, such as `<topic>`; a flag has none. */
  readonly value?: string;
  /** May be repeated. */
  readonly isList?: boolean;
  readonly help: string;
}

export type Options = Readonly<Record<string, Option>>;

/** A parsed command line. */
export interface Given {
  readonly positionals: readonly string[];
  readonly isSet: (name: string) => boolean;
  /** The last value of a repeated option. */
  readonly text: (name: string) => string | undefined;
  readonly texts: (name: string) => readonly string[];
  /** @throws Failure for anything but a whole number within the range. */
  readonly wholeNumber: (name: string, least: number, most: number) => number | undefined;
}

/**
 * Parses a command line with `parseArgs` of Node. Its strict mode neither suggests an option nor refuses an empty value
 * or argument, so its tokens are checked here.
 *
 * @throws Failure for an unknown option, with the nearest known one; for a missing, empty or superfluous value; for an
 *   empty argument.
 */
export function parse(args: readonly string[], options: Options): Given {
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value }]) => [name, { type: value ? 'string' : 'boolean' }]),
    ),
    strict: false,
    tokens: true,
  });
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') {
      // An unset variable of a script, as below.
      if (token.value.trim() === '') throw misused('An argument is empty.', 'Write it, or leave it out.');
      positionals.push(token.value);
    }
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!option || !rawName.startsWith('--')) throw unknownOption(rawName, options);
    if (option.value && (value === undefined || (!token.inlineValue && value.startsWith('--'))))
      throw misused(`${rawName} needs a value: ${rawName} ${option.value}`);
    // An unset variable of a script: without the option the command could do more than was meant.
    if (option.value && value === '')
      throw misused(`${rawName} is empty.`, `Write ${rawName} ${option.value}, or leave it out.`);
    if (!option.value && value !== undefined)
      throw misused(`${rawName} takes no value.`, `Write ${rawName}.`);
    const earlier = values.get(name) ?? [];
    values.set(name, option.isList ? [...earlier, value ?? ''] : [value ?? '']);
  }
  const text = (name: string) => values.get(name)?.at(-1);
  return {
    positionals,
    isSet: (name) => values.has(name),
    text,
    texts: (name) => values.get(name) ?? [],
    wholeNumber(name, least, most) {
      const written = text(name);
      if (written === undefined) return undefined;
      const number = Number(written);
      if (/^\d+$/.test(written) && number >= least && number <= most) return number;
      throw misused(`--${name}: '${written}' is not a whole number from ${least} to ${most}.`);
    },
  };
}

function unknownOption(rawName: string, options: Options) {
  const known = Object.keys(options).map((name) => `--${name}`);
  return unknownName('option', rawName, known);
}
