import type { Call } from './command.ts';
import { wrapTo } from './text.ts';

/** Says how an action ended, with a mark that needs no colour. */
export function writeOutcome({ terminal: { out } }: Call, isGood: boolean, words: string): void {
  const mark = isGood ? out.paint('green', '✓') : out.paint('red', '✗');
  out.write(wrapTo(out.columns, `${mark} ${words}`));
}
