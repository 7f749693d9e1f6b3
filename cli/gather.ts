import type { Answered, Asked, Bus, Route } from './bus.ts';

/** The most that one page of an endpoint holds. */
export const PAGE = 100;

/** The most that `--limit` takes. */
export const MOST = 10_000;

/** Says how to see more than so many entries, where `--limit` allows it. @param fact that there are more. */
export function moreWords(fact: string, shown: number): string {
  return shown < MOST ? `${fact}: add --limit ${Math.min(shown * 5, MOST)}. ` : `${fact}. `;
}

/** Fields that say how far a list reaches: of several pages, those of the last. */
const REACH: ReadonlySet<string> = new Set(['nextCursor', 'lookedBackTo']);

interface Page {
  readonly nextCursor: string | null;
}

interface Wanted<List> extends Pick<Asked, 'query' | 'named'> {
  /** How many entries. */
  readonly limit: number;
  /** The fields that hold entries. */
  readonly lists: readonly List[];
}

/**
 * Asks for a list page by page, until there are as many entries as wanted or no more.
 *
 * @returns all pages as one: the first, with the entries of all of them.
 */
export async function gather<View extends Page, List extends keyof View>(
  bus: Bus,
  route: Route<View>,
  { limit, lists, query, named }: Wanted<List>,
): Promise<Answered<View>> {
  const ask = async (wanted: number, cursor?: string) =>
    await bus.ask(route, {
      query: { ...query, limit: Math.min(wanted, PAGE), cursor },
      ...(named && { named }),
    });
  const pages = [await ask(limit)];
  for (let missing = limit; ;) {
    const { view } = pages.at(-1)!;
    for (const list of lists) missing -= (view[list] as readonly unknown[]).length;
    if (missing <= 0 || view.nextCursor === null) break;
    pages.push(await ask(missing, view.nextCursor));
  }
  return {
    json: together(
      pages.map(({ json }) => json as View),
      lists,
    ),
    view: together(
      pages.map(({ view }) => view),
      lists,
    ),
  };
}

function together<View extends object>(pages: readonly View[], lists: readonly (keyof View)[]): View {
  const last = Object.entries(pages.at(-1)!).filter(([name]) => REACH.has(name));
  const joined = lists.map((list) => [list, pages.flatMap((page) => page[list] as readonly unknown[])]);
  return { ...pages[0]!, ...Object.fromEntries([...last, ...joined]) };
}
