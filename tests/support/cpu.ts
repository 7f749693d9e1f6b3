/**
 * The milliseconds of processor time that something takes, whatever else the machine has to do meanwhile: the least of
 * three goes, since the collector and the compiler of a busy process have work of their own.
 */
export function cpuMs(body: () => unknown): number {
  const goes = Array.from({ length: 3 }, () => {
    const before = process.cpuUsage();
    body();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  return Math.min(...goes);
}
