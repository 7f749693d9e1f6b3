import type { Call } from './command.ts';
import { EXIT, Failure, misused } from './failure.ts';
import { printable } from './text.ts';

/** Above this the operator types the number, which proves that it was read. The console has the same limit. */
const TYPED_ABOVE = 100;

/** The option of every command that asks for confirmation. */
export const YES = { yes: { help: 'do it without asking' } } as const;

/**
 * Reads what is then confirmed. Where nobody can confirm it, refuses it afterwards: so a wrong argument, which only the
 * server knows, is named first.
 *
 * @param nothing says that nothing was done, as a whole sentence. @param read asks the server, and does nothing.
 * @throws Failure without a terminal and without --yes; or that of `read`.
 */
export async function readConfirmable<Read>(
  { given, terminal }: Call,
  { nothing, orElse }: { readonly nothing: string; readonly orElse: string },
  read: () => Promise<Read>,
): Promise<Read> {
  if (given.isSet('yes') || terminal.isInteractive) return await read();
  await read().catch((error: unknown) => {
    if (!(error instanceof Failure) || !SAYS_NOTHING.has(error.exitCode)) throw error;
  });
  throw misused(
    `${nothing.replace(/\.$/, '')}: there is no terminal to ask for confirmation.`,
    `Add --yes to do it without asking${orElse}.`,
  );
}

/** These say nothing of the arguments. */
const SAYS_NOTHING: ReadonlySet<number> = new Set([EXIT.unreachable, EXIT.denied]);

/**
 * Asks for confirmation, unless --yes is given. Many things are confirmed by typing their number.
 *
 * @param action a verb and its object, such as `Replay them`. @param nothing as `readConfirmable` takes it.
 * @throws Failure for any other answer than yes.
 */
export async function confirm(
  { given, terminal }: Call,
  { action, count, nothing }: { readonly action: string; readonly count: number; readonly nothing: string },
): Promise<void> {
  if (given.isSet('yes')) return;
  if (count > TYPED_ABOVE) {
    const isRight = (answer: string) => answer.replaceAll(/[ ,.]/g, '') === String(count);
    const to = `${action.charAt(0).toLowerCase()}${action.slice(1)}`;
    return await askTyped(terminal, { text: String(count), to, isRight, nothing });
  }
  const answer = (await terminal.ask(`\n${action}? [y/N] `)).trim().toLowerCase();
  if (!/^(y|yes|j|ja)$/.test(answer)) throw new Failure(EXIT.failed, nothing);
}

const TRIES = 3;

/**
 * Has a text typed, which proves that it was read. A typing error is said, and asked for again.
 *
 * @throws Failure for no answer, and after three wrong ones.
 */
export async function askTyped(
  { ask, err }: Call['terminal'],
  {
    text,
    to,
    isRight = (answer) => answer === text,
    nothing,
  }: {
    readonly text: string;
    readonly to: string;
    readonly isRight?: (answer: string) => boolean;
    readonly nothing: string;
  },
): Promise<void> {
  for (let left = TRIES; left > 0; left -= 1) {
    const answer = (await ask(`\nType ${text} to ${to}: `)).trim();
    if (isRight(answer)) return;
    if (answer === '') break;
    err.write(`'${printable(answer)}' is not ${text}.`);
  }
  throw new Failure(EXIT.failed, nothing);
}
