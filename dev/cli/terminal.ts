import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';

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
    columns: stream.isTTY ? stream.columns : null,
  };
}

/** The terminal that this process was started on. */
export function ownTerminal(): Terminal {
  const { stdin, stdout, stderr, env } = process;
  for (const stream of [stdout, stderr]) {
    // Whoever reads has seen enough, as `head` has.
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  }
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
      stderr.write(`\r\u001B[K${line ?? ''}`);
    },
  };
}
