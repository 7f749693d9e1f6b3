import type { ErasurePreview } from '../../lib/console/erasures/preview.ts';
import {
  leftWords,
  outcomeWords,
  stateWords,
  topicList,
  warningsOf,
} from '../../lib/console/erasures/words.ts';
import { erasurePath } from '../../lib/console/kit/links.ts';
import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, askTyped } from '../confirm.ts';
import { drawList } from '../draw.ts';
import { misused } from '../failure.ts';
import { WAIT } from '../follow.ts';
import { carryOut, writeWarnings } from '../operation.ts';
import { REASON, requireReason } from '../reason.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';

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
  const { given, bus, terminal } = call;
  atMost(0, given);
  const subjects = given.texts('subject');
  if (subjects.length === 0)
    throw misused('--subject is missing: whose data is to be erased?', `For example: npx postbud ${EXAMPLE}`);
  const reason = given.isSet('dry-run') ? undefined : requireReason(given, EXAMPLE);
  const asked = { subjects, ...(given.isSet('exact') && { exact: true }) };
  const { requestErasure, showErasure } = await import('../../lib/console/erasures/routes.ts');
  const isFollowed = true;
  return await carryOut(
    call,
    {
      nothing: NOTHING,
      async preview() {
        const { json, view } = await bus.ask(requestErasure, {
          body: { ...asked, dryRun: true },
          named: NAMED,
        });
        if (!('request' in view)) throw new TypeError('a dry run is answered with a preview');
        return { json, view };
      },
      draw: write,
      async confirm() {
        if (!given.isSet('yes'))
          await askTyped(terminal, { text: subjects[0]!, to: 'erase permanently', nothing: NOTHING });
      },
      begin({ request: { erasureId } }) {
        return bus.ask(requestErasure, { body: { ...asked, reason, erasureId }, named: NAMED });
      },
      followed: {
        look: ({ erasureId }) =>
          erasureId === null ? null : () => bus.ask(showErasure, { parameters: { erasureId } }),
        isSettled: ({ endedAt }) => endedAt !== null,
        words: (now) => `${stateWords(now)}…`,
        ends: (now) => ({
          isGood: now.endedAt !== null,
          words:
            now.endedAt === null ? `Under way: ${stateWords(now)}. The cron continues.` : outcomeWords(now),
          more: leftWords(now),
          address: new URL(erasurePath(now.erasureId), bus.url).href,
        }),
      },
    },
    isFollowed,
  );
}

function write(view: ErasurePreview, pane: Pane): void {
  const { paint, columns } = pane;
  pane.write(
    paint('bold', `${quantity(view.events, 'event')} would be erased. Nothing brings the data back.`),
  );
  if (view.topics.length > 0) pane.write(drawList(pane, topicList(view.topics)));
  writeWarnings(pane, warningsOf(view));
  pane.write(paint('dim', wrapTo(columns, `Not searched: ${joinNames(view.notSearched)}.`)));
}
