import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';
import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';

import type { Style } from '../lib/console/kit/document.ts';
import { visible } from '../lib/platform/visible.ts';
import { EXIT, Failure } from './arguments.ts';

/** Standard output or standard error. */
export interface Pane {
  /** Writes lines, and a line break after the last. */
  readonly write: (lines: string) => void;
  readonly paint: (style: Style, text: string) => string;
  /** The terminal’s width; null for a file or another program. */
  readonly columns: number | null;
}

/** The streams that a command writes to, and the person that it can ask. */
export interface Terminal {
  /** For results. */
  readonly out: Pane;
  /** For notes and errors. */
  readonly err: Pane;
  /** Someone can answer a question. */
  readonly isInteractive: boolean;
  readonly ask: (question: string) => Promise<string>;
  /** Shows progress in place of the last; null clears it. Does nothing without a terminal. */
  readonly progress: (line: string | null) => void;
}

/** A terminal has colours unless `NO_COLOR` is set; `FORCE_COLOR` overrides both, as in Node itself. */
export function paneOf(stream: NodeJS.WriteStream): Pane {
  return {
    write: (lines) => void stream.write(`${lines}\n`),
    paint: (style, text) => styleText(style, text, { stream }),
    columns: stream.isTTY ? columnsOf(stream) : null,
  };
}

/** A terminal in a container may report no width. */
const columnsOf = ({ columns }: NodeJS.WriteStream) => columns || 80;

/** The terminal of this process. */
export function ownTerminal(): Terminal {
  const { stdin, stdout, stderr } = process;
  stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // The reader has closed the pipe, as `head` does.
    if (code === 'EPIPE') process.exit();
    stderr.write(`Standard output can’t be written: ${message}.\n`);
    process.exit(EXIT.failed);
  });
  // stderr is closed; carry on.
  stderr.on('error', () => undefined);
  return {
    out: paneOf(stdout),
    err: paneOf(stderr),
    isInteractive: stdin.isTTY && stderr.isTTY,
    // On stderr, because stdout may go to a file.
    async ask(question) {
      const asking = createInterface({ input: stdin, output: stderr });
      try {
        return await new Promise<string>((resolve) => {
          // Ctrl-D is an empty answer.
          asking.once('close', () => resolve(''));
          void asking.question(question).then(resolve, () => resolve(''));
        });
      } finally {
        asking.close();
      }
    },
    progress(line) {
      if (!stderr.isTTY) return;
      // A second line would stay on the screen after the first is cleared.
      stderr.write(`\r\u001B[K${cutTo(columnsOf(stderr) - 1, line ?? '')}`);
    },
  };
}

/** Writes what went wrong and what to do. @returns the exit code. @throws any other error, as it is. */
export async function report(error: unknown, { err, progress }: Terminal): Promise<number> {
  progress(null);
  if (error instanceof Failure) {
    err.write(err.paint('red', wrapTo(err.columns, error.message)));
    if (error.advice !== null) err.write(wrapTo(err.columns, error.advice));
    return error.exitCode;
  }
  const { InvalidConfiguration } = await import('../lib/platform/environment.ts');
  if (!(error instanceof InvalidConfiguration)) throw error;
  err.write(err.paint('red', error.message));
  return EXIT.usage;
}

/** Cuts a text to a number of terminal cells, with `…` at the end. */
export function cutTo(width: number, text: string): string {
  if (stringWidth(text) <= width) return text;
  const [kept = ''] = wrapTo(width - 1, text, { hard: true, wordWrap: false }).split('\n');
  return `${kept.trimEnd()}…`;
}

/** Fills a text with spaces up to a number of terminal cells. */
export function padTo(width: number, text: string, align: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return align === 'left' ? text + space : space + text;
}

/** Breaks a text into lines. @param width in cells; null leaves the text in one line. @param options of `wrap-ansi`. */
export function wrapTo(width: number | null, text: string, options: Parameters<typeof wrapAnsi>[2] = {}) {
  return width === null ? text : wrapAnsi(text, Math.max(1, width), options);
}

/** Writes a text behind another, and its further lines below its beginning. @param width of all, as `wrapTo` takes it. */
export function hang(before: string, text: string, width: number | null): string {
  const indent = stringWidth(before);
  const lines = wrapTo(width === null ? null : width - indent, text);
  return before + lines.replaceAll('\n', `\n${' '.repeat(indent)}`);
}

/**
 * Makes text from elsewhere safe to show. Payloads and errors can hold characters that move the cursor, ring the bell,
 * reverse the text or hide in it: each is shown as U+FFFD. Line breaks and tabs become spaces.
 *
 * Libraries remove escape sequences (`strip-ansi`, `stripVTControlCharacters`) but let lone controls, bidirectional
 * overrides and invisible characters pass; an operator must see that something was there.
 */
export function printable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/\s+/gu, ' ').replaceAll(UNPRINTABLE, '\u{FFFD}');
  if (Array.isArray(value)) return value.map(printable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, (KEPT[name] ?? printable)(item)]),
  );
}

/** A payload is drawn as JSON, which escapes it; what a component answered keeps its line breaks. */
const KEPT: Readonly<Record<string, (item: unknown) => unknown>> = {
  payload: (item) => item,
  answer: (item) => (typeof item === 'string' ? visible(item) : printable(item)),
};

/** Controls, and characters that change how others are shown, but for the joiner of emoji. */
const UNPRINTABLE = /\p{Cc}|(?!\u200D)\p{Cf}|[\p{Cs}\u2028\u2029]/gu;
