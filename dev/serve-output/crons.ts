import type { OutputConfig } from '../build/routes.ts';

/** The only supported schedule. */
const EVERY_MINUTE = '* * * * *';
const MINUTE_MS = 60_000;

/**
 * Calls the crons of an output as the platform does: at the start and then every full minute, even while an earlier
 * call is running.
 *
 * @param secret `CRON_SECRET`.
 */
export function startCrons(crons: OutputConfig['crons'], url: string, secret: string): void {
  for (const { path, schedule } of crons) {
    if (schedule !== EVERY_MINUTE)
      throw new Error(
        `vercel.json: the schedule "${schedule}" is not supported; use "${EVERY_MINUTE}" or extend dev/serve-output/crons.ts`,
      );
    const call = () => {
      const headers = {
        authorization: `Bearer ${secret}`,
        'user-agent': 'vercel-cron/1.0',
        'x-vercel-cron-schedule': schedule,
      };
      // A failure is in the function's log, and the platform does not retry either.
      void fetch(new URL(path, url), { headers }).then(
        (response) => response.body?.cancel(),
        () => undefined,
      );
    };
    call();
    setTimeout(
      () => {
        call();
        setInterval(call, MINUTE_MS);
      },
      MINUTE_MS - (Date.now() % MINUTE_MS),
    );
  }
}
