import { readFileSync, writeFileSync } from 'node:fs';

// Estimates how far one database goes: figures measured on one small machine, multiplied. Prints the tables of
// bench/capacity.md and writes them there, between its marks.

/** Measured by the drain (`npm run bench`): an event of 150 bytes with three subscribers. */
const MEASURED = {
  /** Processor time of the database: places, claims and settlements of three deliveries. */
  relayCpuMs: 3 * 0.022,
  /** A producer's transaction that emits one event: one insert, one commit. */
  emitCpuMs: 0.15,
  walBytes: 1730,
  eventBytes: 380,
  deliveriesBytes: 712,
};

const FILE = new URL('capacity.md', import.meta.url);

const DAY_SECONDS = 86_400;

/** Share of a day's events in each hour, midnight first: nobody books at night, and everybody after work. */
const DAY_PROFILE = [1, 1, 1, 1, 1, 1, 3, 6, 8, 8, 7, 7, 6, 6, 7, 8, 9, 9, 8, 6, 4, 2, 1, 1];

const share = (hour: number) => DAY_PROFILE[hour]! / DAY_PROFILE.reduce((sum, part) => sum + part, 0);
const PEAK_SHARE = Math.max(...DAY_PROFILE.map((_, hour) => share(hour)));

const gigabytes = (bytes: number) => `${(bytes / 1e9).toFixed(bytes < 1e10 ? 1 : 0)} GB`;
const percent = (part: number) => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;
const number = (value: number) => Math.round(value).toLocaleString('en');

function database(): string[] {
  const rows = [100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000, 200_000_000].map((eventsADay) => {
    const peakPerSecond = (eventsADay * PEAK_SHARE) / 3600;
    const cores = (peakPerSecond * (MEASURED.relayCpuMs + MEASURED.emitCpuMs)) / 1000;
    const bytesADay = eventsADay * (MEASURED.eventBytes + MEASURED.deliveriesBytes);
    return [
      number(eventsADay),
      number(peakPerSecond),
      cores < 0.1 ? cores.toFixed(3) : cores.toFixed(1),
      `${((peakPerSecond * MEASURED.walBytes) / 1e6).toFixed(1)} MB/s`,
      gigabytes(bytesADay * 30),
      gigabytes(bytesADay * 365),
    ];
  });
  return table(
    ['events a day', 'a second at the peak', 'cores', 'write-ahead log', 'kept 30 days', 'kept a year'],
    rows,
  );
}

/** One lane through a day: an hour's events wait behind the earlier ones. */
function lane(eventsADay: number, handlerMs: number): { longestWaitMinutes: number; utilisation: number } {
  const perHour = 3_600_000 / handlerMs;
  let waiting = 0;
  let longest = 0;
  for (let hour = 0; hour < 48; hour += 1) {
    waiting = Math.max(0, waiting + eventsADay * share(hour % 24) - perHour);
    longest = Math.max(longest, waiting);
  }
  return {
    longestWaitMinutes: (longest * handlerMs) / 60_000,
    utilisation: (eventsADay * handlerMs) / (DAY_SECONDS * 1000),
  };
}

function lanes(): string[] {
  const rows = [1, 5, 20, 100, 500].map((handlerMs) => [
    `${handlerMs} ms`,
    ...[10_000, 100_000, 1_000_000, 10_000_000].map((eventsADay) => {
      const { longestWaitMinutes, utilisation } = lane(eventsADay, handlerMs);
      if (utilisation > 1) return 'falls behind';
      return longestWaitMinutes < 1 / 60
        ? `keeps up, ${percent(utilisation)}`
        : `${longestWaitMinutes < 10 ? longestWaitMinutes.toFixed(1) : number(longestWaitMinutes)} min late`;
    }),
  ]);
  return table(['handler', '10,000 a day', '100,000 a day', '1,000,000 a day', '10,000,000 a day'], rows);
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

/** Writes the tables between their marks. */
function write(): void {
  const tables = { database: database(), lanes: lanes() };
  const written = Object.entries(tables).reduce(
    (text, [name, lines]) =>
      text.replace(
        new RegExp(`(<!-- ${name} -->\n)[^]*?(\n<!-- end -->)`),
        (_, start: string, end: string) => `${start}\n${lines.join('\n')}\n${end}`,
      ),
    readFileSync(FILE, 'utf8'),
  );
  writeFileSync(FILE, written);
  console.log([...tables.database, '', ...tables.lanes].join('\n'));
}

write();
