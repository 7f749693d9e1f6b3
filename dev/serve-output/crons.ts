import type { OutputConfig } from '../build/routes.ts';

/** The only schedule that there is. */
const EVERY_MINUTE = '* * * * *';
const MINUTE_MS = 60_000;

/**
 * Calls the crons of an output as the platform does, once at the start and then at every full minute, however long an
 * earlier call takes.
 *
 * @param secret `CRON_SECRET`.
 */
export function startCrons(crons: OutputConfig['crons'], url: string, secret: string): void {
  for (const { path, schedule } of crons) {
    if (schedule !== EVERY_MINUTE) throw new Error(`vercel.json: write here how often ${schedule} is`);
    const call = () => {
      const headers = {
        authorization: `Bearer ${secret}`,
        'user-agent': 'vercel-cron/1.0',
        'x-vercel-cron-schedule': schedule,
      };
      // What fails is in the log of the function, and the platform does not try again either.
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
