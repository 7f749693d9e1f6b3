import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';

import { EXIT } from './failure.ts';
import { cutTo } from './text.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
export type Paint = (style: Style, text: string) => string;

/** One of the two streams that are written to. */
export interface Pane {
  /** Writes lines; the last one needs no end. */
  readonly write: (lines: string) => void;
  readonly paint: Paint;
  /** How wide a line may be; null where it goes to a file or another program. */
  readonly columns: number | null;
}

/** Where a command stands: what it is given to write on, and whom it may ask. */
export interface Terminal {
  /** What was asked for. */
  readonly out: Pane;
  /** All that is said besides. */
  readonly err: Pane;
  /** Whether there is somebody to answer a question. */
  readonly isInteractive: boolean;
  readonly ask: (question: string) => Promise<string>;
  /** Shows how far something has come, in place of what it showed before; null takes that away. Nowhere but on a terminal. */
  readonly progress: (line: string | null) => void;
}

type Stream = Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>;
type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Whether a stream takes colours: a terminal does, unless `NO_COLOR` is set; `FORCE_COLOR` has the last word, as in
 * Node itself.
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
    columns: stream.isTTY ? widthOf(stream) : null,
  };
}

/** A terminal that does not say how wide it is, as in a container, has a width all the same. */
const widthOf = ({ columns }: Pick<Stream, 'columns'>) => columns || 80;

/** The terminal that this process was started on. */
export function ownTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process;
  stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // Whoever reads has seen enough, as `head` has.
    if (code === 'EPIPE') process.exit();
    stderr.write(`What was asked for can’t be written: ${message}.\n`);
    process.exit(EXIT.failed);
  });
  // Nobody hears what is said besides: what was asked for is done all the same.
  stderr.on('error', () => undefined);
  return {
    out: paneOf(stdout, env),
    err: paneOf(stderr, env),
    isInteractive: stdin.isTTY && stderr.isTTY,
    // Asked on stderr, so that stdout may go into a file meanwhile.
    async ask(question) {
      const asking = createInterface({ input: stdin, output: stderr });
      try {
        return await new Promise<string>((resolve) => {
          // Ctrl-D is no answer.
          asking.once('close', () => resolve(''));
          void asking.question(question).then(resolve, () => resolve(''));
        });
      } finally {
        asking.close();
      }
    },
    progress(line) {
      if (!stderr.isTTY) return;
      // A second line would stay when the first is taken away.
      stderr.write(`\r\u001B[K${cutTo(widthOf(stderr) - 1, line ?? '')}`);
    },
  };
}
