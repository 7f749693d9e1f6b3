import { functionsOf } from './build/functions.ts';
import { outputConfig } from './build/routes.ts';
import { readVercelJson } from './build/vercel-json.ts';
import { fileResponse, pathsOf } from './platform/files.ts';
import { isForbidden, loadFunction, urlFor } from './platform/function-file.ts';
import { createRouting } from './platform/routing.ts';

/**
 * Routes requests as the platform does, by the routes that the build writes, but to the sources: the files of `public/`
 * and `api/`.
 *
 * @returns null for an unknown path.
 */
export function createRouter(root: URL): (request: Request) => Promise<Response | null> {
  const vercelJson = readVercelJson(root);
  const functions = functionsOf(root, vercelJson);
  const publicFiles = new URL('public/', root);
  const { routes } = outputConfig(vercelJson, functions);
  const destinationOf = createRouting(routes, {
    files: pathsOf(publicFiles),
    functions: new Set(functions.map(({ name }) => name)),
  });
  return async (request) => {
    const destination = destinationOf(new URL(request.url).pathname);
    switch (destination.kind) {
      case 'file':
        return await fileResponse(publicFiles, destination);
      case 'function': {
        const { name, query } = destination;
        const handle = await loadFunction(new URL(`${name}.ts`, root));
        return await handle(
          query.size === 0 || isForbidden(request) ? request : new Request(urlFor(request, query), request),
        );
      }
      case 'nothing':
        return null;
    }
  };
}
