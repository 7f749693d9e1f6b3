import commands from '../commands.json' with { type: 'json' };
import { atMost } from '../command.ts';
import type { OfflineCall, OfflineCommand } from '../command.ts';
import { completionScript, SHELLS } from '../completion.ts';
import { EXIT, misused } from '../failure.ts';
import { unknownName } from '../nearest.ts';

export const command: OfflineCommand = {
  name: 'completion',
  summary: 'print the script with which a shell completes commands, options and names',
  usage: [`completion <${SHELLS.join('|')}>`],
  notes: [
    'The script completes postbud and npx postbud: commands, options, topics and subscribers. It has the names of this release, so print it again after an update.',
  ],
  options: {},
  isOffline: true,
  examples: [
    ['completion bash > ~/.postbud.bash', 'then, in ~/.bashrc: source ~/.postbud.bash'],
    ['completion zsh > ~/.postbud.zsh', 'then, in ~/.zshrc, after compinit: source ~/.postbud.zsh'],
    ['completion fish > ~/.config/fish/conf.d/postbud.fish', 'which fish reads by itself'],
  ],
  run,
};

async function run({ given, terminal }: OfflineCall): Promise<number> {
  atMost(1, given);
  const [written] = given.positionals;
  if (written === undefined)
    throw misused('Which shell? bash, zsh or fish.', 'For example: npx postbud completion bash');
  const shell = SHELLS.find((one) => one === written);
  if (shell === undefined) throw unknownName('shell', written, SHELLS);
  const { subscriberNames, topics } = await import('../../lib/bus/catalog/catalog.ts');
  const names = { topics: topics().map(([topic]) => topic), subscribers: subscriberNames() };
  terminal.out.write(completionScript(shell, { commands, ...names }).trimEnd());
  return EXIT.ok;
}
