import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { NAMES_A_PERSON } from '../kit/replay-request.ts';
import { previewErasure } from '../../components/erasures/erase-preview.ts';
import { erase } from '../../components/erasures/erase.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, invalid } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { requireValid, validated } from '../../platform/http/validated.ts';
import type { Content } from '../../platform/http/validated.ts';
import { hasPersonalData } from '../../platform/masking/personal.ts';
import { SECOND } from '../../platform/time.ts';
import { asForm } from '../kit/form-request.ts';
import { erasurePath, erasuresPath } from '../kit/links.ts';
import { refuseNamed, requireNobodyOf } from '../kit/nobody-named.ts';
import { operation } from '../kit/operation.ts';
import { listRoute, showRoute } from '../kit/operation-routes.ts';
import { erasuresPage } from './list-page.ts';
import { ERASURE, erasurePage } from './page.ts';
import { erasurePlan, erasurePreview, readPreview } from './plan.ts';
import { erasureList, erasureProgress, listQuery, readErasure, readErasures } from './read.ts';
import { eraseRequest } from './request.ts';
import type { ParsedEraseRequest } from './request.ts';
import { leftWords, outcomeWords, stateWords } from './words.ts';

/** The answer to `dryRun`. */
const dryRun = erasurePreview
  .extend({ erasureId: z.null() })
  .meta({ id: 'ErasureDryRun', description: 'The answer to `dryRun: true`.' });

export const listErasures = listRoute(ERASURE, {
  id: 'listErasures',
  query: listQuery,
  answer: erasureList,
  example: { name: 'newest', summary: 'The newest', parameters: { limit: 10 } },
  read: async (bus, query) => await readErasures(await bus.database(), query),
  page: erasuresPage,
});

const showErasure = showRoute(
  {
    kind: ERASURE,
    answer: erasureProgress,
    read: async (bus, erasureId) => await readErasure(await bus.database(), erasureId),
  },
  'See one erasure, and how far it is',
  erasurePage,
);

const EXAMPLE = 'erase --subject usr_3071 --reason "request 2026-114"';

export const erasing = operation({
  verb: 'erase',
  section: 'erasures',
  path: erasuresPath(),
  scope: 'event-bus:erase',
  body: eraseRequest,
  preview: dryRun,
  answer: z.union([erasureProgress, dryRun]).meta({
    description:
      'The erasure as far as it is; the cron continues the rest. For a dry run, what it would find.',
  }),
  readForm: readErasureForm,
  begun: {
    id: 'erase',
    summary: 'Overwrite the personal data of everything that names a person',
    description:
      'Finds the events that name the person by the fields that the catalog says, and overwrites the personal data in their payloads, those of timers too, in the attempts of their deliveries, in notifications, incidents and error groups. Ids, order, counts and states stay; nothing brings the data back. Events created after the request stay as they are. The operator, the time and the reason are recorded. Names stand in the body, because addresses are logged.',
    links: {
      progress: {
        operationId: 'readErasure',
        description: 'How far it is.',
        parameters: { erasureId: '$response.body#/erasureId' },
      },
    },
    problems: ['not_confirmed'],
    examples: {
      counted: {
        summary: 'A dry run',
        json: { subjects: ['usr_3071'], dryRun: true },
        answer: answered(),
      },
      'a-person': {
        summary: 'A person, by their id',
        json: { subjects: ['usr_3071'], reason: 'Request 2026-114 of 20 February.' },
        answer: answered(),
      },
      'without-a-reason': {
        summary: 'Without a reason',
        json: { subjects: ['usr_3071'] },
        answer: invalid('reason', 'invalid_type', 'expected a reason; it is kept in the operator log'),
      },
      'with-a-name-in-the-reason': {
        summary: 'With an e-mail address in the reason',
        json: { subjects: ['usr_3071'], reason: 'asked for by kari.lunde@example.no' },
        answer: invalid('reason', 'custom', NAMES_A_PERSON),
      },
    },
  },
  find: async ({ bus, body }) => ({ ...(await readPreview(await bus.database(), body)), erasureId: null }),
  act: async ({ bus, body, operator }) => await start(await bus.database(), body, operator.subject),
  says: erasurePlan,
  reason: ['request 2026-114', 'Kept forever: do not name the person'],
  leads: ({ erasureId }) => erasurePath(erasureId),
  followed: {
    route: showErasure,
    pathOf: erasurePath,
    idOf: ({ erasureId }) => erasureId,
    isAwaited: true,
    says: (now) => ({
      words: now.endedAt === null ? `${stateWords(now)}…` : outcomeWords(now),
      isOver: now.endedAt !== null,
      isGood: true,
      more: leftWords(now),
    }),
  },
  command: {
    summary: 'overwrite a person’s data in everything that names them',
    usage: ['erase --subject <name> [--subject <name>…] --reason <text> [options]'],
    notes: [
      'Finds the events that name the person by the fields that npx postbud catalog shows, and overwrites the personal data in their payloads, the attempts of their deliveries, notifications, incidents and error groups. Ids, order, counts and states stay. Nothing brings the data back.',
      'First shows a preview, then asks for the name again. Without a terminal it needs --yes. Then follows until the erasure has ended; it goes on if you leave. Needs the scope event-bus:erase.',
      'Events recorded later stay as they are. docs/privacy.md says what else holds the person, such as backups and mails.',
    ],
    examples: [
      [EXAMPLE, 'after a preview and a confirmation'],
      ['erase --subject usr_3071 --dry-run', 'a preview only'],
      [
        'erase --subject kari.lunde@example.no --subject usr_3071 --reason "request 2026-114"',
        'by two names',
      ],
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
    needs: { subjects: '--subject is missing: whose data is to be erased?' },
    nothing: 'Nothing was erased.',
    example: EXAMPLE,
    isReasonNeeded: true,
  },
});

export const erasureRoutes = [...erasing.routes, listErasures, showErasure];

/** A function has half a minute. The cron continues what takes longer. */
const LONGEST_MS = 20 * SECOND;

/** @throws Problem 400 for a missing reason, or one that names the person. */
async function start(db: Database, request: ParsedEraseRequest, by: string) {
  const { subjects, exact = false, erasureId = uuidv7() } = request;
  const reason = await requireReason(db, request);
  const until = Date.now() + LONGEST_MS;
  await erase(db, { subjects, isExact: exact, by, reason, until, id: erasureId });
  // A request that is sent again is answered with what the first one asked for.
  const erasure = await readErasure(db, erasureId);
  if (erasure === null) throw new TypeError('the erasure was recorded');
  return erasure;
}

/** Looking for events whose people a reason may name takes no longer. The reason is also held against the names themselves. */
const SEARCH_MS = 3 * SECOND;

/** The log refuses changes, so what is in it can't be erased. @throws Problem as `start` */
async function requireReason(db: Database, request: ParsedEraseRequest): Promise<string> {
  const { reason, subjects, exact: isExact = false } = request;
  if (!reason)
    return requireValid(
      { reason },
      z.object({
        reason: z
          .string('expected a reason; it is kept in the operator log')
          .min(1, 'expected a reason; it is kept in the operator log'),
      }),
    ).reason;
  const found = await previewErasure(db, { subjects, isExact }, Date.now() + SEARCH_MS);
  const names = found.names.flatMap(({ text, isPersonal }) => (isPersonal ? [text] : []));
  if (hasPersonalData(reason, names)) refuseNamed('reason', reason);
  await requireNobodyOf(db, reason, found.eventIds);
  return reason;
}

/** The same in a form, with the first name typed again to confirm. */
const confirmedForm = z.looseObject({ confirm: z.string().optional() });

/** @throws Problem 400 `validation_failed`, or `not_confirmed` unless the first name was typed again. */
function readErasureForm(content: Content): ParsedEraseRequest {
  const { confirm, ...fields } = validated(content, confirmedForm);
  const request = requireValid(fields, asForm(eraseRequest));
  if (!request.dryRun && confirm?.trim() !== request.subjects[0])
    throw new Problem('not_confirmed', { detail: 'Type the name again to confirm. Nothing was erased.' });
  return request;
}
