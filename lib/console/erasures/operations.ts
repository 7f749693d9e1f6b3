import { v7 as uuidv7 } from 'uuid';

import { previewErasure } from '../../components/erasures/erase-preview.ts';
import { erase } from '../../components/erasures/erase.ts';
import type { Database } from '../../platform/db/database.ts';
import { hasPersonalData } from '../../platform/masking/personal.ts';
import { SECOND } from '../../platform/time.ts';
import { erasurePath, erasuresPath } from '../kit/links.ts';
import { refuseNamed, requireNobodyOf } from '../kit/nobody-named.ts';
import { operation } from '../kit/operation.ts';
import { erasurePlan, erasurePreview, eraseRequest, readPreview } from './plan.ts';
import type { ParsedEraseRequest } from './plan.ts';
import { erasureFar, erasureProgress, readErasure } from './progress.ts';

/** A function has half a minute. The cron continues what takes longer. */
const LONGEST_MS = 20 * SECOND;

export const erasing = operation({
  verb: 'erase',
  past: 'erased',
  noun: 'erasure',
  section: 'replays',
  path: erasuresPath(),
  scope: 'event-bus:erase',
  id: 'erase',
  summary: 'overwrite a person’s data in everything that names them',
  description:
    'Finds the events that name the person by the fields that the catalog says, and overwrites the personal data in their payloads, those of timers too, in the attempts of their deliveries, in notifications, incidents and error groups. Ids, order, counts and states stay; nothing brings the data back. Events created after the request stay as they are. The operator, the time and the reason are recorded. Names stand in the body, because addresses are logged.',
  problems: ['not_confirmed'],
  isReasonNeeded: true,
  body: eraseRequest,
  preview: erasurePreview,
  answer: erasureProgress,
  typed: ({ subjects: [first = ''] }) => first,
  find: async ({ bus, body }) => await readPreview(await bus.database(), body),
  async act({ bus, by, reason, body }) {
    const db = await bus.database();
    await requireNobody(db, reason, body);
    const { subjects, exact = false, erasureId = uuidv7() } = body;
    await erase(db, { subjects, isExact: exact, by, reason, until: Date.now() + LONGEST_MS, id: erasureId });
    // A request that is sent again is answered with what the first one asked for.
    return await readErasure(db, erasureId);
  },
  says: erasurePlan,
  reason: ['request 2026-114', 'Kept forever: do not name the person'],
  done: (view) => erasureFar(view).words,
  followed: {
    pathOf: erasurePath,
    answer: erasureProgress,
    read: async (bus, id) => await readErasure(await bus.database(), id),
    says: erasureFar,
  },
  command: {
    notes: [
      'Asks for the name again. What takes longer goes on by itself. docs/privacy.md says what else holds the person, such as backups and mails.',
    ],
    examples: [
      ['erase --subject usr_3071 --reason "request 2026-114"', 'after a preview and a confirmation'],
      ['erase --subject kari.lunde@example.no --subject usr_3071 --dry-run', 'by two names, a preview only'],
    ],
    options: {
      subjects: {
        name: 'subject',
        value: '<name>',
        isList: true,
        help: 'an id, an e-mail address or the identity provider’s name of the person, or the id of a single event; may be repeated',
      },
      exact: { help: 'look for these names alone, and not for addresses that events have beside them' },
    },
    needs: ['subjects'],
  },
});

/** Looking for events whose people a reason may name takes no longer. The reason is also held against the names themselves. */
const SEARCH_MS = 3 * SECOND;

/** The log refuses changes, so what is in it can't be erased. @throws Problem 400 for a reason that names the person */
async function requireNobody(db: Database, reason: string, request: ParsedEraseRequest): Promise<void> {
  const { subjects, exact: isExact = false } = request;
  const found = await previewErasure(db, { subjects, isExact }, Date.now() + SEARCH_MS);
  const names = found.names.flatMap(({ text, isPersonal }) => (isPersonal ? [text] : []));
  if (hasPersonalData(reason, names)) refuseNamed('reason', reason);
  await requireNobodyOf(db, reason, found.eventIds);
}
