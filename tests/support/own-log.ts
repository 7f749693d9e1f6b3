import { logTo } from '../../lib/platform/log.ts';

// Where files share their modules, each begins with the log on standard output, wherever the one before had it sent.
logTo((line) => void process.stdout.write(`${JSON.stringify(line)}\n`));
