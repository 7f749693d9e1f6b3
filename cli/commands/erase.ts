import type { ErasurePreview } from '../../lib/console/erasures/preview.ts';
import { leftWords, outcomeWords, stateWords, warningsOf } from '../../lib/console/erasures/words.ts';
import { erasurePath } from '../../lib/console/kit/links.ts';
import { count, joinNames, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, requireConfirmable } from '../confirm.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { follow, WAIT, waitLimitMs } from '../follow.ts';
import { writeOutcome } from '../held-delivery.ts';
import { REASON, requireReason } from '../reason.ts';
import { Unavailable } from '../refusals.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';

const NOTHING = 'Nothing was erased.';
const EXAMPLE = 'erase --subject usr_3071 --reason "request 2026-114"';
const NAMED = { subjects: '--subject' };

export const command: Command = {
  name: 'erase',
  summary: 'overwrite a person’s data in everything that names them',
  usage: ['erase --subject <name> [--subject <name>…] --reason <text> [options]'],
  notes: [
    'Finds the events that name the person by the fields that npx postbud catalog shows, and overwrites the personal data in their payloads, the attempts of their deliveries, notifications, incidents and error groups. Ids, order, counts and states stay. Nothing brings the data back.',
    'First shows a preview, then asks for the name again. Without a terminal it needs --yes. Then follows until the erasure has ended; it goes on if you leave. Needs the scope event-bus:erase.',
    'Events recorded later stay as they are. docs/privacy.md says what else holds the person, such as backups and mails.',
  ],
  options: {
    subject: {
      value: '<name>',
      isList: true,
      help: 'an id, an e-mail address or the identity provider’s name of the person, or the id of a single event; may be repeated',
    },
    exact: { help: 'look for these names alone, and not for addresses that events have beside them' },
    ...REASON,
    'dry-run': { help: 'show the preview and stop' },
    ...YES,
    timeout: WAIT.timeout,
  },
  examples: [
    [EXAMPLE, 'after a preview and a confirmation'],
    ['erase --subject usr_3071 --dry-run', 'a preview only'],
    ['erase --subject kari.lunde@example.no --subject usr_3071 --reason "request 2026-114"', 'by two names'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  atMost(0, given);
  const subjects = given.texts('subject');
  if (subjects.length === 0)
    throw misused('--subject is missing: whose data is to be erased?', `For example: npx postbud ${EXAMPLE}`);
  const isDry = given.isSet('dry-run');
  const reason = isDry ? undefined : requireReason(given, EXAMPLE);
  if (!isDry) requireConfirmable(call, NOTHING, ', or --dry-run for a preview');
  const limitMs = waitLimitMs(given);
  const asked = { subjects, ...(given.isSet('exact') && { exact: true }) };
  const { requestErasure } = await import('../../lib/console/erasures/routes.ts');
  const { json, view } = await bus.ask(requestErasure, { body: { ...asked, dryRun: true }, named: NAMED });
  if (!('request' in view)) throw new TypeError('a dry run is answered with a preview');
  // The preview must be seen even where the answer goes to a program.
  const pane = isDry ? terminal.out : terminal.err;
  if (isDry && isJson) writeJson(call, json);
  else write(view, pane);
  if (isDry) return EXIT.ok;
  await confirm(call, subjects[0]!);
  // The erasure's id makes a repeated request safe.
  const body = { ...asked, reason, erasureId: view.request.erasureId };
  const send = () => bus.ask(requestErasure, { body, named: NAMED });
  const begun = await send().catch((error: unknown) => {
    if (error instanceof Unavailable && error.exitCode === EXIT.unreachable) return send();
    throw error;
  });
  if (begun.view.erasureId === null) throw new TypeError('an erasure has an id');
  return await followErasure(call, begun.view.erasureId, limitMs);
}

/** Asks for the name again, which proves that it was read. @throws Failure for any other answer. */
async function confirm({ given, terminal }: Call, subject: string): Promise<void> {
  if (given.isSet('yes')) return;
  const answer = await terminal.ask(`\nType ${subject} to erase permanently: `);
  if (answer.trim() !== subject) throw new Failure(EXIT.failed, NOTHING);
}

/** Waits until an erasure has ended, and says what it overwrote. @returns the exit code. */
async function followErasure(call: Call, erasureId: string, limitMs: number): Promise<number> {
  const { bus, isJson, terminal } = call;
  const { showErasure } = await import('../../lib/console/erasures/routes.ts');
  const { json, view } = await follow(
    call,
    limitMs,
    () => bus.ask(showErasure, { parameters: { erasureId } }),
    { isSettled: ({ view: now }) => now.endedAt !== null, words: ({ view: now }) => `${stateWords(now)}…` },
  );
  const isEnded = view.endedAt !== null;
  if (isJson) {
    writeJson(call, json);
    return isEnded ? EXIT.ok : EXIT.failed;
  }
  const { out } = terminal;
  writeOutcome(
    call,
    isEnded,
    isEnded ? outcomeWords(view) : `Under way: ${stateWords(view)}. The cron continues.`,
  );
  for (const words of leftWords(view)) out.write(wrapTo(out.columns, `  ${words}`));
  out.write(out.paint('dim', `  ${new URL(erasurePath(erasureId), bus.url).href}`));
  return isEnded ? EXIT.ok : EXIT.failed;
}

function write(view: ErasurePreview, pane: Pane): void {
  const { paint, columns } = pane;
  pane.write(
    paint('bold', `${quantity(view.events, 'event')} would be erased. Nothing brings the data back.`),
  );
  if (view.topics.length > 0) {
    const rows = view.topics.map(({ topic, events }) => [topic, count(events)]);
    pane.write(table(pane, [{ title: 'topic' }, { title: 'events', align: 'right' }], rows));
  }
  for (const [fact, consequence] of warningsOf(view))
    pane.write(hang(`${paint('yellow', '!')} `, `${fact} ${consequence}`, columns));
  pane.write(paint('dim', wrapTo(columns, `Not searched: ${joinNames(view.notSearched)}.`)));
}
