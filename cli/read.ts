import { NO_NAMES } from '../lib/console/kit/operator-names.ts';
import type { View } from '../lib/console/kit/view.ts';
import type { Options } from './arguments.ts';
import type { Answered } from './bus.ts';
import { subjectOf } from './action.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, OnlineCommand } from './command.ts';
import { drawDoc } from './draw-doc.ts';
import { EXIT, misused } from './failure.ts';
import { gather, moreWords, MOST, PAGE } from './gather.ts';

/** A screenful. */
const LISTED = 20;

type Paged = Readonly<Record<string, unknown>> & { readonly nextCursor: string | null };

/** Makes the command that shows a view: a list with its filters, one thing by its id, or both. */
export function viewCommand({ command, ...shown }: View): OnlineCommand {
  const { name, summary, notes = [], examples, filters = {}, list, one, argument } = command!;
  const { listed = list === undefined ? null : LISTED } = command!;
  const named = Object.entries(filters).map(([field, { option }]) => [field, option.name ?? field] as const);
  const options: Options = {
    ...Object.fromEntries(
      Object.entries(filters).map(([field, { option }]) => {
        const { name: own = field, ...written } = option;
        return [own, written];
      }),
    ),
    ...(listed !== null && { limit: { value: '<number>', help: `how many to list (default: ${listed})` } }),
  };
  // Of a list and of one in it, or of one thing alone.
  const isOfOne = argument !== undefined && one === undefined;
  const subject = argument === undefined ? null : subjectOf(argument, examples.at(-1)![0], command!.missing);
  const isOptional = Object.keys(options).length > 0;
  const usage = [
    ...(isOfOne ? [] : [`${name}${isOptional ? ' [options]' : ''}`]),
    ...(argument === undefined ? [] : [`${name} <${argument}>${isOfOne && isOptional ? ' [options]' : ''}`]),
  ];
  return { name, summary, usage, notes, options, examples, run };

  async function run(call: Call): Promise<number> {
    const { given } = call;
    atMost(argument === undefined ? 0 : 1, given);
    const [id] = given.positionals;
    if (id === undefined && subject && isOfOne) throw misused(...subject.missing);
    if (id !== undefined) subject?.check?.(id);
    const set = Object.keys(options).find((option) => given.isSet(option));
    if (id !== undefined && one && set !== undefined)
      throw misused(`--${set} filters the list; it can’t be used with an id.`);
    const ofOne =
      id !== undefined && one ? await call.bus.ask(one.route, { parameters: { [argument!]: id } }) : null;
    const { json, view } = ofOne ?? (await askShown(call, id));
    if (call.isJson) writeJson(call, json);
    else if (ofOne) drawDoc(call.terminal.out, one!.says(view, NO_NAMES));
    else drawDoc(call.terminal.out, shown.says(view, NO_NAMES), moreOf(view));
    return EXIT.ok;
  }

  async function askShown({ given, bus }: Call, id: string | undefined): Promise<Answered<unknown>> {
    const asked = {
      query: Object.fromEntries(named.map(([field, option]) => [field, given.text(option)])),
      named: Object.fromEntries(named.map(([field, option]) => [field, `--${option}`])),
      ...(id !== undefined && { parameters: { [argument!]: id } }),
    };
    if (listed === null) return await bus.ask(shown.route, asked);
    const limit = given.wholeNumber('limit', 1, list === undefined ? PAGE : MOST) ?? listed;
    if (list === undefined) return await bus.ask(shown.route, { ...asked, query: { ...asked.query, limit } });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a list that is read page by page has a cursor
    return await gather(bus, shown.route as unknown as View<Paged>['route'], {
      ...asked,
      limit,
      lists: [list],
    });
  }

  function moreOf(view: unknown): string {
    if (list === undefined) return '';
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as above
    const { nextCursor, [list]: rows } = view as Paged;
    return nextCursor === null ? '' : moreWords('There are more', (rows as readonly unknown[]).length);
  }
}
