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
  const all = Object.entries(filters);
  const [search, searched] = all.find(([, { option }]) => option.isArgument) ?? [];
  const named = all
    .filter(([field]) => field !== search)
    .map(([field, { option }]) => [field, option.name ?? field, option] as const);
  const reveal = one?.reveal;
  const options: Options = {
    ...Object.fromEntries(named.map(([, own, { value, help }]) => [own, { value, help }])),
    ...(listed !== null && { limit: { value: '<number>', help: `how many to list (default: ${listed})` } }),
  };
  const { value: placeholder = '' } = searched?.option ?? {};
  const parameter = argument ?? one?.argument;
  const ofOne = reveal ? ' [--reveal <reason>]' : '';
  const isOfOne = argument !== undefined;
  const isOptional = Object.keys(options).length > 0;
  const usage = [
    ...(isOfOne ? [] : [`${name}${search ? ` [${placeholder}]` : ''}${isOptional ? ' [options]' : ''}`]),
    ...(parameter === undefined
      ? []
      : [`${name} <${parameter}>${isOfOne && isOptional ? ' [options]' : ofOne}`]),
  ];
  return {
    name,
    summary,
    usage,
    notes,
    examples,
    run,
    options: {
      ...options,
      ...(reveal && {
        reveal: {
          value: '<reason>',
          help: 'show the personal data of one; needs the scope event-bus:reveal, and is logged with your name and reason',
        },
      }),
    },
  };

  async function run(call: Call): Promise<number> {
    const { given } = call;
    atMost(parameter === undefined && search === undefined ? 0 : 1, given);
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
    const called = parameter?.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
    if (id !== undefined && one && !one.shape.safeParse(id).success)
      throw misused(
        `'${id}' is not ${/^[aeiou]/.test(called ?? '') ? 'an' : 'a'} ${called}.`,
        `npx postbud ${name} lists them.`,
      );
    if (id === undefined && given.isSet('reveal'))
      throw misused(
        `--reveal needs a ${called}.`,
        `For example: npx postbud ${name} <${parameter}> --reveal "a support case"`,
      );
    const isOne = id !== undefined && one !== undefined;
    const { says } = isOne ? one.view : shown;
    const answered = isOne ? await ask(call, one.view, id) : await askShown(call, id);
    if (call.isJson) writeJson(call, answered.json);
    else drawDoc(call.terminal.out, says(answered.view, NO_NAMES), isOne ? '' : moreOf(answered.view));
    if (given.isSet('reveal')) call.terminal.err.write('The operator log has recorded your name and reason.');
    return EXIT.ok;
  }

  async function ask({ given, bus }: Call, { route }: View, id: string): Promise<Answered<unknown>> {
    const parameters = { [parameter!]: id };
    const reason = given.text('reveal');
    if (reason === undefined || !reveal) return await bus.ask(route, { parameters });
    return await bus.ask(reveal, { parameters, body: { reason }, named: { reason: '--reveal' } });
  }

  async function askShown({ given, bus }: Call, id: string | undefined): Promise<Answered<unknown>> {
    const asked = {
      query: {
        ...Object.fromEntries(named.map(([field, option]) => [field, given.text(option)])),
        ...(search !== undefined && { [search]: id }),
      },
      named: {
        ...Object.fromEntries(named.map(([field, option]) => [field, `--${option}`])),
        ...(search !== undefined && { [search]: `the ${placeholder.replaceAll(/[<>]/g, '')}` }),
      },
      ...(id !== undefined && parameter !== undefined && { parameters: { [parameter]: id } }),
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
