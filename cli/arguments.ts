import { parseArgs } from 'node:util';

import { nearest } from '../lib/platform/nearest.ts';
import type { FieldOption } from '../lib/console/kit/operation.ts';

/** Options by their names, as they are parsed and as the help shows them. */
export type Options = Readonly<Record<string, FieldOption>>;

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

/** Exit codes, as the help describes them. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unreachable: 3, denied: 4 } as const;

/** Ends a command with a message, advice and an exit code. */
export class Failure extends Error {
  readonly exitCode: number;
  /** Tells the operator what to do; null where nothing helps. */
  readonly advice: string | null;

  constructor(exitCode: number, message: string, advice: string | null = null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Failure';
    this.exitCode = exitCode;
    this.advice = advice;
  }
}

/** The command line is wrong. */
export function misused(message: string, advice: string | null = null): Failure {
  return new Failure(EXIT.usage, message, advice);
}

/** Says that a name is unknown, and which was probably meant. @param advice for where none is near. */
export function unknownName(
  kind: string,
  written: string,
  known: readonly string[],
  advice = `Known: ${known.join(', ')}`,
): Failure {
  const meant = nearest(written, known);
  return meant === null
    ? misused(`Unknown ${kind} '${written}'.`, advice)
    : misused(`Unknown ${kind} '${written}'. Did you mean '${meant}'?`);
}

// The fields of a request, as a command line fills them in.

export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

type Examples = readonly (readonly [line: string, does: string])[];

const nameOf = (field: string, { name = field }: FieldOption) => name;

/** The options that fill fields in, by their own names. */
export function optionsOf(fields: Options): Options {
  return Object.fromEntries(Object.entries(fields).map(([field, one]) => [nameOf(field, one), one]));
}

/** Maps fields to their options, as errors name them. */
export function namesOf(fields: Options): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fields).map(([field, one]) => [field, `--${nameOf(field, one)}`]));
}

/** Reads the fields that options fill in. @throws Failure for what is no number where one is expected. */
export function fieldsIn(given: Given, fields: Options): Fields {
  const read = (name: string, { value, isList, range }: FieldOption) => {
    if (value === undefined) return given.isSet(name) || undefined;
    if (range) return given.wholeNumber(name, ...range);
    return isList ? given.texts(name).join(',') || undefined : given.text(name);
  };
  return Object.fromEntries(
    Object.entries(fields).map(([field, one]) => [field, read(nameOf(field, one), one)]),
  );
}

/** Lists the parameters of a path, in their order. */
export function parametersIn(path: string): readonly string[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name!);
}

/** Names what an argument is: `deliveryId` is a delivery id. */
export function wordsFor(argument: string): string {
  return argument
    .split('|')
    .map((one) => one.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
    .join(' or ');
}

/** Says that an argument is missing, with an example. */
export function missing(argument: string, [[line, does] = ['--help', '']]: Examples) {
  return misused(`The ${wordsFor(argument)} is missing.`, `For example: npx postbud ${line}\n    ${does}`);
}

/** The option of every command that acts. */
export const REASON = { reason: { value: '<text>', help: 'recorded in the operator log' } } as const;

/** @param example the command line with a reason, without `npx postbud`. @throws Failure without one. */
export function requireReason(given: Given, example: string, option = 'reason'): string {
  const reason = given.text(option)?.trim();
  if (reason) return reason;
  throw misused(
    `--${option} is missing: it is recorded in the operator log.`,
    `For example: npx postbud ${example}`,
  );
}
