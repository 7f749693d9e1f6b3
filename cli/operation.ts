import { phraseOf } from '../lib/console/kit/document.ts';
import type { Warning, Warnings } from '../lib/console/kit/operation-pages.ts';
import { capitalize, count } from '../lib/console/kit/words.ts';
import type { Given } from './arguments.ts';
import type { Answered } from './bus.ts';
import { writeJson } from './command.ts';
import type { Call } from './command.ts';
import { confirm, readConfirmable } from './confirm.ts';
import { EXIT, Failure } from './failure.ts';
import { follow, waitLimitMs } from './follow.ts';
import { writeOutcome } from './outcome.ts';
import { Unavailable } from './refusals.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './text.ts';

/** What is previewed, confirmed, begun, and followed to its end: a replay, a backfill, an erasure. */
export interface Operation<Preview, Begun, Progress = never> {
  /** That nothing was done, as a whole sentence. */
  readonly nothing: string;
  readonly preview: () => Promise<Answered<Preview>>;
  readonly draw: (preview: Preview, pane: Pane) => void;
  /** How many there are, for `--expected`, and the words that say so. */
  readonly matched?: (preview: Preview) => readonly [number: number, words: string];
  /** Whether there is nothing to do, so that nothing is begun, nor kept in the operator log. */
  readonly isEmpty?: (preview: Preview) => boolean;
  /** @throws Failure where it is not confirmed. */
  readonly confirm: (preview: Preview) => Promise<void>;
  /**
   * Has the server begin it, under the id of the preview: a repeated request does nothing twice.
   *
   * @param isAgain whether the answer to an earlier request was lost, which may have been carried out.
   */
  readonly begin: (preview: Preview, isAgain: boolean) => Promise<Answered<Begun>>;
  /** Says what has begun. */
  readonly tell?: (begun: Begun, preview: Preview) => void;
  readonly followed?: Followed<Progress> & {
    /** @returns how to look at its progress; null where there is nothing to follow. */
    readonly look: (begun: Begun, preview: Preview) => (() => Promise<Answered<Progress>>) | null;
  };
}

/** How what has begun is followed to its end. */
export interface Followed<Progress> {
  readonly isSettled: (now: Progress) => boolean;
  readonly words: (now: Progress) => string;
  /** Draws what became of its parts. */
  readonly drawEnd?: (last: Progress, pane: Pane) => void;
  readonly ends: (last: Progress) => End;
}

interface End {
  readonly isGood: boolean;
  readonly words: string;
  /** Lines below it, and an address. */
  readonly more?: readonly string[];
  readonly address?: string;
}

/** @param isFollowed whether to wait for its end. @returns the exit code. */
export async function carryOut<Preview, Begun, Progress = never>(
  call: Call,
  operation: Operation<Preview, Begun, Progress>,
  isFollowed = call.given.isSet('wait'),
): Promise<number> {
  const { given, terminal, isJson } = call;
  const isDry = given.isSet('dry-run');
  const expected = given.wholeNumber('expected', 0, 1_000_000_000);
  const limitMs = waitLimitMs(given);
  const { json, view: preview } = isDry
    ? await operation.preview()
    : await readConfirmable(
        call,
        { nothing: operation.nothing, orElse: ', or --dry-run for a preview' },
        operation.preview,
      );
  // The preview must be seen even where the answer goes to a program.
  if (isDry && isJson) writeJson(call, json);
  else operation.draw(preview, isDry ? terminal.out : terminal.err);
  const [matched, words] = operation.matched?.(preview) ?? [];
  if (expected !== undefined && matched !== expected)
    throw new Failure(EXIT.failed, `${operation.nothing.slice(0, -1)}: ${words}, not ${count(expected)}.`);
  // A program is given the answer of what has begun, also of nothing.
  if (isDry || (!isJson && operation.isEmpty?.(preview))) return EXIT.ok;
  await operation.confirm(preview);
  const begun = await operation.begin(preview, false).catch((error: unknown) => {
    if (!(error instanceof Unavailable) || error.exitCode !== EXIT.unreachable) throw error;
    return operation.begin(preview, true);
  });
  if (!isJson) operation.tell?.(begun.view, preview);
  const followed = isFollowed ? operation.followed : undefined;
  const look = followed?.look(begun.view, preview);
  if (followed && look) return await followToItsEnd(call, followed, look, limitMs);
  if (isJson) writeJson(call, begun.json);
  return EXIT.ok;
}

/** @returns the exit code. */
export async function followToItsEnd<Progress>(
  call: Call,
  { isSettled, words, drawEnd, ends }: Followed<Progress>,
  look: () => Promise<Answered<Progress>>,
  limitMs: number,
): Promise<number> {
  const { out } = call.terminal;
  const last = await follow(call, limitMs, look, {
    isSettled: ({ view }) => isSettled(view),
    words: ({ view }) => words(view),
  });
  const { isGood, words: end, more = [], address } = ends(last.view);
  if (call.isJson) writeJson(call, last.json);
  else {
    drawEnd?.(last.view, out);
    writeOutcome(call, isGood, end);
    for (const line of more) out.write(wrapTo(out.columns, `  ${line}`));
    if (address !== undefined) out.write(out.paint('dim', `  ${address}`));
  }
  return isGood ? EXIT.ok : EXIT.failed;
}

/** Says what is about to be done, or asks. @param verb such as `replay`. */
export function titleOf(given: Given, verb: string, what: string): string {
  if (given.isSet('dry-run')) return `Would ${verb} ${what}.`;
  return given.isSet('yes') ? `About to ${verb} ${what}.` : `${capitalize(verb)} ${what}?`;
}

/** Says that more may have been done than was answered. */
export function lostWords(isLost: boolean): string {
  return isLost ? ' The answer to an earlier request was lost: what that did is not counted.' : '';
}

function warningText([fact, consequence]: Warning): string {
  return `${phraseOf(fact).text} ${phraseOf(consequence).text}`;
}

/** Writes what to consider, each warning once. */
export function writeWarnings(pane: Pane, warnings: Warnings): void {
  const texts = warnings.filter((one) => one !== false).map(warningText);
  for (const text of new Set(texts)) pane.write(hang(`${pane.paint('yellow', '!')} `, text, pane.columns));
}

/** Asks whether to do it, unless there is nothing to do. @param verb such as `Replay`. @throws Failure as `confirm` */
export async function confirmNumber(call: Call, verb: string, count: number, nothing: string): Promise<void> {
  const action = `${verb} ${count === 1 ? 'it' : 'them'}`;
  if (count > 0) await confirm(call, { action, count, nothing });
}
