import type { Call } from './command.ts';
import { EXIT, Failure, misused } from './failure.ts';

/** Above this the operator types the number, which proves that it was read. The console has the same limit. */
const TYPED_ABOVE = 100;

/** The option of every command that asks for confirmation. */
export const YES = { yes: { help: 'do it without asking' } } as const;

/**
 * Refuses, before anything is asked of the server, what nobody can confirm.
 *
 * @param nothing says that nothing was done, as a whole sentence.
 * @throws Failure without a terminal and without --yes.
 */
export function requireConfirmable({ given, terminal }: Call, nothing: string, orElse = ''): void {
  if (given.isSet('yes') || terminal.isInteractive) return;
  throw misused(
    `${nothing.replace(/\.$/, '')}: there is no terminal to ask for confirmation.`,
    `Add --yes to do it without asking${orElse}.`,
  );
}

/**
 * Asks for confirmation, unless --yes is given. Many things are confirmed by typing their number.
 *
 * @param action a verb and its object, such as `Replay them`. @param nothing as `requireConfirmable` takes it.
 * @throws Failure for any other answer than yes.
 */
export async function confirm(
  { given, terminal }: Call,
  { action, count, nothing }: { readonly action: string; readonly count: number; readonly nothing: string },
): Promise<void> {
  if (given.isSet('yes')) return;
  const isTyped = count > TYPED_ABOVE;
  const question = isTyped
    ? `Type ${count} to ${action.charAt(0).toLowerCase()}${action.slice(1)}: `
    : `${action}? [y/N] `;
  const answer = (await terminal.ask(`\n${question}`)).trim().toLowerCase();
  const isYes = isTyped ? answer.replaceAll(/[ ,.]/g, '') === String(count) : /^(y|yes|j|ja)$/.test(answer);
  if (!isYes) throw new Failure(EXIT.failed, nothing);
}
