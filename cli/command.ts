import { printableJson } from '../lib/platform/visible.ts';
import type { Given, Options } from './arguments.ts';
import type { Bus } from './bus.ts';
import { EXIT, Failure, misused } from './arguments.ts';
import type { Terminal } from './terminal.ts';

/** One of `npx postbud …`: it returns its exit code, and throws a failure. */
export interface Command extends Described {
  /** Reads this release alone: it needs neither a server nor a token, and must not ask one. */
  readonly isOffline?: true;
  readonly run: (call: Call) => Promise<number>;
}

export interface Described {
  readonly name: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  /** The words after `npx postbud`, a line for each way to call it. */
  readonly usage: readonly string[];
  /** Paragraphs for the command's own help. */
  readonly notes: readonly string[];
  readonly options: Options;
  readonly examples: readonly (readonly [line: string, does: string])[];
}

/** One use of a command. */
export interface Call {
  readonly given: Given;
  readonly terminal: Terminal;
  readonly isJson: boolean;
  readonly bus: Bus;
}

export function writeJson({ terminal }: Call, json: unknown): void {
  terminal.out.write(printableJson(json, 2));
}

/** @throws Failure for more arguments than a command takes. */
export function atMost(most: number, { positionals }: Given): void {
  const [superfluous] = positionals.slice(most);
  if (superfluous === undefined) return;
  throw misused(
    `Unexpected argument '${superfluous}'.`,
    'Put several words in quotes, or add --help for usage.',
  );
}

/** The option of every command that asks for confirmation. */
export const YES = { yes: { help: 'do it without asking' } } as const;

/**
 * Refuses what nobody can confirm. Comes after the server was asked, which knows whether an argument is wrong.
 *
 * @param nothing says that nothing was done, as a whole sentence. @throws Failure without a terminal and without --yes.
 */
export function requireSomebody(
  { given, terminal }: Call,
  { nothing, orElse }: { readonly nothing: string; readonly orElse: string },
): void {
  if (given.isSet('yes') || terminal.isInteractive) return;
  throw misused(
    `${nothing.replace(/\.$/, '')}: there is no terminal to ask for confirmation.`,
    `Add --yes to do it without asking${orElse}.`,
  );
}

interface Question {
  /** A verb and its object, such as `Replay them`. */
  readonly action: string;
  readonly count: number;
  /** A text that is to be typed, however few there are. */
  readonly typed?: string | undefined;
  readonly nothing: string;
}

/** Above this the operator types the number, which proves that it was read. The console has the same limit. */
const TYPED_ABOVE = 100;

/** Asks for confirmation, unless --yes is given. @throws Failure for any other answer than yes. */
export async function confirm(
  { given, terminal }: Call,
  { action, count, nothing, typed = count > TYPED_ABOVE ? String(count) : undefined }: Question,
): Promise<void> {
  if (given.isSet('yes')) return;
  const does = `${action.charAt(0).toLowerCase()}${action.slice(1)}`;
  const question = typed === undefined ? `${action}? [y/N] ` : `Type ${typed} to ${does}: `;
  const answer = (await terminal.ask(`\n${question}`)).trim();
  const isYes =
    typed === undefined
      ? /^(y|yes|j|ja)$/i.test(answer)
      : [answer, answer.replaceAll(/[ ,.]/g, '')].includes(typed);
  if (!isYes) throw new Failure(EXIT.failed, nothing);
}
