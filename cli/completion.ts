import type { Listed } from './load.ts';
import { commonOptionsOf } from './settings.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** The words that a script completes. */
export interface Completed {
  readonly commands: readonly Listed[];
  readonly topics: readonly string[];
  readonly subscribers: readonly string[];
}

/**
 * Writes the script by which a shell completes the command line, as `postbud` and behind `npx`.
 *
 * It has all words in it, so that no key press starts a process.
 */
export function completionScript(shell: Shell, completed: Completed): string {
  return SCRIPTS[shell](completed);
}

const SCRIPTS: Readonly<Record<Shell, (completed: Completed) => string>> = { bash, zsh, fish };

/** The words after a command, or after one of its options, by what stands before them. */
function wordsAfter({ commands, topics, subscribers }: Completed) {
  const known = (placeholder: string): readonly string[] => {
    if (placeholder === 'topic') return topics;
    if (placeholder === 'subscriber' || placeholder === 'name') return subscribers;
    return placeholder.includes('|') ? placeholder.split('|') : [];
  };
  return commands.map(({ name, summary, takes = '', options, isOffline }) => {
    const common = Object.entries(commonOptionsOf(isOffline ? { isOffline: true } : {}));
    const placeholders = [
      ...Object.entries<string>(options),
      ...common.map(([option, { value = '' }]) => [option, value.replaceAll(/[<>]/g, '')] as const),
    ];
    return {
      name,
      summary,
      takes: known(takes),
      options: placeholders.map(([option, placeholder]) => ({
        name: `--${option}`,
        takesValue: placeholder !== '',
        takesFile: placeholder === 'file',
        values: known(option === 'subscriber' ? option : placeholder),
      })),
    };
  });
}

const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
const listed = (words: readonly string[]) => quoted(words.join(' '));

function bash(completed: Completed): string {
  const commands = wordsAfter(completed);
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map((option) =>
        option.takesFile
          ? `    '${name} ${option.name}') COMPREPLY=($(compgen -f -- "$word")); return ;;`
          : `    '${name} ${option.name}') words=${listed(option.values)} ;;`,
      ),
  );
  const others = commands.map(
    ({ name, takes, options }) =>
      `    '${name} '*) words=${listed([...takes, ...options.map((option) => option.name)])} ;;`,
  );
  return `# Completes postbud, and npx postbud. In ~/.bashrc: source <(npx postbud completion bash)
_postbud() {
  local line=("\${COMP_WORDS[@]:0:COMP_CWORD+1}") words= word
  [[ \${line[0]##*/} == npx ]] && line=("\${line[@]:1}")
  word=\${line[\${#line[@]}-1]}
  if ((\${#line[@]} <= 2)); then
    words=${listed([...commands.map(({ name }) => name), 'help', '--help', '--version'])}
  else case "\${line[1]} \${line[\${#line[@]}-2]}" in
    'help '*) words=${listed(commands.map(({ name }) => name))} ;;
${[...values, ...others].join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
_postbud_npx() {
  if [[ \${COMP_WORDS[1]} == postbud ]] && ((COMP_CWORD > 1)); then _postbud; else COMPREPLY=(); fi
}
complete -F _postbud postbud
complete -p npx &>/dev/null || complete -o default -F _postbud_npx npx
`;
}

function zsh(completed: Completed): string {
  const commands = wordsAfter(completed);
  const array = (words: readonly string[]) => words.map(quoted).join(' ');
  const described = commands.map(({ name, summary }) => quoted(`${name}:${summary.replaceAll(':', '\\:')}`));
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map((option) => {
        const add = option.takesFile ? '_files' : `compadd -- ${array(option.values)}`;
        return `    ${quoted(`${name} ${option.name}`)}) ${add}; return ;;`;
      }),
  );
  const others = commands.map(
    ({ name, takes, options }) =>
      `    ${quoted(`${name} `)}*) compadd -- ${array([...takes, ...options.map((option) => option.name)])} ;;`,
  );
  return `#compdef postbud
# Completes postbud, and npx postbud. In ~/.zshrc, after compinit: source <(npx postbud completion zsh)
_postbud() {
  local -a line commands
  line=("\${(@)words[1,CURRENT]}")
  [[ \${line[1]:t} == npx ]] && shift line
  commands=(
    ${described.join('\n    ')}
  )
  if (( $#line <= 2 )); then
    _describe command commands
    compadd -- help --help --version
    return
  fi
  case "$line[2] $line[-2]" in
    'help '*) _describe command commands ;;
${[...values, ...others].join('\n')}
  esac
}
_postbud_npx() {
  if [[ $words[2] == postbud ]] && (( CURRENT > 2 )); then _postbud; else _files; fi
}
compdef _postbud postbud
(( $+_comps[npx] )) || compdef _postbud_npx npx
`;
}

function fish(completed: Completed): string {
  const commands = wordsAfter(completed);
  const lines = commands.flatMap(({ name, summary, takes, options }) => [
    `  complete -c $program -n '__postbud_is ""' -f -a ${name} -d ${quoted(summary)}`,
    `  complete -c $program -n '__postbud_is help' -f -a ${name}`,
    `  complete -c $program -n '__postbud_is ${name}' -f${takes.length > 0 ? ` -a ${listed(takes)}` : ''}`,
    ...options.map((option) => {
      const value = option.takesFile ? ' -r -F' : option.takesValue ? ` -x -a ${listed(option.values)}` : '';
      return `  complete -c $program -n '__postbud_is ${name}' -l ${option.name.slice(2)}${value}`;
    }),
  ]);
  return `# Completes postbud, and npx postbud. In ~/.config/fish/config.fish: npx postbud completion fish | source
function __postbud_is --argument-names command
  set -l line (commandline -opc)
  test (path basename -- $line[1]) = npx; and set -e line[1]
  test (count $line) -gt 0; and test "$line[1]" = postbud; and test "$line[2]" = "$command"
end
for program in postbud npx
${lines.join('\n')}
  complete -c $program -n '__postbud_is ""' -f -a 'help --help --version'
end
`;
}
