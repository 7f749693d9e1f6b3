import { parseArgs } from 'node:util';

import { misused } from './failure.ts';
import { nearest } from './nearest.ts';

/** An option as it is parsed and as the help shows it. */
interface Option {
  /** What stands for its value, for example `<topic>`; left out: it is there or not. */
  readonly value?: string;
  /** May be there several times. */
  readonly isList?: boolean;
  readonly help: string;
}

export type Options = Readonly<Record<string, Option>>;

/** A command line, taken apart. */
export interface Given {
  readonly positionals: readonly string[];
  readonly isSet: (name: string) => boolean;
  /** Of an option that is there several times, the last. */
  readonly text: (name: string) => string | undefined;
  readonly texts: (name: string) => readonly string[];
  /** @throws Failure for what is no whole number within the range. */
  readonly wholeNumber: (name: string, least: number, most: number) => number | undefined;
}

/**
 * Takes a command line apart.
 *
 * @throws Failure for an option that there isn't, with the one that was probably meant; for a value that is missing or
 *   too many.
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
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!option || !rawName.startsWith('--')) throw unknownOption(rawName, options);
    if (option.value && (value === undefined || (!token.inlineValue && value.startsWith('--'))))
      throw misused(`${rawName} needs a value: ${rawName} ${option.value}`);
    // Of a script’s variable that is not set: left out, it would have the command do more than was meant.
    if (option.value && value === '')
      throw misused(`${rawName} is empty: write ${rawName} ${option.value}, or leave it out`);
    if (!option.value && value !== undefined) throw misused(`${rawName} takes no value`);
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
      throw misused(`--${name}: write a whole number, ${least} to ${most}`);
    },
  };
}

function unknownOption(rawName: string, options: Options) {
  const meant = nearest(rawName.replace(/^-+/, ''), Object.keys(options));
  return misused(`There is no option ${rawName}.`, meant === null ? null : `Did you mean --${meant}?`);
}
