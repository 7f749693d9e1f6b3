import { createRequire } from 'node:module';
import { join } from 'node:path';

/** The parts of TypeScript's language service that say what an editor shows. */
interface LanguageService {
  getQuickInfoAtPosition(
    file: string,
    position: number,
  ): {
    readonly documentation?: Parts;
    readonly tags?: readonly { readonly name: string; readonly text?: Parts }[];
  };
}
type Parts = readonly { readonly text: string }[];

interface TypeScript {
  readonly sys: { readFile(name: string): string | undefined } & Readonly<Record<string, unknown>>;
  readonly ModuleKind: { readonly NodeNext: number };
  readonly ScriptSnapshot: { fromString(text: string): unknown };
  getDefaultLibFilePath(options: unknown): string;
  createLanguageService(host: object): LanguageService;
}

/** Makes what tells, of places in a text that stands in a repository, what an editor shows of them. */
export function hoverIn(folder: string, text: string): (place: string) => string {
  const file = join(folder, 'src/hovered.ts');
  const ts = createRequire(file)('typescript-5') as TypeScript;
  const readFile = (name: string) => (name === file ? text : ts.sys.readFile(name));
  const service = ts.createLanguageService({
    ...ts.sys,
    readFile,
    useCaseSensitiveFileNames: () => true,
    fileExists: (name: string) => readFile(name) !== undefined,
    getScriptFileNames: () => [file],
    getScriptVersion: () => '1',
    getScriptSnapshot: (name: string) => {
      const content = readFile(name);
      return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
    },
    getCurrentDirectory: () => folder,
    getCompilationSettings: () => ({ module: ts.ModuleKind.NodeNext, strict: true, types: [] }),
    getDefaultLibFileName: (options: unknown) => ts.getDefaultLibFilePath(options),
  });
  return (place) => {
    const { documentation = [], tags = [] } = service.getQuickInfoAtPosition(file, text.indexOf(place));
    const written = (parts: Parts = []) => parts.map((part) => part.text).join('');
    return [written(documentation), ...tags.map(({ name, text }) => `@${name} ${written(text)}`)].join('\n');
  };
}
