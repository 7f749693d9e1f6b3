import * as z from 'zod';

import type { Scope } from '../../http/openapi/operation.ts';
import { HTML_TYPE, JSON_TYPE, refused } from '../../http/openapi/operation.ts';
import type { Answer, Example, Operation } from '../../http/openapi/operation.ts';
import type { ProblemCode } from '../../http/problem-codes.ts';

/** An operation of operators: a page for browsers and JSON for programs. */
type OperatorOperation = Omit<Operation, 'access' | 'answers' | 'tag' | 'hasPages'> & {
  readonly access: Scope;
  /** Of the answer with status 200. */
  readonly answer: z.ZodType;
  readonly links?: NonNullable<Answer['links']>;
};

/** How a browser is answered: with a page, by being sent on to one, or, as the request is, with either. */
type ForBrowsers = 'page' | 'elsewhere' | 'either';

const PROBLEMS: readonly ProblemCode[] = [
  'unauthorized',
  'invalid_token',
  'insufficient_scope',
  'not_acceptable',
  'operators_not_configured',
  'key_server_unavailable',
];

const BODY_PROBLEMS: readonly ProblemCode[] = [
  'validation_failed',
  'incomplete_body',
  'body_too_large',
  'unsupported_media_type',
  'unsupported_encoding',
  'cross_site_request',
];

/** What a browser with a cookie is told after a form. */
const SEE_OTHER: Answer = {
  status: 303,
  description: 'The same, to a browser that sent a form: the page to go on to.',
  headers: ['Location'],
};

/** An operation that shows something: as JSON, or as a page of the console. */
export function showing(operation: Omit<OperatorOperation, 'method' | 'body'>): Operation {
  const { answer, links, ...rest } = operation;
  return {
    ...rest,
    method: 'get',
    tag: 'Event bus',
    hasPages: true,
    answers: [shown(answer, links, 'page')],
    problems: [...PROBLEMS, ...rest.problems],
    examples: { ...rest.examples, ...refusals(rest.examples, operation.access) },
  };
}

/** An operation that does something. */
export function doing(
  operation: Omit<OperatorOperation, 'method'>,
  forBrowsers: ForBrowsers = 'elsewhere',
): Operation {
  const { answer, links, ...rest } = operation;
  return {
    ...rest,
    method: 'post',
    tag: 'Event bus',
    hasPages: true,
    answers: [shown(answer, links, forBrowsers), ...(forBrowsers === 'page' ? [] : [SEE_OTHER])],
    problems: [...PROBLEMS, ...BODY_PROBLEMS, ...rest.problems],
    examples: { ...rest.examples, ...refusals(rest.examples, operation.access) },
  };
}

function shown(answer: z.ZodType, links: Answer['links'], forBrowsers: ForBrowsers): Answer {
  return {
    status: 200,
    description: answer.description ?? 'What was asked for.',
    content: { [JSON_TYPE]: answer, ...(forBrowsers !== 'elsewhere' && { [HTML_TYPE]: z.string() }) },
    ...(links && { links }),
  };
}

/** The first example again, by somebody else. */
function refusals(examples: Operation['examples'], scope: Scope): Readonly<Record<string, Example>> {
  const [request] = Object.values(examples);
  return {
    'without-a-token': { ...request, summary: 'Without a token', answer: refused('unauthorized') },
    'without-the-scope': {
      ...request,
      summary: `With a token that lacks the scope ${scope}`,
      answer: refused('insufficient_scope', { detail: `The token lacks the scope ${scope}.` }),
    },
  };
}
