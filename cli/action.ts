import * as z from 'zod';

import type { Action } from '../lib/console/kit/action.ts';
import { atMost, confirm, requireSomebody, writeJson, YES } from './command.ts';
import type { Call, Described, Command } from './command.ts';
import { writeOutcome } from './draw.ts';
import { EXIT, fieldsIn, missing, optionsOf, parametersIn, REASON, requireReason } from './arguments.ts';
import type { Fields } from './arguments.ts';
import { followToItsEnd, WAIT, waitLimitMs } from './follow.ts';
import { kindOf } from './kinds.ts';
import { wrapTo } from './terminal.ts';

const NOTE = { note: { value: '<text>', help: 'what others should know' } } as const;

/** The words of a command that has several actions. */
export type Words = Omit<Described, 'options'>;

/**
 * Makes the command of an action: check what is written, ask where it is to be confirmed, do it, say what was done, and wait
 * for what comes of it. All follows from the declaration.
 *
 * @param also fields that are no options.
 */
export function actionCommand<View>(action: Action<View>, described?: Words, also: Fields = {}): Command {
  const { route, asks, command, isAwaited } = action;
  const { name = action.name, summary, notes, examples } = described ?? command!;
  const parameters = parametersIn(route.path);
  const kind = kindOf(parameters[0]);
  const fields = command?.options ?? {};
  const { body: { schema } = {} } = route;
  const takesReason = schema instanceof z.ZodObject && 'reason' in schema.shape;
  const { field = 'reason' } = asks ?? {};
  const { confirms, nothing = 'Nothing was done.' } = command ?? {};

  async function run(call: Call): Promise<number> {
    const { given, bus } = call;
    atMost(parameters.length, given);
    const limitMs = waitLimitMs(given);
    const written = parameters.map((parameter, place) => {
      const word = given.positionals[place];
      if (word === undefined) throw missing(parameter, examples);
      return [parameter, word] as const;
    });
    const of = Object.fromEntries(written);
    const line = [name, ...Object.values(of), `--${field} "${asks?.example}"`].join(' ');
    const reason = asks ? requireReason(given, line, field) : given.text('reason')?.trim();
    const body = { ...also, ...fieldsIn(given, fields), [field]: reason };
    const look = async () => await bus.ask(await kind!.look(), { parameters: of });
    const question = given.isSet('yes') ? undefined : confirms?.({ ...of, ...body });
    if (question) {
      // So an unknown name is said before the question.
      await look();
      const [narrower] = Object.entries(optionsOf(fields));
      const orElse = narrower ? `, or --${narrower[0]} ${narrower[1].value ?? ''}` : '';
      requireSomebody(call, { nothing, orElse });
      await confirm(call, { action: question, count: 1, nothing });
    }
    const before = given.isSet('wait') ? (await look()).view : null;
    const { json, view } = await bus.ask(route, { parameters: of, body, named: { note: '--note' } });
    const done = action.done(view, of);
    const { isGood = true, words, next = '' } = typeof done === 'string' ? { words: done } : done;
    if (!call.isJson) {
      const { out } = call.terminal;
      writeOutcome(call, isGood, words);
      if (next !== '') out.write(out.paint('dim', wrapTo(out.columns, next)));
    }
    if (before !== null && isGood)
      return await followToItsEnd(call, limitMs, look, (now) => kind!.far(now, before));
    if (call.isJson) writeJson(call, json);
    return isGood ? EXIT.ok : EXIT.failed;
  }

  const words = [...parameters.map((one) => `<${one}>`), ...(asks ? [`--${field} <text>`] : [])];
  return {
    name,
    summary,
    usage: described?.usage ?? [[name, ...words, '[options]'].join(' ')],
    notes,
    examples,
    options: {
      ...optionsOf(fields),
      ...(field === 'note' ? NOTE : takesReason && REASON),
      ...(confirms && YES),
      ...(isAwaited && WAIT),
    },
    run,
  };
}

/**
 * Makes the command whose word tells which of several actions is done.
 *
 * @param find the action, what it is done to, and fields that are no options.
 */
export function commandOfWord(
  described: Words,
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever answers
  usual: Action<any>,
  find: (word: string, call: Call) => Promise<readonly [action: Action<any>, on: string, also?: Fields]>, // oxlint-disable-line typescript/no-explicit-any -- as above
): Command {
  return {
    ...actionCommand(usual, described),
    async run(call) {
      const [word, ...others] = call.given.positionals;
      if (word === undefined) throw missing(/<(.*?)>/.exec(described.usage[0]!)![1]!, described.examples);
      const [action, on, also] = await find(word, call);
      const given = { ...call.given, positionals: [on, ...others] };
      return await actionCommand(action, described, also).run({ ...call, given });
    },
  };
}
