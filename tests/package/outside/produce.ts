// A producer in another repository: emits in the given ways, one after the other, for example
// `node produce.js with-pg:mnt_1 in-sql:mnt_2`.
import { useTunnel } from './neon.ts';

/** What each way exports: one function, which emits an event about something with this id. */
type Way = Readonly<Record<string, (id: string, resourceId: string) => Promise<void>>>;

useTunnel();
for (const asked of process.argv.slice(2)) {
  const [way, id = ''] = asked.split(':');
  const [act] = Object.values((await import(`./emit-${way}.js`)) as Way);
  try {
    await act!(id, 'res_furulia_svommehall');
    console.log(`emitted ${asked}`);
  } catch (error) {
    console.log(`refused ${asked} ${error instanceof Error ? error.message : String(error)}`);
  }
}
console.log('done');
