import { phraseOf } from '../lib/console/kit/document.ts';
import type { HowFar, Operation, Told } from '../lib/console/kit/operation.ts';
import type { Plan } from '../lib/console/kit/plan.ts';
import type { Warnings } from '../lib/console/kit/operation-pages.ts';
import { capitalize, count } from '../lib/console/kit/words.ts';
import type { Options } from './arguments.ts';
import type { Answered } from './bus.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, OnlineCommand } from './command.ts';
import { askTyped, confirm, readConfirmable, YES } from './confirm.ts';
import { drawFacts, drawList } from './draw.ts';
import { EXIT, Failure, misused } from './failure.ts';
import { follow, WAIT, waitLimitMs } from './follow.ts';
import { writeOutcome } from './outcome.ts';
import { REASON, requireReason } from './reason.ts';
import { Unavailable } from './refusals.ts';
import { inSteps } from './steps.ts';
import type { Pane } from './terminal.ts';
import { hang, wrapTo } from './text.ts';
import { times } from './times.ts';

/** The fields of a request, and the parameters of its path. */
export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Makes the command that previews an operation, asks, begins it, and follows it to its end or stops it. */
export function operationCommand<Preview, Done, Progress>(
  operation: Operation<Preview, Done, Progress>,
  /** Reads or checks the request in a way of its own. @throws Failure */
  refine: (fields: Fields, call: Call) => Promise<Fields> | Fields = (fields) => fields,
): OnlineCommand {
  const { verb, show, begin, says, command, followed } = operation;
  const { takes = [], options, needs = {}, nothing, example, isReasonNeeded } = command;
  const nameOf = (field: string) => options[field]?.name ?? field;
  const named = {
    ...Object.fromEntries(Object.keys(options).map((field) => [field, `--${nameOf(field)}`])),
    expectedCount: '--expected',
  };
  const stop = followed?.stop;
  const ownOptions: Options = Object.fromEntries(
    Object.entries(options).map(([field, { value, isList, help }]) => [
      nameOf(field),
      { help, ...(value !== undefined && { value }), ...(isList && { isList }) },
    ]),
  );

  async function run(call: Call): Promise<number> {
    const { given } = call;
    if (given.isSet('stop')) return await stopOne(call);
    atMost(takes.length, given);
    const isDry = given.isSet('dry-run');
    const fields = await refine(fieldsOf(call), call);
    const reason = isReasonNeeded && !isDry ? requireReason(given, example) : given.text('reason');
    const [parameters, sent] = partsOf(fields);
    const expected = given.wholeNumber('expected', 0, 1_000_000_000);
    const limitMs = waitLimitMs(given);
    const orElse = ', or --dry-run for a preview';
    const { json, view } = isDry
      ? await preview()
      : await readConfirmable(call, { nothing, orElse }, preview);
    const plan = says(view);
    // The plan must be seen even where the answer goes to a program.
    if (isDry && call.isJson) writeJson(call, json);
    else drawPlan(isDry ? call.terminal.out : call.terminal.err, plan, titleOf(call, plan));
    if (expected !== undefined && plan.matched !== expected)
      throw new Failure(
        EXIT.failed,
        `${nothing.slice(0, -1)}: ${command.counted!(plan.matched)}, not ${count(expected)}.`,
      );
    // A program is given the answer of what has begun, also of nothing.
    if (isDry || (!call.isJson && plan.nothing && !plan.nothing.isBegun)) return EXIT.ok;
    if (!plan.nothing) await askFor(call, plan);
    let isLost = false;
    const {
      json: answer,
      view: done,
      sum,
    } = await inSteps(call, ask, command.step as never).catch((error: unknown) => {
      if (!(error instanceof Unavailable) || error.exitCode !== EXIT.unreachable) throw error;
      isLost = true;
      return inSteps(call, ask, command.step as never);
    });
    const isNone = plan.nothing && !isLost;
    const id = followed?.idOf(done as Done) ?? null;
    if (!call.isJson && !isNone) {
      const told = command.done?.(done as Done, plan, sum) ?? null;
      tell(call, told, isLost);
      if (id !== null && told) tellWhere(call, id, told.isUnderWay);
    }
    if (id !== null && (followed!.isAwaited || given.isSet('wait')))
      return await followOne(call, id, limitMs);
    if (call.isJson) writeJson(call, answer);
    return EXIT.ok;

    function preview(): Promise<Answered<Preview>> {
      if (show) return call.bus.ask(show, { parameters, query: sent, named });
      const body = { ...sent, dryRun: true, ...(isReasonNeeded && { reason: 'a preview' }) };
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a dry run is answered with a preview
      return call.bus.ask(begin, { parameters, body, named }) as Promise<Answered<Preview>>;
    }

    /** @param before what an earlier request has left. */
    async function ask(before: number | null) {
      const { expectedCount, ...request } = plan.request;
      // What was done meanwhile changes the number; an id begins the same thing once.
      const isFirst = (before === null && !isLost) || hasId(plan);
      const body = { ...sent, ...request, ...(isFirst && { expectedCount }), reason };
      return await call.bus.ask(begin, { parameters, body, named });
    }
  }

  /** @throws Failure for a field that is missing. */
  function fieldsOf({ given }: Call): Fields {
    const written = takes.map(([field, missing], place) => {
      const value = given.positionals[place];
      if (value === undefined && missing !== null)
        throw misused(missing, `For example: npx postbud ${example}`);
      return [field, value] as const;
    });
    for (const [field, missing] of Object.entries(needs))
      if (!given.isSet(nameOf(field))) throw misused(missing, `For example: npx postbud ${example}`);
    const chosen = Object.entries(options).map(([field, { value, isList, range }]) => {
      const name = nameOf(field);
      if (value === undefined) return [field, given.isSet(name) || undefined] as const;
      if (range) return [field, given.wholeNumber(name, ...range)] as const;
      return [field, isList ? given.texts(name).join(',') || undefined : given.text(name)] as const;
    });
    return Object.fromEntries([...written, ...chosen]);
  }

  /** Tells the parameters of the path from the other fields. */
  function partsOf(fields: Fields): readonly [parameters: Readonly<Record<string, string>>, others: Fields] {
    const inPath = [...begin.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
    return [
      Object.fromEntries(inPath.map((name) => [name, String(fields[name])])),
      Object.fromEntries(Object.entries(fields).filter(([name]) => !inPath.includes(name))),
    ];
  }

  function titleOf({ given }: Call, { what }: Plan): string {
    if (given.isSet('dry-run')) return `Would ${verb} ${what}.`;
    return given.isSet('yes') ? `About to ${verb} ${what}.` : `${capitalize(verb)} ${what}?`;
  }

  async function askFor(call: Call, { typed, button, matched }: Plan): Promise<void> {
    if (call.given.isSet('yes')) return;
    if (typed !== undefined)
      return await askTyped(call.terminal, { text: typed, to: `${verb} permanently`, nothing });
    const action = button ?? `${capitalize(verb)} ${matched === 1 ? 'it' : 'them'}`;
    await confirm(call, { action, count: matched, nothing });
  }

  async function stopOne(call: Call): Promise<number> {
    const { given, bus, isJson } = call;
    const { says: saysOf } = followed!;
    const id = given.text('stop')!;
    const others = [...Object.keys(ownOptions), 'expected', 'dry-run', 'wait'];
    const other = others.find((name) => given.isSet(name));
    if (other !== undefined || given.positionals.length > 0)
      throw misused(
        `--stop names the ${verb} alone: leave out ${other ? `--${other}` : `the ${takes[0]![0]}`}.`,
      );
    if (!UUID.test(id))
      throw misused(
        `--stop: '${id}' is not a ${verb} id.`,
        'Copy it from npx postbud log, for example 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21.',
      );
    const reason = requireReason(given, `${verb} --stop ${id} --reason "${stop!.example}"`);
    const parameters = { [`${verb}Id`]: id };
    const before = saysOf((await bus.ask(followed!.route, { parameters })).view);
    const { json, view } = await bus.ask(stop!.route, { parameters, body: { reason } });
    if (isJson) writeJson(call, json);
    else {
      const words = `${before.isUnderWay ? '' : 'It had ended already. '}${wordsOf(saysOf(view))}`;
      writeOutcome(call, true, words);
      writeZone(call.terminal.out, words);
    }
    return EXIT.ok;
  }

  async function followOne(call: Call, id: string, limitMs: number): Promise<number> {
    const { route, says: saysOf } = followed!;
    const parameter = /\{(\w+)\}/.exec(route.path)![1]!;
    const look = async () => await call.bus.ask(route, { parameters: { [parameter]: id } });
    const last = await follow(call, limitMs, look, {
      isSettled: ({ view }) => saysOf(view).isOver,
      words: ({ view }) => wordsOf(saysOf(view)),
    });
    const far = saysOf(last.view);
    const isGood = far.isOver && far.isGood;
    if (call.isJson) writeJson(call, last.json);
    else {
      const { out } = call.terminal;
      writeOutcome(call, isGood, `${wordsOf(far)}${far.isOver ? '' : ' The time is up.'}`);
      for (const line of far.more ?? []) out.write(wrapTo(out.columns, `  ${line}`));
      if (!command.done) tellWhere(call, id);
      writeZone(out, wordsOf(far));
    }
    return isGood ? EXIT.ok : EXIT.failed;
  }

  function tellWhere({ terminal: { out }, bus }: Call, id: string, isUnderWay = false): void {
    out.write(out.paint('dim', `  Progress: ${new URL(followed!.pathOf(id), bus.url).href}`));
    if (stop && isUnderWay)
      out.write(out.paint('dim', `  To stop it: npx postbud ${verb} --stop ${id} --reason …`));
  }

  return {
    name: verb,
    summary: command.summary,
    usage: command.usage,
    notes: command.notes,
    examples: command.examples,
    options: {
      ...ownOptions,
      ...REASON,
      ...(command.counted && {
        expected: { value: '<number>', help: `${verb} only if exactly this many match` },
      }),
      'dry-run': { help: 'show the preview and stop' },
      ...(stop && { stop: { value: `<${verb}Id>`, help: stop.help } }),
      ...YES,
      ...(followed && (followed.isAwaited ? { timeout: WAIT.timeout } : WAIT)),
    },
    run,
  };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether what begins has an id, under which it begins once. */
const hasId = ({ request }: Plan) => Object.keys(request).some((field) => field.endsWith('Id'));

const wordsOf = ({ words }: HowFar) => phraseOf(words).text;

function tell(call: Call, told: Told | null, isLost: boolean): void {
  if (told === null) return;
  const { words, isGood = true, isCounted = false, next } = told;
  const lost =
    isLost && isCounted ? ' The answer to an earlier request was lost: what that did is not counted.' : '';
  writeOutcome(call, isGood, words + lost);
  const { out } = call.terminal;
  if (next !== undefined) out.write(wrapTo(out.columns, `  ${next}`));
}

function drawPlan(pane: Pane, { nothing, lead, facts, list, warnings = [] }: Plan, title: string): void {
  const { columns, paint } = pane;
  if (nothing) {
    const text = nothing.text.map((part) => phraseOf(part).text).filter(Boolean);
    const said = [`${nothing.title}.`, ...text].join('\n');
    pane.write(wrapTo(columns, said));
    writeWarnings(pane, nothing.warnings ?? []);
    return writeZone(pane, said);
  }
  pane.write(`${paint('bold', wrapTo(columns, title))}\n${wrapTo(columns, lead)}\n`);
  if (list) pane.write(drawList(pane, list));
  const shown = drawFacts(pane, facts);
  if (shown !== '') pane.write(list ? `\n${shown}` : shown);
  writeWarnings(pane, warnings);
  pane.write(paint('dim', times()));
}

/** Names the zone of the times in a text, if it has any. */
function writeZone(pane: Pane, text: string): void {
  if (/\d\d:\d\d/.test(text)) pane.write(pane.paint('dim', times()));
}

/** Writes what to consider, each warning once. */
function writeWarnings(pane: Pane, warnings: Warnings): void {
  const texts = warnings.flatMap((one) => (one ? [`${phraseOf(one[0]).text} ${phraseOf(one[1]).text}`] : []));
  for (const text of new Set(texts)) pane.write(hang(`${pane.paint('yellow', '!')} `, text, pane.columns));
}
