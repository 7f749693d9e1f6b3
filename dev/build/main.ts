import { OUTPUT, writeOutput } from './output.ts';

/** `npm run build`: builds the output that `vercel deploy --prebuilt` uploads and the tests of the artefact run. */
const startedAt = performance.now();
const functions = await writeOutput(new URL('../../', import.meta.url));
const width = Math.max(...functions.map(({ name }) => name.length));
for (const { name, settings, bundle } of functions) {
  const size = `${(Buffer.byteLength(bundle.code) / 1000).toFixed(0)} kB`;
  const cancellation = settings.supportsCancellation ? ', is cancelled when the caller hangs up' : '';
  console.log(`  ${name.padEnd(width)}  ${size.padStart(8)}  ${settings.maxDuration} s limit${cancellation}`);
}
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(`\n${functions.length} functions in ${OUTPUT}, built in ${seconds} s`);
