import { html } from '../../platform/markup.ts';
import { say, when } from './document.ts';
import type { Phrase } from './document.ts';
import { replayedPath, replaysPath } from './links.ts';
import { namedOperator } from './operator-names.ts';
import { quantity } from './words.ts';

/** What an operator did first with deliveries that another one asks for. */
export interface Earlier {
  readonly by: string;
  readonly byName: string | null;
  readonly at: string;
  readonly action: string;
  readonly count: number;
  /** The page that shows it. */
  readonly path: string;
}

/** Says who was first, in one sentence. */
export function earlierPhrase({ by, byName, at, action, count, path }: Earlier, now: string): Phrase {
  const what = `${quantity(count, 'delivery')} ${action}`;
  const page = path.startsWith(replayedPath(''))
    ? 'replay'
    : path === replaysPath()
      ? 'operator log'
      : 'delivery';
  const where = { html: html`<a href="${path}">see the ${page}</a>`, text: `see ${path}` };
  return say`${namedOperator(by, byName)} was first: ${what} at ${when(at, now)}, ${where}.`;
}
