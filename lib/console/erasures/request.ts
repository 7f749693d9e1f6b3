import * as z from 'zod';

import { isStorable } from '../../platform/storable.ts';
import { ownWords } from '../kit/replay-request.ts';

const MOST_SUBJECTS = 20;
const SUBJECTS = `expected 1 to ${MOST_SUBJECTS} names of one person, each of 3 to 255 characters: an id such as usr_3071, an e-mail address, or an event id`;

/** A shorter one would be in fields that name nobody. */
const subject = z.string(SUBJECTS).trim().min(3, SUBJECTS).max(255, SUBJECTS).refine(isStorable, SUBJECTS);

/** Forms and queries have them in one field. */
const subjects = z
  .preprocess(
    (given) => (typeof given === 'string' ? given.split(/[,\n]/).filter((one) => one.trim()) : given),
    z.array(subject, SUBJECTS).min(1, SUBJECTS).max(MOST_SUBJECTS, SUBJECTS),
  )
  .meta({
    description:
      'Names of one person, as payloads have them: an id (`usr_3071`), an e-mail address, the identity provider’s name for them; or the ids of single events.',
  });

/** An erasure as an operator requests it. */
export const eraseRequest = z.strictObject({
  subjects,
  exact: z.boolean().optional().meta({
    description:
      'Look for these names alone. By default also for the e-mail addresses and provider’s names that events have beside them, unless another person has them too.',
  }),
  reason: ownWords.optional().meta({
    description:
      'Kept in the operator log forever, so it must not name the person. Required unless `dryRun`.',
  }),
  dryRun: z.boolean().optional().meta({ description: 'Preview only: nothing is overwritten.' }),
  erasureId: z
    .uuid()
    .optional()
    .meta({ description: 'An id of your choice: the same request sent again begins nothing.' }),
});

export type ParsedEraseRequest = z.output<typeof eraseRequest>;
