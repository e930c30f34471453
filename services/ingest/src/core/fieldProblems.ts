/** What TypeBox finds wrong with the fields of a small body, as problems: one for each field. Pure. */
import type { ElementProblem, ProblemCode } from '@questlog/schemas/http/problem';

/** The part of a TypeBox error that is used here. */
export interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

export function fieldProblems(errors: readonly SchemaError[]): ElementProblem[] {
  return onePerPointer(errors.flatMap(problemsOf));
}

function problemsOf(error: SchemaError): ElementProblem[] {
  const required: unknown = Reflect.get(error.params, 'requiredProperties');
  const field = error.instancePath.slice(1).replaceAll('/', '.');
  if (error.keyword === 'required' && Array.isArray(required)) {
    const inside = field === '' ? '' : `${field}.`;
    return required.map((name) => {
      return problem(`${error.instancePath}/${name}`, 'field_required', `${inside}${name} is required`);
    });
  }
  const schemaSaysUuid = error.keyword === 'format' || error.keyword === 'pattern';
  if (schemaSaysUuid) return [problem(error.instancePath, 'invalid_uuid', `${field} must be a UUID`)];
  // Said of each field that a closed schema does not have, and once more of the object that has it.
  if (error.keyword === 'boolean') {
    return [problem(error.instancePath, 'field_invalid', `there is no field ${field}`)];
  }
  if (error.keyword === 'additionalProperties') return [];
  const allowed: unknown = Reflect.get(error.params, 'allowedValues');
  if (Array.isArray(allowed)) {
    return [problem(error.instancePath, 'field_invalid', `${field} must be one of ${allowed.join(', ')}`)];
  }
  const code = error.keyword === 'type' ? 'field_type' : 'field_invalid';
  return [problem(error.instancePath, code, `${field} ${error.message}`)];
}

function problem(pointer: string, code: ProblemCode, detail: string): ElementProblem {
  return { index: 0, pointer, code, detail };
}

/** The first of each. */
function onePerPointer(errors: readonly ElementProblem[]): ElementProblem[] {
  return [...new Map(errors.toReversed().map((error) => [error.pointer, error])).values()].toReversed();
}
