import { duration, until } from '../../lib/console/kit/instants.ts';
import { count, quantity, joinNames } from '../../lib/console/kit/words.ts';
import type { RelayRun } from '../../lib/edge/cron/route.ts';
import { CRON_BUDGET_MS, RELAY_LIFE_MS } from '../../lib/platform/lifetime.ts';
import { SECOND, instantOf } from '../../lib/platform/time.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import type { Pane } from '../terminal.ts';

/** The relay finishes the deliveries that it has begun within its function's life. */
const DEFAULT_TIMEOUT_SECONDS = RELAY_LIFE_MS / SECOND;

export const command: Command = {
  name: 'tick',
  summary: 'run the relay once, as the cron does each minute',
  usage: [`tick [--timeout <${DEFAULT_TIMEOUT_SECONDS}>]`],
  notes: [
    `The relay runs for ${CRON_BUDGET_MS / SECOND} seconds, looks for due deliveries every 5 seconds, and then reports. The command needs the cron’s secret, CRON_SECRET, instead of a token.`,
  ],
  options: {
    timeout: {
      value: '<seconds>',
      help: `how long to wait for the answer (default: ${DEFAULT_TIMEOUT_SECONDS})`,
    },
  },
  examples: [['tick', 'where no cron runs: in a preview deployment, or when the cron is down']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(0, given);
  const timeoutMs = (given.wholeNumber('timeout', 1, 900) ?? DEFAULT_TIMEOUT_SECONDS) * SECOND;
  const { cronRoute, relayRun } = await import('../../lib/edge/cron/route.ts');
  const startedAt = Date.now();
  const stop = showProgress(call, startedAt);
  const { json, view } = await bus.ask({ ...cronRoute, answer: relayRun }, { timeoutMs }).finally(stop);
  if (isJson) writeJson(call, json);
  else write(view, Date.now() - startedAt, terminal.out);
  return EXIT.ok;
}

/** @returns a function that clears it. */
function showProgress({ terminal }: Call, startedAt: number): () => void {
  const { err, progress } = terminal;
  const { columns } = err;
  if (columns === null) {
    err.write(`The relay runs for about ${CRON_BUDGET_MS / SECOND} seconds.`);
    return () => undefined;
  }
  const show = () => {
    const ms = Date.now() - startedAt;
    const share = Math.min(1, ms / CRON_BUDGET_MS);
    const words =
      ms < CRON_BUDGET_MS
        ? `${Math.floor(ms / SECOND)} of ${CRON_BUDGET_MS / SECOND} s`
        : `${Math.floor(ms / SECOND)} s, finishing deliveries`;
    const width = Math.max(0, Math.min(20, columns - `The relay runs  ${words} `.length));
    const done = Math.round(share * width);
    progress(`The relay runs ${'█'.repeat(done)}${'░'.repeat(width - done)} ${words}`);
  };
  show();
  const timer = setInterval(show, SECOND);
  return () => {
    clearInterval(timer);
    progress(null);
  };
}

function write(report: RelayRun, tookMs: number, { write: put, paint }: Pane): void {
  const { ticks, placed, delivered, failed, waited, deadLettered, leasesLost, struck, pruned, undone } =
    report;
  put(`The relay ran for ${duration(tookMs)}, in ${quantity(ticks, 'turn')}.\n`);
  const rows: readonly (readonly [
    name: string,
    number: number,
    style: Parameters<typeof paint>[0],
    note: string,
  ])[] = [
    ['placed', placed, 'bold', ''],
    ['delivered', delivered, 'green', ''],
    ['failed', failed, 'yellow', nextRetryWords(report)],
    ['postponed', waited, 'bold', ''],
    ['dead-lettered', deadLettered, 'red', deadLettered > 0 ? 'npx postbud dead-letters' : ''],
    [
      'leases lost',
      leasesLost,
      'yellow',
      leasesLost > 0 ? 'they expired, and another relay took the lane' : '',
    ],
    ['events pruned', pruned.events, 'bold', ''],
  ];
  const width = Math.max(...rows.map(([, number]) => count(number).length));
  for (const [name, number, style, note] of rows) {
    const figure = paint(number === 0 ? 'dim' : style, count(number).padStart(width));
    put(`  ${name.padEnd(14)}  ${figure}${note && paint('dim', `  ${note}`)}`);
  }
  if (struck.length > 0) put(`\nEmitted the daily event for ${joinNames(struck)}.`);
  if (undone.length > 0) put(paint('red', `\nFailed: ${joinNames(undone)}. See the server’s log.`));
}

function nextRetryWords({ failed, nextRetryAt }: RelayRun): string {
  if (failed === 0 || nextRetryAt === null) return '';
  return `next retry ${until(instantOf(nextRetryAt), instantOf(Date.now()))}`;
}
