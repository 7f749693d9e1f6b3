import type { OperatorSettings } from '../config.ts';
import type { Database } from '../db/connect.ts';
import { Problem } from '../http/problem.ts';
import { readValidated } from '../http/validated.ts';
import { authenticate } from './authenticate.ts';
import { CountChanged, replay } from './replay.ts';
import { replayRequest } from './replay-request.ts';
import type { Replay } from './replay.ts';

/** A thousand delivery ids and a reason. */
const BODY_LIMIT_BYTES = 64 * 1024;

/**
 * Replays what an operator asks for, and has a relay run.
 *
 * @throws Problem 401, 403 or 503 as `authenticate` does; 400 `validation_failed`; 409 `count_changed`.
 */
export async function handleReplay(options: {
  readonly request: Request;
  readonly settings: OperatorSettings;
  readonly database: () => Promise<Database>;
  readonly kick: () => void;
}): Promise<Replay> {
  const { request, settings, database, kick } = options;
  const operator = await authenticate(request, settings, 'event-bus:replay');
  const asked = await readValidated(request, replayRequest, BODY_LIMIT_BYTES);
  try {
    const done = await replay(await database(), asked, operator.subject);
    if (done.replayed > 0) kick();
    return done;
  } catch (error) {
    if (error instanceof CountChanged)
      throw new Problem(409, error.code, `${error.message}.`, { cause: error });
    throw error;
  }
}
