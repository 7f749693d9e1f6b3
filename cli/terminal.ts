import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';

import { EXIT } from './failure.ts';
import { cutTo } from './text.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Paint = (style: Style, text: string) => string;

/** Standard output or standard error. */
export interface Pane {
  /** Writes lines, and a line break after the last. */
  readonly write: (lines: string) => void;
  readonly paint: Paint;
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

type Stream = Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>;
type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Tells whether to write colours: to a terminal, unless `NO_COLOR` is set. `FORCE_COLOR` overrides both, as in Node
 * itself.
 *
 * @see https://no-color.org
 */
export function takesColours({ isTTY }: Pick<Stream, 'isTTY'>, env: Environment): boolean {
  const { FORCE_COLOR: forced, NO_COLOR: none, TERM: term } = env;
  if (forced !== undefined) return forced !== '0' && forced !== 'false';
  return isTTY && !none && term !== 'dumb';
}

export function paneOf(stream: Stream, env: Environment): Pane {
  const isColoured = takesColours(stream, env);
  return {
    write: (lines) => void stream.write(`${lines}\n`),
    paint: (style, text) => (isColoured ? styleText(style, text, { validateStream: false }) : text),
    columns: stream.isTTY ? columnsOf(stream) : null,
  };
}

/** A terminal in a container may report no width. */
const columnsOf = ({ columns }: Pick<Stream, 'columns'>) => columns || 80;

/** The terminal of this process. */
export function ownTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process;
  stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // The reader has closed the pipe, as `head` does.
    if (code === 'EPIPE') process.exit();
    stderr.write(`Standard output can’t be written: ${message}.\n`);
    process.exit(EXIT.failed);
  });
  // stderr is closed; carry on.
  stderr.on('error', () => undefined);
  return {
    out: paneOf(stdout, env),
    err: paneOf(stderr, env),
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
