import { atMost } from '../command.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../arguments.ts';
import { commonOptionsOf } from '../settings.ts';

export const command: Command = {
  name: 'completion',
  summary: 'print the script with which bash and zsh complete commands, options and names',
  usage: ['completion'],
  notes: [
    'The script completes postbud and npx postbud: commands, options, topics and subscribers. It has the names of this release, so print it again after an update.',
  ],
  options: {},
  isOffline: true,
  examples: [
    ['completion > ~/.postbud.bash', 'then, in ~/.bashrc: source ~/.postbud.bash'],
    [
      'completion > ~/.postbud.bash',
      'then, in ~/.zshrc, after compinit: autoload -U bashcompinit && bashcompinit && source ~/.postbud.bash',
    ],
  ],
  async run({ given, terminal }) {
    atMost(0, given);
    const { allCommands } = await import('../main.ts');
    const { subscriberNames, topics } = await import('../../lib/bus/catalog/catalog.ts');
    const names = { topic: topics().map(([topic]) => topic), subscriber: subscriberNames() };
    terminal.out.write(completionScript(await allCommands(), names));
    return EXIT.ok;
  },
};

/** Writes the script. It has all words in it, so that no key press starts a process. */
export function completionScript(
  commands: readonly Command[],
  names: Readonly<Record<'topic' | 'subscriber', readonly string[]>>,
): string {
  const ofEach = commands.map((one) => {
    const options = Object.keys({ ...one.options, ...commonOptionsOf(one) }).map((option) => `--${option}`);
    const taken = [...one.usage, ...options].join(' ');
    const known = Object.entries(names).flatMap(([name, all]) => (taken.includes(name) ? all : []));
    return `      ${one.name}) words='${[...known, ...options].join(' ')}' ;;`;
  });
  const all = commands.map(({ name }) => name).join(' ');
  return `# Completes postbud, and npx postbud.
_postbud() {
  local line=("\${COMP_WORDS[@]:0:COMP_CWORD+1}") words= word
  [[ \${line[0]##*/} == npx ]] && line=("\${line[@]:1}")
  word=\${line[\${#line[@]}-1]}
  if ((\${#line[@]} <= 2)); then
    words='${all} help --help --version'
  else case "\${line[1]}" in
      help) words='${all}' ;;
${ofEach.join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
_postbud_npx() {
  if [[ \${COMP_WORDS[1]} == postbud ]] && ((COMP_CWORD > 1)); then _postbud; else COMPREPLY=(); fi
}
complete -F _postbud postbud
complete -p npx &>/dev/null || complete -o default -F _postbud_npx npx`;
}
