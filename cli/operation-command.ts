import { leftIn } from '../lib/console/kit/operation.ts';
import type { Operation } from '../lib/console/kit/operation.ts';
import { planDoc } from '../lib/console/kit/plan.ts';
import type { Plan } from '../lib/console/kit/plan.ts';
import { capitalize, count } from '../lib/console/kit/words.ts';
import type { Answered } from './bus.ts';
import { atMost, confirm, requireSomebody, writeJson, YES } from './command.ts';
import type { Call, Command } from './command.ts';
import { drawDoc, writeOutcome } from './draw.ts';
import {
  EXIT,
  Failure,
  fieldsIn,
  misused,
  namesOf,
  optionsOf,
  parametersIn,
  REASON,
  requireReason,
} from './arguments.ts';
import type { Fields } from './arguments.ts';
import { followToItsEnd, WAIT, waitLimitMs } from './follow.ts';
import { Unavailable } from './refusals.ts';

/** Makes the command that previews an operation, asks, begins it, and follows it to its end or stops it. */
export function operationCommand<Preview, Done extends object, Progress>(
  operation: Operation<Preview, Done, Progress>,
  /** Completes the request. @throws Failure */
  complete: (fields: Fields, call: Call) => Promise<Fields> | Fields = (fields) => fields,
): Command {
  const { verb, past, noun, show, begin, says, command, followed, isReasonNeeded = false } = operation;
  const { takes = {}, needs = [], examples, notes = [] } = command;
  const [[example] = ['']] = examples;
  const stop = followed?.stop;
  const options = optionsOf(command.options);
  const nothing = `Nothing was ${past}.`;
  const named: Readonly<Record<string, string>> = {
    ...namesOf(command.options),
    ...Object.fromEntries(Object.entries(takes).map(([field, words]) => [field, `the ${words ?? field}`])),
    expectedCount: '--expected',
  };

  async function run(call: Call): Promise<number> {
    const { given, isJson, terminal, bus } = call;
    if (given.isSet('stop')) return await stopOne(call);
    atMost(Object.keys(takes).length, given);
    const isDry = given.isSet('dry-run');
    const written = fieldsOf(call);
    const reason = isReasonNeeded && !isDry ? requireReason(given, example) : given.text('reason');
    const limitMs = waitLimitMs(given);
    const expected = given.wholeNumber('expected', 0, 1_000_000_000);
    const fields = await complete(written, call);
    const inPath = parametersIn(begin.path);
    const parameters = Object.fromEntries(inPath.map((name) => [name, String(fields[name])]));
    const sent = Object.fromEntries(Object.entries(fields).filter(([name]) => !inPath.includes(name)));
    const { json, view } = await preview();
    const plan = says(view);
    if (!isDry && !plan.nothing) requireSomebody(call, { nothing, orElse: ', or --dry-run for a preview' });
    // The plan must be seen even where the answer goes to a program.
    if (isJson && (isDry || plan.nothing)) writeJson(call, json);
    else drawDoc(isDry ? terminal.out : terminal.err, planDoc(plan, operation, titleOf(call, plan)));
    if (expected !== undefined && plan.matched !== expected)
      throw new Failure(
        EXIT.failed,
        `${nothing.slice(0, -1)}: ${count(plan.matched)} match, not ${count(expected)}.`,
      );
    if (plan.nothing) return plan.isRefused && !isDry ? EXIT.failed : EXIT.ok;
    if (isDry) return EXIT.ok;
    const { typed, matched, what } = plan;
    // What is not a number is named.
    const them = /^\d/.test(what) ? (matched === 1 ? 'it' : 'them') : what;
    const action = `${capitalize(verb)} ${typed === undefined ? them : 'permanently'}`;
    await confirm(call, { action, count: matched, typed, nothing });
    const answer = await beginIt();
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it was no dry run
    const done = answer.view as Done;
    const isAll = leftIn(done) === 0;
    const id = followed ? followed.idOf(done) : null;
    if (!isJson) writeOutcome(call, isAll, operation.done(done));
    if (!isJson && id !== null) tellWay(call, id, sent['perMinute'] !== undefined);
    if (id !== null && given.isSet('wait')) {
      const look = async () => await bus.ask(followed!.view.route, { parameters: ofId(id) });
      return await followToItsEnd(call, limitMs, look, (progress) => followed!.far(progress));
    }
    if (isJson) writeJson(call, answer.json);
    return isAll ? EXIT.ok : EXIT.failed;

    function preview(): Promise<Answered<Preview>> {
      if (show) return bus.ask(show, { parameters, query: sent, named });
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a dry run is answered with a preview
      return bus.ask(begin, { parameters, body: { ...sent, dryRun: true }, named }) as Promise<
        Answered<Preview>
      >;
    }

    /** Asks once more where the answer was lost, if that begins the same thing once: it has an id. */
    async function beginIt() {
      const ask = async () =>
        await bus.ask(begin, { parameters, body: { ...sent, ...plan.request, reason }, named });
      return await ask().catch(async (error: unknown) => {
        if (!(error instanceof Unavailable) || error.exitCode !== EXIT.unreachable) throw error;
        if (`${noun}Id` in plan.request) return await ask();
        const advice = `It may have been ${past} all the same: preview it again.`;
        throw new Failure(error.exitCode, error.message, advice);
      });
    }
  }

  /** @throws Failure for a field that is missing. */
  function fieldsOf({ given }: Call): Fields {
    const require = (isThere: boolean, name: string) => {
      if (!isThere) throw misused(`${name} is missing.`, `For example: npx postbud ${example}`);
    };
    const filled = fieldsIn(given, command.options);
    const written = Object.entries(takes).map(([field, words], place) => {
      require(words === null || given.positionals[place] !== undefined, `The ${words}`);
      return [field, given.positionals[place] ?? filled[field]] as const;
    });
    for (const field of needs) require(given.isSet(named[field]!.slice(2)), named[field]!);
    return { ...filled, ...Object.fromEntries(written) };
  }

  function titleOf({ given }: Call, { what }: Plan): string {
    if (given.isSet('dry-run')) return `Would ${verb} ${what}.`;
    return given.isSet('yes') ? `About to ${verb} ${what}.` : `${capitalize(verb)} ${what}?`;
  }

  /** Says where to see how far it is, and how to stop it. */
  function tellWay({ terminal: { out }, bus }: Call, id: string, isPaced: boolean): void {
    out.write(out.paint('dim', `  Progress: ${new URL(followed!.pathOf(id), bus.url).href}`));
    if (stop && isPaced)
      out.write(out.paint('dim', `  To stop it: npx postbud ${verb} --stop ${id} --reason …`));
  }

  const ofId = (id: string) => ({ [`${noun}Id`]: id });

  async function stopOne(call: Call): Promise<number> {
    const { given, bus, isJson } = call;
    const id = given.text('stop')!;
    if (given.positionals.length > 0 || Object.keys(options).some((name) => given.isSet(name)))
      throw misused(`--stop names the ${verb} alone: leave out all but its reason.`);
    if (!UUID.test(id))
      throw misused(`--stop: '${id}' is not a ${verb} id.`, 'Copy it from npx postbud log.');
    const reason = requireReason(given, `${verb} --stop ${id} --reason "${stop!.example}"`);
    const { json, view } = await bus.ask(stop!.route, { parameters: ofId(id), body: { reason } });
    if (isJson) writeJson(call, json);
    else writeOutcome(call, true, followed!.far(view).words);
    return EXIT.ok;
  }

  const words = [
    verb,
    ...Object.entries(takes).map(([field, what]) => (what === null ? `[<${field}>]` : `<${what}>`)),
    ...needs.map((field) => `${named[field]} ${command.options[field]?.value}`),
    ...(isReasonNeeded ? ['--reason <text>'] : []),
    '[options]',
  ];
  return {
    name: verb,
    summary: operation.summary,
    usage: [words.join(' '), ...(stop ? [`${verb} --stop <${verb}Id> --reason <text>`] : [])],
    notes: [
      operation.description,
      ...notes,
      'First shows a preview, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since the preview, it does nothing and exits with 1.',
    ],
    examples,
    options: {
      ...options,
      ...REASON,
      expected: { value: '<number>', help: `${verb} only if exactly this many match` },
      'dry-run': { help: 'show the preview and stop' },
      ...(stop && { stop: { value: `<${verb}Id>`, help: `stop a ${verb}, which is named alone` } }),
      ...YES,
      ...(followed && WAIT),
    },
    run,
  };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
