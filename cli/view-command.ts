import { NO_NAMES } from '../lib/console/kit/document.ts';
import type { View } from '../lib/console/kit/view.ts';
import type { Options } from './arguments.ts';
import type { Answered } from './bus.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, Command } from './command.ts';
import { drawDoc } from './draw.ts';
import { EXIT, fieldsIn, missing, misused, namesOf, optionsOf, wordsFor } from './arguments.ts';

/** A screenful. */
const LISTED = 20;
/** The most that an endpoint lists at once. */
const MOST = 1000;

/** Makes the command that shows a view: a list with its filters, one thing by its id, or both. */
export function viewCommand({ command, ...shown }: View): Command {
  const { name, summary, notes = [], examples, filters = {}, list, one, argument, isBad } = command!;
  const { listed = list === undefined ? null : LISTED } = command!;
  const all = Object.entries(filters).map(([field, { option }]) => [field, option] as const);
  const [search, searched] = all.find(([, { isArgument }]) => isArgument) ?? [];
  const fields = Object.fromEntries(all.filter(([field]) => field !== search));
  const placeholder = searched?.value ?? '';
  const named = { ...namesOf(fields), ...(search && { [search]: `the ${placeholder.slice(1, -1)}` }) };
  const ofList: Options = {
    ...optionsOf(fields),
    ...(listed !== null && { limit: { value: '<number>', help: `how many to list (default: ${listed})` } }),
  };
  const parameter = argument ?? one?.argument ?? '';
  const hasOptions = Object.keys(ofList).length > 0 ? ' [options]' : '';
  const usage = [
    `${name}${argument ? ` <${argument}>` : search ? ` [${placeholder}]` : ''}${hasOptions}`,
    ...(one ? [`${name} <${parameter}>`] : []),
  ];
  return {
    name,
    summary,
    usage,
    notes,
    examples,
    options: ofList,
    async run(call) {
      const { given, isJson, terminal } = call;
      atMost(parameter || search ? 1 : 0, given);
      const [id] = given.positionals;
      if (id === undefined && argument) throw missing(argument, examples);
      const isOne = id !== undefined && one !== undefined;
      if (isOne) requireFit(id, call);
      const { says } = isOne ? one.view : shown;
      const { json, view } = isOne
        ? await call.bus.ask(one.view.route, { parameters: { [parameter]: id } })
        : await askList(call, id);
      if (isJson) writeJson(call, json);
      else drawDoc(terminal.out, says(view, NO_NAMES), isOne ? '' : moreOf(view));
      return isBad?.(view) ? EXIT.failed : EXIT.ok;
    },
  };

  /** @throws Failure for what is no id, and for an option of the list. */
  function requireFit(id: string, { given }: Call): void {
    const set = Object.keys(ofList).find((option) => given.isSet(option));
    if (set !== undefined) throw misused(`--${set} filters the list; it can’t be used with an id.`);
    const called = wordsFor(parameter);
    if (!one!.shape.safeParse(id).success)
      throw misused(
        `'${id}' is not ${/^[aeiou]/.test(called) ? 'an' : 'a'} ${called}.`,
        `npx postbud ${name} lists them.`,
      );
  }

  async function askList({ given, bus }: Call, word: string | undefined): Promise<Answered<unknown>> {
    const query = { ...fieldsIn(given, fields), ...(search && { [search]: word }) };
    const asked = { query, named, ...(argument && { parameters: { [argument]: word! } }) };
    if (listed === null) return await bus.ask(shown.route, asked);
    const limit = given.wholeNumber('limit', 1, MOST) ?? listed;
    return await bus.ask(shown.route, { ...asked, query: { ...query, limit } });
  }

  /** Says how to see more of a list, where `--limit` allows it. */
  function moreOf(view: unknown): string {
    if (list === undefined) return '';
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a list that is read page by page has a cursor
    const { nextCursor, [list]: rows } = view as Readonly<Record<string, unknown>>;
    if (nextCursor === null) return '';
    const { length } = rows as readonly unknown[];
    return `There are more${length < MOST ? `: add --limit ${Math.min(length * 5, MOST)}` : ''}. `;
  }
}
