import type { Plugin } from 'vitest/config';

/** Of the core of release 1.1, and in its place of that of 2.0. */
const NEW: Readonly<Record<string, string>> = {
  'lib/bus/relay/relay.ts': 'lib/bus/log/relay/relay.ts',
  'lib/bus/relay/kick.ts': 'lib/bus/log/relay/kick.ts',
  'lib/bus/relay/bell.ts': 'lib/bus/log/relay/bell.ts',
  'lib/bus/outbox/record.ts': 'lib/bus/log/record.ts',
  'lib/bus/deliveries/turn.ts': 'lib/bus/log/turn.ts',
  'lib/bus/deliveries/settle.ts': 'lib/bus/log/settle.ts',
  'lib/bus/deliveries/claim.ts': 'lib/bus/log/claim.ts',
  'tests/support/bus.ts': 'tests/log/bus.ts',
  'tests/support/records.ts': 'tests/log/records.ts',
  'tests/support/scenes.ts': 'tests/log/scenes.ts',
};

const OF_THE_NEW = ['/lib/bus/log/', '/tests/log/'];

/** Has the tests of promises run against the core of release 2.0, as they are: what they import is that core's. */
export function newCore(): Plugin {
  const root = new URL('../../', import.meta.url).pathname;
  return {
    name: 'new-core',
    enforce: 'pre',
    async resolveId(source, importer, options) {
      if (importer === undefined || OF_THE_NEW.some((folder) => importer.includes(folder))) return undefined;
      const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
      const path = resolved?.id.startsWith(root) === true ? resolved.id.slice(root.length) : '';
      return NEW[path] === undefined ? undefined : `${root}${NEW[path]}`;
    },
  };
}
