import pLimit from 'p-limit';
import pTimeout from 'p-timeout';

import { providerOf, readable, reconciledAs } from '../../../platform/config.ts';
import type { Config, Provider, ReconciliationSettings } from '../../../platform/config.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { log } from '../../../platform/log.ts';
import { MINUTE, SECOND } from '../../../platform/time.ts';
import { dueIntents, planAsking } from './intents.ts';
import type { Answer, AskedIntent } from './intents.ts';
import { claimStep, dueProviders, endStep, failStep, LONGEST_RETRY_AFTER_MS } from './progress.ts';
import type { Claim, Progress } from './progress.ts';
import { ProviderFailed } from './provider-api.ts';
import { planWalk, undeliveredEvents } from './stripe.ts';
import type { StripeSettings } from './stripe.ts';
import { takeIn } from './take-in.ts';
import { readThinEvents } from './thin-events.ts';
import { accessToken, paymentLog } from './vipps.ts';
import type { PaymentLog, VippsSettings } from './vipps.ts';

export interface Reconciling {
  readonly settings: Config['reconciliations'];
  /** The types of each provider's webhooks that change something here. Others are not asked for. */
  readonly types: Partial<Readonly<Record<Provider, readonly string[]>>>;
  readonly signal?: AbortSignal;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/**
 * Asks the providers that are due for webhooks that never came, a step of each account, and takes in what it finds.
 * Sales units of Vipps are asked in one step: nothing says of which of them a payment is.
 *
 * The data flows one way: a claim on the account's row, which gives one process a minute → one page of Stripe's
 * undelivered events, or the logs of some intents at Vipps → those without a receipt → the statement that records a
 * webhook, marked as reconciled → how far it is, with the claim's number. A process that dies, or is overtaken, has
 * recorded events but no progress; the next step finds the same events and knows them by their receipts.
 *
 * A step sends its requests under one deadline and holds no connection meanwhile. A provider that fails is recorded, not
 * thrown: the next step waits longer.
 *
 * @returns in how many milliseconds the next step is due; null for the usual wait.
 * @throws the database's errors.
 */
export async function reconcile(db: Database, options: Reconciling): Promise<number | null> {
  const { settings, now } = options;
  // A wrong variable has been logged when the process started.
  const asked = new Map<string, Account[]>();
  for (const endpoint of Object.keys(settings)) {
    const [provider, own] = [providerOf(endpoint), readable(() => settings[endpoint])];
    if (!provider || !own) continue;
    const name = reconciledAs(endpoint);
    asked.set(name, [...(asked.get(name) ?? []), { endpoint, provider, settings: own }]);
  }
  if (asked.size === 0) return null;
  const due = await dueProviders(db, [...asked.keys()], now);
  const steps = await Promise.allSettled(
    Array.from(asked, async ([name, accounts]) => {
      const claim = due.includes(name) ? await claimStep(db, name, now) : null;
      return claim && (await takeStep(db, claim, accounts, options));
    }),
  );
  const failed = steps.find((step) => step.status === 'rejected');
  if (failed) throw failed.reason;
  const waits = steps.flatMap((step) => (step.status === 'fulfilled' ? (step.value ?? []) : []));
  return waits.length === 0 ? null : Math.min(...waits);
}

/** An account at a provider, by the endpoint of its webhooks. */
interface Account<Settings = ReconciliationSettings> {
  readonly endpoint: string;
  readonly provider: Provider;
  readonly settings: Settings;
}

/**
 * How often a provider is asked when there is nothing left to ask for. Its own retries take minutes to hours, so nobody
 * waits longer because of this, and 288 requests a day are far below every limit.
 */
const EVERY_MS = 5 * MINUTE;

/** A webhook may be on its way this long, with a first retry: what is younger is not missing yet. */
const ON_ITS_WAY_MS = 5 * MINUTE;

/** The requests of a step have ended by then. */
const REQUESTS_LIMIT_MS = 8 * SECOND;

/** A step has ended by then, so that one that begins at the end of the cron's budget ends within its function's life. */
const STEP_LIMIT_MS = 15 * SECOND;

async function takeStep(
  db: Database,
  claim: Claim,
  accounts: readonly Account[],
  { types, signal }: Reconciling,
): Promise<number> {
  const { provider: name } = claim;
  const provider = providerOf(name)!;
  const counted = { found: 0 };
  const step: Step = {
    db,
    claim,
    provider,
    types: types[provider] ?? [],
    signal: AbortSignal.any([AbortSignal.timeout(REQUESTS_LIMIT_MS), ...(signal ? [signal] : [])]),
    onFound: () => (counted.found += 1),
  };
  try {
    const progress = await pTimeout(takeStepAt(step, accounts), {
      milliseconds: STEP_LIMIT_MS,
      message: new StepOverdue(),
    });
    await endStep(db, claim, { ...progress, found: counted.found });
    if (progress.error !== null)
      log('warn', 'a provider was asked in part', { provider: name, reason: progress.error });
    return progress.waitMs;
  } catch (error) {
    if (signal?.aborted) throw error;
    const waitMs = waitAfter(claim, error);
    const isOurs = !(error instanceof ProviderFailed);
    await failStep(db, claim, {
      error: isOurs ? 'what it answered was not stored: see the log' : error.message,
      waitMs,
      found: counted.found,
      isCursorLost: !isOurs && (error.status === 400 || error.status === 404),
    });
    if (isOurs) throw error;
    log('warn', 'a provider could not be asked for webhooks', { provider: name, reason: error.message });
    return waitMs;
  } finally {
    if (counted.found > 0)
      log('info', 'webhooks that had not come were found', { provider: name, ...counted });
  }
}

interface Step {
  readonly db: Database;
  readonly claim: Claim;
  readonly provider: Provider;
  readonly types: readonly string[];
  readonly signal: AbortSignal;
  readonly onFound: () => void;
}

type Outcome = Omit<Progress, 'found'>;

async function takeStepAt(step: Step, accounts: readonly Account[]): Promise<Outcome> {
  const salesUnits: Account<VippsSettings>[] = [];
  for (const { settings, ...account } of accounts) {
    if (settings.api === 'stripe') return await walkOn(step, { ...account, settings });
    salesUnits.push({ ...account, settings });
  }
  return await askAround(step, salesUnits);
}

/** Takes in one page of Stripe's undelivered events, and what thin events name. */
async function walkOn(
  { db, claim, types, signal, onFound }: Step,
  { settings, ...account }: Account<StripeSettings>,
): Promise<Outcome> {
  const thin = await readThinEvents(db, { ...account, settings }, signal);
  const walk = claim.walk ?? planWalk(claim.checkedUntil, claim.now - ON_ITS_WAY_MS);
  const { events, next } = await undeliveredEvents(
    settings,
    walk,
    { types, isShort: claim.failures > 0 },
    signal,
  );
  const unusable = await takeIn(db, account, events, onFound);
  const error = unusable === 0 ? thin.error : `${unusable} of ${events.length} events cannot be stored`;
  if (next !== null) return { walk: { ...walk, cursor: next }, checkedUntil: null, error, waitMs: 0 };
  return { walk: null, checkedUntil: walk.until, error, waitMs: thin.isMore ? 0 : EVERY_MS };
}

/** Intents that one step asks about, and requests at once: some 70 a minute, of the 120 that Vipps allows for each intent. */
const INTENTS = 12;
const AT_ONCE = 4;

/** The wait between steps while more intents are due. */
const PACE_MS = 10 * SECOND;

/** Takes in the logs of the intents that are due, each from the sales unit that knows it. */
async function askAround(
  { db, claim, provider, types, signal, onFound }: Step,
  salesUnits: readonly Account<VippsSettings>[],
): Promise<Outcome> {
  const { now } = claim;
  const intents = await dueIntents(db, provider, { now, limit: INTENTS });
  const done = { walk: null, checkedUntil: null };
  if (intents.length === 0) return { ...done, error: null, waitMs: EVERY_MS };
  const entered = await Promise.all(
    salesUnits.map(async (unit) => ({ unit, ...(await outcomeOf(accessToken(unit.settings, signal))) })),
  );
  const shut = entered.find(({ failed }) => failed)?.failed ?? null;
  if (shut && entered.every(({ failed }) => failed)) throw shut;
  const limit = pLimit(AT_ONCE);
  const asked = await Promise.all(
    intents.map((intent) => limit(async () => ({ intent, ...(await outcomeOf(logOf(intent))) }))),
  );
  const answers = new Map<string, Answer>();
  const failures: ProviderFailed[] = [];
  for (const { intent, found, failed } of asked) {
    if (failed) {
      failures.push(failed);
      if (failed.isMomentary) answers.set(intent.id, 'soon');
    } else if (found && !agrees(found, intent)) failures.push(new LogsDisagree());
    else answers.set(intent.id, found ? await answerIn(found) : shut ? 'soon' : 'open');
  }
  const isOutage = failures.length === intents.length || failures.some(isOfAll);
  // An intent whose log cannot be read must not be asked about before all others again and again.
  for (const { id } of intents) if (!answers.has(id)) answers.set(id, isOutage ? 'soon' : 'open');
  await planAsking(db, answers, now);
  if (isOutage) throw failures.find(isOfAll) ?? failures[0]!;
  const inPart =
    failures.length === 0
      ? null
      : `${failures.length} of ${intents.length} payments: ${failures[0]!.message}`;
  const error = shut ? `one of ${salesUnits.length} sales units: ${shut.message}` : inPart;
  return { ...done, error, waitMs: intents.length === INTENTS ? PACE_MS : EVERY_MS };

  async function logOf({ id: reference }: AskedIntent): Promise<FoundLog | null> {
    for (const { unit, found: token } of entered) {
      const about = token !== null && { token, reference, names: types };
      const found = about && (await paymentLog(unit.settings, about, signal));
      if (found) return { ...found, unit };
    }
    return null;
  }

  async function answerIn({ events, isOver, unit }: FoundLog): Promise<Answer> {
    const arrived = events.filter(({ at }) => !(at > now - ON_ITS_WAY_MS));
    await takeIn(db, unit, arrived, onFound);
    if (arrived.length < events.length) return 'soon';
    return isOver ? 'over' : 'open';
  }
}

interface FoundLog extends PaymentLog {
  readonly unit: Account<VippsSettings>;
}

async function outcomeOf<Found>(asking: Promise<Found>) {
  try {
    return { found: await asking, failed: null };
  } catch (error) {
    if (error instanceof ProviderFailed) return { found: null, failed: error };
    throw error;
  }
}

/** Whether it would be the same for every other payment. */
function isOfAll({ status }: ProviderFailed): boolean {
  return status === 401 || status === 403 || status === 429;
}

/**
 * Whether the log names every part that webhooks have reported. If it does not, its references are not those of the
 * webhooks, and to take it in would emit the same money twice.
 */
function agrees({ events }: PaymentLog, { parts }: AskedIntent): boolean {
  const named = new Set(events.map(({ part }) => part));
  const told = parts.filter(
    ({ state, part }) => part !== '' && (state === 'captured' || state === 'refunded'),
  );
  return told.every(({ state, part }) => named.has(`${state.toUpperCase()} ${part}`));
}

class LogsDisagree extends ProviderFailed {
  constructor() {
    super('the log lacks a capture or refund that a webhook reported, so nothing of it was taken in');
    this.name = 'LogsDisagree';
  }
}

/** The longest wait after failures: longer than an operator takes to correct a key. */
const LONGEST_WAIT_MS = 30 * MINUTE;

/** One minute after the first failure, and twice as long after each further one; later if the provider says so. */
function waitAfter({ failures }: Claim, error: unknown): number {
  const retryAfterMs = error instanceof ProviderFailed ? (error.retryAfterMs ?? 0) : 0;
  const backoffMs = Math.min(LONGEST_WAIT_MS, 2 ** Math.min(failures, 10) * MINUTE);
  return Math.max(backoffMs, Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS));
}

/** A step did not end within its limit. */
class StepOverdue extends Error {
  readonly code = 'reconciliation_overdue';

  constructor() {
    super(`the step had not ended after ${STEP_LIMIT_MS} ms`);
    this.name = 'StepOverdue';
  }
}
