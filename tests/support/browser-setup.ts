import chromium from '@sparticuz/chromium';

/** Unpacks the browser, once: of processes that do so at the same time, one would start what another is still writing. */
export default async function setup(): Promise<void> {
  await chromium.executablePath();
}
