import { NO_NAMES } from '../lib/console/kit/operator-names.ts';
import type { View } from '../lib/console/kit/view.ts';
import type { Options } from './arguments.ts';
import type { Answered } from './bus.ts';
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
  const parameter = argument ?? one?.command?.argument;
  const isOfOne = argument !== undefined;
  const isOptional = Object.keys(options).length > 0;
  const usage = [
    ...(isOfOne ? [] : [`${name}${isOptional ? ' [options]' : ''}`]),
    ...(parameter === undefined
      ? []
      : [`${name} <${parameter}>${isOfOne && isOptional ? ' [options]' : ''}`]),
  ];
  return { name, summary, usage, notes, options, examples, run };

  async function run(call: Call): Promise<number> {
    const { given } = call;
    atMost(parameter === undefined ? 0 : 1, given);
    const [id] = given.positionals;
    if (id === undefined && isOfOne) {
      const [message, advice] = command!.missing ?? [
        `The ${parameter} is missing.`,
        `For example: npx postbud ${examples[0]![0]}`,
      ];
      throw misused(message, advice);
    }
    const set = Object.keys(options).find((option) => given.isSet(option));
    if (id !== undefined && one && set !== undefined)
      throw misused(`--${set} filters the list; it can’t be used with an id.`);
    const view = id !== undefined && one ? one : shown;
    const answered = id !== undefined && one ? await ask(call, one, id) : await askShown(call, id);
    if (call.isJson) writeJson(call, answered.json);
    else drawDoc(call.terminal.out, view.says(answered.view, NO_NAMES), moreOf(answered.view));
    return EXIT.ok;
  }

  async function ask({ bus }: Call, { route }: View, id: string): Promise<Answered<unknown>> {
    return await bus.ask(route, { parameters: { [parameter!]: id } });
  }

  async function askShown({ given, bus }: Call, id: string | undefined): Promise<Answered<unknown>> {
    const asked = {
      query: Object.fromEntries(named.map(([field, option]) => [field, given.text(option)])),
      named: Object.fromEntries(named.map(([field, option]) => [field, `--${option}`])),
      ...(id !== undefined && { parameters: { [parameter!]: id } }),
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
