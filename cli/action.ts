import type { Action as Declared, Done, End } from '../lib/console/kit/action.ts';
import type { Given, Options } from './arguments.ts';
import type { Answered, Asked, Route } from './bus.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, Described, OnlineCommand } from './command.ts';
import { YES, confirm, readConfirmable } from './confirm.ts';
import { requireDeliveryId } from './delivery-id.ts';
import { EXIT, misused } from './failure.ts';
import { WAIT, follow, waitLimitMs } from './follow.ts';
import { requireIncidentId } from './incident-id.ts';
import { writeItem, writeOutcome } from './outcome.ts';
import { inSteps } from './steps.ts';
import type { Step } from './steps.ts';
import { wrapTo } from './text.ts';

/** A word after the command. */
export interface Subject {
  /** The parameter of the route's path, or else the field of its body. */
  readonly name: string;
  readonly missing: readonly [message: string, advice: string];
  /** @throws Failure for a word that cannot be one. */
  readonly check?: (written: string) => void;
}

export const INCIDENT: Subject = {
  name: 'incidentId',
  missing: ['The incident is missing.', 'npx postbud incidents lists them.'],
  check: requireIncidentId,
};

/** Makes the word for a parameter of the path. @param missing said where there is none. */
function subjectOf(name: string, example: string, missing: Subject['missing'] | undefined): Subject {
  if (missing) return { name, missing };
  if (name === 'incidentId') return INCIDENT;
  const advice = `For example: npx postbud ${example}`;
  if (name !== 'deliveryId') return { name, missing: [`The ${name} is missing.`, advice] };
  return { name, missing: ['The delivery id is missing.', advice], check: requireDeliveryId };
}

/** What is sent. */
export interface ActionRequest extends Asked {
  readonly parameters: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What an action would do, before it is confirmed. */
interface Plan {
  /** Null where what is asked says it all. */
  readonly says: string | null;
  /** What is asked: a verb and its object, and how many things it is done to. Null where there is nothing to do. */
  readonly asks: { readonly action: string; readonly count: number } | null;
  /** Fields of each request that keep it to what was shown. */
  readonly keepsTo?: (isFirst: boolean) => object;
  /** What `--dry-run --json` writes. */
  readonly json?: unknown;
}

/** An action that is done. */
interface Did<View, Before> {
  readonly call: Call;
  readonly asked: ActionRequest;
  readonly subjects: Readonly<Record<string, string>>;
  readonly before: Before;
  /** The answers of all its steps, and the sum of what they did. */
  readonly views: readonly View[];
  readonly sum: number;
}

/** How `--wait` ends. @typeParam Seen what it looks at. */
interface Followed<View, Seen> {
  /** Looked at before the action too, so that what it brought about can be told. */
  readonly look: (call: Call, asked: ActionRequest) => Promise<Answered<Seen>>;
  /** @returns whether there is anything to wait for. */
  readonly isExpected?: (view: View) => boolean;
  readonly isSettled: (now: Seen, before: Seen) => boolean;
  readonly waiting: (now: Seen) => string;
  readonly ends: (now: Seen, before: Seen) => { readonly isGood: boolean; readonly words: string };
}

/** What the command of an action does beyond what every one does, or says in other words. */
export interface Refinement<View, Seen = never, Before = undefined> extends Partial<Described> {
  readonly subjects?: readonly Subject[];
  /** The option that says why, with an example of it. */
  readonly why?: {
    readonly option: 'reason' | 'note';
    readonly example: string;
    readonly isOptional?: boolean;
  };
  /** Fields of the request that options give. */
  readonly body?: (given: Given) => object;
  /** Maps fields to what the command line calls them. */
  readonly named?: Asked['named'];
  /** That nothing was done, as a whole sentence: the action is confirmed. */
  readonly nothing?: string;
  /** The option with which it is done to so little that it is not confirmed. */
  readonly narrowedBy?: 'topic';
  /** Reads what it is done to. @throws Failure for what cannot be acted on. */
  readonly readFirst?: (call: Call, asked: ActionRequest) => Promise<Before>;
  /** What it would do, where it is confirmed. With the option `dry-run` it is all that happens. */
  readonly plan?: (call: Call, asked: ActionRequest, before: Before) => Promise<Plan>;
  readonly step?: (view: View) => Step;
  /** @returns what was done, and what may be done next. */
  readonly done?: (view: View, did: Did<View, Before>) => Done | Promise<Done>;
  readonly follow?: Followed<View, Seen>;
}

/** The command of an action, complete. */
interface Action<View, Seen, Before>
  extends Omit<Refinement<View, Seen, Before>, keyof Described>, Described {
  readonly route: Route<View>;
  readonly subjects: readonly Subject[];
  readonly done: NonNullable<Refinement<View, Seen, Before>['done']>;
}

/** Makes the command of an action: check what is written, show what it would do, ask, do it, say what was done. */
export function actionCommand<View, Seen = never, Before = undefined>(
  declared: Declared<View>,
  refinement: Refinement<View, Seen, Before> = {},
): OnlineCommand {
  const action = completed(declared, refinement);
  const { name, summary, usage, notes, examples } = action;
  return {
    name,
    summary,
    usage,
    notes,
    examples,
    options: optionsOf(action),
    run: (call) => act(action, call),
  };
}

function completed<View, Seen, Before>(
  { name: declaredName, asks, route, command }: Declared<View>,
  refinement: Refinement<View, Seen, Before>,
): Action<View, Seen, Before> {
  const {
    name = command?.name ?? declaredName,
    summary = command?.summary,
    notes = command?.notes ?? [],
    examples = command?.examples ?? [],
    options = {},
    why = asks && { option: asks.field ?? 'reason', example: asks.example },
    done = command && ((view, { subjects }) => command.done(view, Object.values(subjects)[0] ?? '')),
  } = refinement;
  if (summary === undefined || done === undefined) throw new TypeError(`${name} has no words for a command`);
  const parameters = Array.from(route.path.matchAll(/\{(\w+)\}/g), ([, parameter]) => parameter!);
  const words = [name, ...parameters.map((one) => `<${one}>`), ...(why ? [`--${why.option} <text>`] : [])];
  const example = examples[0]?.[0] ?? name;
  return {
    ...refinement,
    name,
    summary,
    notes,
    examples,
    options,
    usage: refinement.usage ?? command?.usage ?? [words.join(' ')],
    subjects: refinement.subjects ?? parameters.map((one) => subjectOf(one, example, command?.missing)),
    ...(why && { why }),
    route,
    done,
  };
}

const WHY = {
  reason: { value: '<text>', help: 'recorded in the operator log' },
  note: { value: '<text>', help: 'what others should know' },
} as const;

function optionsOf<View, Seen, Before>(action: Action<View, Seen, Before>): Options {
  const { options, why, nothing, follow: followed } = action;
  return {
    ...options,
    ...(why && { [why.option]: WHY[why.option] }),
    ...(nothing !== undefined && YES),
    ...(followed && WAIT),
  };
}

async function act<View, Seen, Before>(action: Action<View, Seen, Before>, call: Call): Promise<number> {
  const { narrowedBy } = action;
  const { given, terminal, isJson, bus } = call;
  const isDry = given.isSet('dry-run');
  const written = wordsOf(action, call, isDry);
  const limitMs = action.follow && waitLimitMs(given);
  const { route } = action;
  const asked = askedOf(action, given, written);
  const nothing = narrowedBy !== undefined && given.isSet(narrowedBy) ? undefined : action.nothing;
  const read = async () => {
    const found = (await action.readFirst?.(call, asked))!;
    return {
      before: found,
      plan: nothing === undefined ? undefined : await action.plan?.(call, asked, found),
    };
  };
  const { before, plan } =
    nothing === undefined || isDry
      ? await read()
      : await readConfirmable(call, { nothing, orElse: insteadOfYes(action) }, read);
  if (plan && plan.says !== null && !(isDry && isJson))
    terminal.err.write(wrapTo(terminal.err.columns, plan.says));
  if (isDry) {
    if (isJson) writeJson(call, plan?.json);
    return EXIT.ok;
  }
  if (plan?.asks && nothing !== undefined) await confirm(call, { ...plan.asks, nothing });
  const followed = given.isSet('wait') ? action.follow : undefined;
  const seen = await followed?.look(call, asked);
  const { json, views, sum } = await inSteps(
    call,
    (left) => bus.ask(route, { ...asked, body: { ...asked.body, ...plan?.keepsTo?.(left === null) } }),
    action.step,
    plan?.asks?.count,
  );
  const view = views.at(-1)!;
  const subjects = Object.fromEntries(written);
  const end = endOf(await action.done(view, { call, asked, subjects, before, views, sum }));
  if (!isJson) write(call, end);
  if (followed && seen && (followed.isExpected?.(view) ?? true))
    return await wait(followed, call, asked, limitMs!, seen.view);
  if (isJson) writeJson(call, json);
  return end.isGood ? EXIT.ok : EXIT.failed;
}

/** What may be given in the place of `--yes`. */
function insteadOfYes({
  options,
  narrowedBy,
}: Pick<Action<never, never, never>, 'options' | 'narrowedBy'>): string {
  if (narrowedBy !== undefined) return `, or --${narrowedBy} <${narrowedBy}>`;
  return 'dry-run' in options ? ', or --dry-run to see what it would do' : '';
}

/** The words after the command, and why. @throws Failure where one is missing. */
function wordsOf<View, Seen, Before>(
  { name, subjects, why }: Action<View, Seen, Before>,
  { given }: Call,
  isDry: boolean,
): ReadonlyMap<string, string> {
  atMost(subjects.length, given);
  const words = new Map(
    subjects.map((subject, index) => {
      const written = given.positionals[index];
      if (written === undefined) throw misused(...subject.missing);
      subject.check?.(written);
      return [subject.name, written];
    }),
  );
  if (!why) return words;
  const said = given.text(why.option)?.trim() || (isDry ? 'preview' : undefined);
  if (said !== undefined) words.set(why.option, said);
  else if (!why.isOptional) {
    const line = [name, ...words.values()].join(' ');
    throw misused(
      why.option === 'reason'
        ? '--reason is missing: it is recorded in the operator log.'
        : '--note is missing.',
      `For example: npx postbud ${line} --${why.option} "${why.example}"`,
    );
  }
  return words;
}

function askedOf<View, Seen, Before>(
  { body, named, route: { path } }: Action<View, Seen, Before>,
  given: Given,
  written: ReadonlyMap<string, string>,
): ActionRequest {
  const isInPath = ([name]: readonly [string, string]) => path.includes(`{${name}}`);
  const words = [...written];
  return {
    parameters: Object.fromEntries(words.filter(isInPath)),
    body: { ...Object.fromEntries(words.filter((one) => !isInPath(one))), ...body?.(given) },
    named: { note: '--note', ...named },
  };
}

async function wait<View, Seen>(
  followed: Followed<View, Seen>,
  call: Call,
  asked: ActionRequest,
  limitMs: number,
  before: Seen,
): Promise<number> {
  const last = await follow(call, limitMs, () => followed.look(call, asked), {
    isSettled: ({ view }) => followed.isSettled(view, before),
    words: ({ view }) => followed.waiting(view),
  });
  const { isGood, words } = followed.ends(last.view, before);
  if (call.isJson) writeJson(call, last.json);
  else writeOutcome(call, isGood, words);
  return isGood ? EXIT.ok : EXIT.failed;
}

function endOf(done: Done): End {
  if (typeof done === 'string') return { isGood: true, words: done };
  return 'isGood' in done ? done : { isGood: true, words: done[0], next: done[1] };
}

function write(call: Call, { isGood, each = [], words, next }: End): void {
  const { out } = call.terminal;
  for (const [isDone, line] of each) writeItem(out, isDone ? 'good' : 'bad', line);
  if (words !== undefined) writeOutcome(call, isGood, words);
  if (next !== undefined) out.write(out.paint('dim', wrapTo(out.columns, next)));
}
